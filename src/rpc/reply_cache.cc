#include "rpc/reply_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace penstock::rpc {
namespace {

constexpr uint32_t kNone = ~0u;

uint64_t Mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * 0x9e37'79b9'7f4a'7c15u;
  return state ^ (state >> 29);
}

uint64_t HashOf(const CallKey& key) {
  uint64_t hash = Mix(key.checksum, uint64_t{key.xid.value()} << 32 | key.length);
  hash = Mix(hash, uint64_t{key.program} << 32 | key.procedure << 8 | key.version);
  hash = Mix(hash, LoadBig<uint64_t>(key.address.data()));
  return Mix(hash, LoadBig<uint64_t>(key.address.data() + 8));
}

size_t OctetsHeldBy(const Message& reply) {
  size_t octets = reply.stream.owner() ? reply.stream.owner()->capacity() : 0;
  for (const xdr::Item& item : reply.items) octets += item.data.size();
  return octets;
}

}  // namespace

std::array<std::byte, 16> CacheAddress(const IpAddress& address) {
  const auto v6 = address.is_v6() ? address.to_v6() : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4());
  return std::bit_cast<std::array<std::byte, 16>>(v6.to_bytes());
}

uint64_t ArgumentChecksum(ConstBytes arguments) {
  arguments = arguments.first(std::min(arguments.size(), kChecksummedOctets));
  uint64_t checksum = 1;
  for (; arguments.size() >= 8; arguments = arguments.subspan(8)) {
    checksum = Mix(checksum, LoadBig<uint64_t>(arguments.data()));
  }
  std::byte rest[8] = {};
  CopyBytes(rest, arguments);
  return Mix(checksum, LoadBig<uint64_t>(rest));
}

// One part of the table with its own lock. Entries live in `entries_` and name each other by index: a chain per bucket,
// a free list, and the replies that are done in the order in which they were.
class ReplyCache::Shard {
 public:
  explicit Shard(Limits limits) : limits_(limits), buckets_(std::bit_ceil(limits.entries), kNone) {}

  Found Start(const CallKey& key, uint64_t hash, TimePoint now, Waiter& waiter) {
    std::lock_guard lock(mutex_);
    while (oldest_ != kNone && now - entries_[oldest_].done_at > limits_.age) Evict(oldest_);
    for (uint32_t at = buckets_[BucketOf(hash)]; at != kNone; at = entries_[at].chain) {
      Entry& entry = entries_[at];
      if (entry.key != key) continue;
      if (entry.done) return {Outcome::kReplay, at, entry.reply};
      waiter.next = std::exchange(entry.waiters, &waiter);
      return {Outcome::kWait, at, {}};
    }
    const uint32_t at = FreeEntry();
    if (at == kNone) return {Outcome::kUncached, 0, {}};
    Entry& entry = entries_[at];
    entry.key = key;
    entry.hash = hash;
    entry.chain = std::exchange(buckets_[BucketOf(hash)], at);
    return {Outcome::kExecute, at, {}};
  }

  void Finish(uint32_t at, const Message& reply, TimePoint now, Loop* here, bool remember) {
    Waiter* waiters;
    {
      std::lock_guard lock(mutex_);
      Entry& entry = entries_[at];
      assert(!entry.done);
      waiters = std::exchange(entry.waiters, nullptr);
      if (reply.empty() || !remember) {
        Remove(at);
      } else {
        entry.reply = reply;
        entry.done = true;
        entry.done_at = now;
        octets_ += OctetsHeldBy(reply);
        ++done_count_;
        entry.older = std::exchange(newest_, at);
        (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = at;
        while (octets_ > limits_.octets) Evict(oldest_);
      }
    }
    while (waiters) {
      Waiter* waiter = std::exchange(waiters, waiters->next);
      if (waiter->loop == here) {
        waiter->reply.Set(reply);
      } else {
        waiter->loop->Post([waiter, reply] { waiter->reply.Set(reply); });
      }
    }
  }

  size_t entries() const {
    std::lock_guard lock(mutex_);
    return done_count_;
  }
  size_t octets() const {
    std::lock_guard lock(mutex_);
    return octets_;
  }

 private:
  struct Entry {
    CallKey key;
    uint64_t hash = 0;
    uint32_t chain = kNone;  // next in its bucket, or in the free list
    bool done = false;
    // While it is executed:
    Waiter* waiters = nullptr;
    // When it is done:
    Message reply;
    TimePoint done_at;
    uint32_t older = kNone;
    uint32_t newer = kNone;
  };

  size_t BucketOf(uint64_t hash) const { return (hash >> 8) & (buckets_.size() - 1); }

  uint32_t FreeEntry() {
    if (free_ == kNone && entries_.size() < limits_.entries) {
      entries_.emplace_back();
      return static_cast<uint32_t>(entries_.size() - 1);
    }
    if (free_ == kNone && oldest_ != kNone) Evict(oldest_);
    if (free_ == kNone) return kNone;
    const uint32_t at = free_;
    free_ = std::exchange(entries_[at].chain, kNone);
    return at;
  }

  void Evict(uint32_t at) {
    Entry& entry = entries_[at];
    octets_ -= OctetsHeldBy(entry.reply);
    --done_count_;
    (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
    (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
    Remove(at);
  }

  void Remove(uint32_t at) {
    uint32_t* link = &buckets_[BucketOf(entries_[at].hash)];
    while (*link != at) link = &entries_[*link].chain;
    *link = entries_[at].chain;
    entries_[at] = Entry{};
    entries_[at].chain = std::exchange(free_, at);
  }

  const Limits limits_;
  mutable std::mutex mutex_;  // guards everything below; held for a few memory accesses, never across co_await
  std::vector<uint32_t> buckets_;
  std::vector<Entry> entries_;
  uint32_t free_ = kNone;
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  size_t octets_ = 0;
  size_t done_count_ = 0;
};

ReplyCache::ReplyCache(Limits limits) {
  limits.entries = std::max<size_t>(1, limits.entries / kShards);
  limits.octets /= kShards;
  for (auto& shard : shards_) shard = std::make_unique<Shard>(limits);
}

ReplyCache::~ReplyCache() = default;

ReplyCache::Found ReplyCache::Start(const CallKey& key, TimePoint now, Waiter& waiter) {
  const uint64_t hash = HashOf(key);
  const uint32_t shard = hash % kShards;
  Found found = shards_[shard]->Start(key, hash, now, waiter);
  found.ticket = found.ticket * kShards + shard;
  return found;
}

void ReplyCache::Finish(uint32_t ticket, const Message& reply, TimePoint now, Loop* here, bool remember) {
  shards_[ticket % kShards]->Finish(ticket / kShards, reply, now, here, remember);
}

size_t ReplyCache::entries() const {
  size_t sum = 0;
  for (const auto& shard : shards_) sum += shard->entries();
  return sum;
}

size_t ReplyCache::octets() const {
  size_t sum = 0;
  for (const auto& shard : shards_) sum += shard->octets();
  return sum;
}

}  // namespace penstock::rpc
