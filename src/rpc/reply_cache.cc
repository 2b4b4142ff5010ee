#include "rpc/reply_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <deque>
#include <utility>

#include "base/mix.h"
#include "rpc/reply_cache_clients.h"

namespace penstock::rpc {
namespace {

constexpr uint32_t kNone = CachedClients::Order::kNone;

uint64_t HashOf(const std::array<std::byte, 16>& address) {
  return Mix(Mix(1, LoadBig<uint64_t>(address.data())), LoadBig<uint64_t>(address.data() + 8));
}

uint64_t HashOf(const CallKey& key) {
  uint64_t hash = Mix(key.checksum, uint64_t{key.xid.value()} << 32 | key.length);
  hash = Mix(hash, uint64_t{key.program} << 32 | key.procedure << 8 | key.version);
  return Mix(hash, HashOf(key.address));
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

// A part of the clients, with its own lock. Entries live in `entries_` and link to each other by index: in a chain for
// each bucket, in the free list, and in a list of the replies of each client and kind, ordered by time.
class ReplyCache::Shard {
 public:
  Shard(const Limits& limits, std::atomic<size_t>& used, std::atomic<size_t>& executing)
      : limits_(limits),
        most_clients_(std::max<size_t>(1, limits.clients / kShards)),
        used_(used),
        executing_(executing),
        buckets_(64, kNone) {}

  Found Start(const CallKey& key, uint64_t hash, uint64_t connection, TimePoint now, Waiter& waiter) {
    std::lock_guard lock(mutex_);
    ForgetIdle(now);
    Client* client = FindOrAdd(key.address, now);
    if (!client) return {Outcome::kUncached, 0, {}};
    if (connection != 0 && client->connections.MayHaveLeft(connection)) {
      client->connections.Leave(connection);
      return {Outcome::kLeft, 0, {}};
    }
    const uint64_t number = connection != 0 ? client->connections.HandleCall(connection) : 0;
    for (uint32_t at = buckets_[BucketOf(hash)]; at != kNone; at = entries_[at].chain) {
      Entry& entry = entries_[at];
      if (entry.key != key) continue;
      if (entry.done && now - entry.done_at > limits_.age) {
        Evict(at);
        break;
      }
      if (connection != 0 && connection < entry.connection) {
        // The client has retransmitted this call over a newer connection, so it is late.
        client->connections.Leave(connection);
        return {Outcome::kLeft, 0, {}};
      }
      if (entry.connection != 0 && entry.connection < connection) client->connections.Leave(entry.connection);
      entry.connection = std::max(entry.connection, connection);
      entry.number = number;
      if (entry.done) return {Outcome::kReplay, at, entry.reply};
      waiter.next = std::exchange(entry.waiters, &waiter);
      return {Outcome::kWait, at, {}};
    }
    if (executing_.load(std::memory_order_relaxed) >= std::max<size_t>(1, limits_.entries / 2)) {
      return {Outcome::kUncached, 0, {}};
    }
    return {Outcome::kExecute, Add(key, hash, connection, number, *client), {}};
  }

  void Finish(uint32_t at, const Message& reply, TimePoint now, Loop* here, Keep keep) {
    Waiter* waiters;
    {
      std::lock_guard lock(mutex_);
      Entry& entry = entries_[at];
      assert(!entry.done);
      waiters = std::exchange(entry.waiters, nullptr);
      Client& client = *entry.client;
      --client.executing;
      executing_.fetch_sub(1, std::memory_order_relaxed);
      clients_.Touch(client, now);
      if (reply.empty() || keep == Keep::kNothing) {
        used_.fetch_sub(1, std::memory_order_relaxed);
        Remove(at);
      } else {
        Remember(at, reply, now, keep);
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

  // See CachedClients. Thread-safe, without the lock.
  unsigned top_rank() const { return clients_.top_rank(); }

  // Removes a reply of the client with most entries: the oldest one of the kind with more entries.
  void EvictFromLargest() {
    std::lock_guard lock(mutex_);
    const Client* client = clients_.FindLargest();
    if (!client) return;
    Evict(client->writes.used > client->changes.used ? client->writes.oldest : client->changes.oldest);
  }

  size_t entries() const {
    std::lock_guard lock(mutex_);
    return done_count_;
  }
  size_t octets() const {
    std::lock_guard lock(mutex_);
    return octets_;
  }
  size_t clients() const {
    std::lock_guard lock(mutex_);
    return clients_.size();
  }

 private:
  using Client = CachedClients::Client;
  using Order = CachedClients::Order;

  // A client stays known until its last call is older than Limits::age, and for a shorter time if there are many
  // clients.
  static constexpr Duration kIdleInCrowd = std::chrono::minutes(1);
  // The number of an idle client's entries that each call removes, so that its memory is freed gradually and no call
  // takes long.
  static constexpr int kForgottenAtOnce = 8;

  struct Entry {
    CallKey key;
    uint64_t hash = 0;
    uint32_t chain = kNone;  // next in its bucket, or in the free list
    Client* client = nullptr;
    uint64_t connection = 0;  // the newest connection over which the call arrived
    uint64_t number = 0;      // see ClientConnections
    bool done = false;
    // While it is executed:
    Waiter* waiters = nullptr;
    // When it is done:
    Message reply;
    Keep keep = Keep::kNothing;
    TimePoint done_at;
    uint32_t older = kNone;
    uint32_t newer = kNone;
  };
  static size_t UsedBy(const Message& reply) {
    return std::max<size_t>(1, (OctetsHeldBy(reply) + kEntryOctets - 1) / kEntryOctets);
  }
  Order& OrderOf(const Entry& entry) {
    return entry.keep == Keep::kChange ? entry.client->changes : entry.client->writes;
  }
  size_t BucketOf(uint64_t hash) const { return (hash >> 8) & (buckets_.size() - 1); }

  // Returns null if the client is new and there are too many clients.
  Client* FindOrAdd(const std::array<std::byte, 16>& address, TimePoint now) {
    Client* client = clients_.Find(address);
    if (client) {
      clients_.Touch(*client, now);
    } else if (clients_.size() < most_clients_) {
      client = &clients_.Add(address, now);
    }
    return client;
  }

  void ForgetIdle(TimePoint now) {
    const bool crowded = 4 * clients_.size() >= 3 * most_clients_;
    Client* client = clients_.FindIdle(now, crowded ? std::min(kIdleInCrowd, limits_.age) : limits_.age);
    if (!client) return;
    for (int i = 0; i < kForgottenAtOnce && client->used() > 0; ++i) {
      Evict(client->writes.used > 0 ? client->writes.oldest : client->changes.oldest);
    }
    if (client->executing > 0) {
      clients_.Touch(*client, now);  // so that it is not first in the order of idle clients
    } else if (client->used() == 0) {
      clients_.Remove(*client);
    }
  }

  uint32_t Add(const CallKey& key, uint64_t hash, uint64_t connection, uint64_t number, Client& client) {
    if (free_ == kNone) {
      entries_.emplace_back();
      free_ = static_cast<uint32_t>(entries_.size() - 1);
      if (entries_.size() > buckets_.size()) Rehash();
    }
    const uint32_t at = free_;
    Entry& entry = entries_[at];
    free_ = entry.chain;
    entry.key = key;
    entry.hash = hash;
    entry.chain = std::exchange(buckets_[BucketOf(hash)], at);
    entry.client = &client;
    entry.connection = connection;
    entry.number = number;
    ++client.executing;
    executing_.fetch_add(1, std::memory_order_relaxed);
    used_.fetch_add(1, std::memory_order_relaxed);
    return at;
  }

  void Rehash() {
    buckets_.assign(2 * buckets_.size(), kNone);
    for (uint32_t at = 0; at < entries_.size(); ++at) {
      if (!entries_[at].client) continue;
      entries_[at].chain = std::exchange(buckets_[BucketOf(entries_[at].hash)], at);
    }
  }

  void Remember(uint32_t at, const Message& reply, TimePoint now, Keep keep) {
    Entry& entry = entries_[at];
    entry.reply = reply;
    entry.keep = keep;
    entry.done = true;
    entry.done_at = now;
    octets_ += OctetsHeldBy(reply);
    ++done_count_;
    const size_t used = UsedBy(reply);
    used_.fetch_add(used - 1, std::memory_order_relaxed);
    Client& client = *entry.client;
    Order& order = OrderOf(entry);
    order.used += used;
    entry.older = std::exchange(order.newest, at);
    (entry.older == kNone ? order.oldest : entries_[entry.older].newer) = at;
    clients_.Rank(client);
    const size_t quota = keep == Keep::kChange ? limits_.client_changes : limits_.client_writes;
    while (order.used > quota) Evict(order.oldest);
  }

  void Evict(uint32_t at) {
    Entry& entry = entries_[at];
    Client& client = *entry.client;
    Order& order = OrderOf(entry);
    octets_ -= OctetsHeldBy(entry.reply);
    --done_count_;
    const size_t used = UsedBy(entry.reply);
    used_.fetch_sub(used, std::memory_order_relaxed);
    order.used -= used;
    client.connections.HandleForgotten(entry.number, entry.connection);
    (entry.older == kNone ? order.oldest : entries_[entry.older].newer) = entry.newer;
    (entry.newer == kNone ? order.newest : entries_[entry.newer].older) = entry.older;
    Remove(at);
    clients_.Rank(client);
  }

  void Remove(uint32_t at) {
    uint32_t* link = &buckets_[BucketOf(entries_[at].hash)];
    while (*link != at) link = &entries_[*link].chain;
    *link = entries_[at].chain;
    entries_[at] = Entry{};
    entries_[at].chain = std::exchange(free_, at);
  }

  const Limits& limits_;
  const size_t most_clients_;
  std::atomic<size_t>& used_;
  std::atomic<size_t>& executing_;
  mutable std::mutex mutex_;  // guards all members below; held for a few memory accesses, never across co_await
  CachedClients clients_;
  std::vector<uint32_t> buckets_;
  std::deque<Entry> entries_;
  uint32_t free_ = kNone;
  size_t octets_ = 0;
  size_t done_count_ = 0;
};

ReplyCache::ReplyCache(Limits limits) : limits_(limits) {
  for (auto& shard : shards_) shard = std::make_unique<Shard>(limits_, used_, executing_);
}

ReplyCache::~ReplyCache() = default;

ReplyCache::Found ReplyCache::Start(const CallKey& key, uint64_t connection, TimePoint now, Waiter& waiter) {
  // All of a client's entries are in one shard.
  const uint32_t shard = HashOf(key.address) % kShards;
  Found found = shards_[shard]->Start(key, HashOf(key), connection, now, waiter);
  found.ticket = found.ticket * kShards + shard;
  if (found.outcome == Outcome::kExecute) Shrink();
  return found;
}

void ReplyCache::Finish(uint32_t ticket, const Message& reply, TimePoint now, Loop* here, Keep keep) {
  shards_[ticket % kShards]->Finish(ticket / kShards, reply, now, here, keep);
  Shrink();
}

void ReplyCache::Shrink() {
  while (used_.load(std::memory_order_relaxed) > limits_.entries) {
    const auto largest = std::ranges::max_element(shards_, {}, [](const auto& shard) { return shard->top_rank(); });
    if ((*largest)->top_rank() == 0) return;
    (*largest)->EvictFromLargest();
  }
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

size_t ReplyCache::clients() const {
  size_t sum = 0;
  for (const auto& shard : shards_) sum += shard->clients();
  return sum;
}

}  // namespace penstock::rpc
