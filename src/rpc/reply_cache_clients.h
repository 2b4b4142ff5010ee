// The clients of a ReplyCache, indexed by address, by the time of their last call, and by their number of entries.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/steady_map.h"
#include "base/timer.h"

namespace penstock::rpc {

// Tracks the connections of a client: which ones it has abandoned, and which ones it may have abandoned, judged by the
// cached replies. It remembers the most recent of each.
class ClientConnections {
 public:
  static constexpr size_t kMostLeft = 64;
  // More than a server accepts from one host by default, because an unknown connection is not trusted.
  static constexpr size_t kMostUsed = 1024;

  // Records a call on the connection. Returns the call's number for HandleForgotten().
  uint64_t HandleCall(uint64_t connection) {
    ++calls_;
    last_calls_[connection] = calls_;
    if (last_calls_.size() > kMostUsed) {
      last_calls_.erase(std::ranges::min_element(last_calls_, {}, [](const auto& each) { return each.second; }));
    }
    return calls_;
  }
  // Records that the cache has forgotten the call with this number, which arrived over `connection` last.
  void HandleForgotten(uint64_t call, uint64_t connection) {
    forgotten_call_ = std::max(forgotten_call_, call);
    forgotten_connection_ = std::max(forgotten_connection_, connection);
  }

  void Leave(uint64_t connection) {
    if (std::ranges::find(left_, connection) != left_.end()) return;
    if (left_.size() < kMostLeft) {
      left_.push_back(connection);
    } else {
      left_[next_left_++ % kMostLeft] = connection;
    }
  }
  // Returns true if the client may have retransmitted the next call of this connection over a newer connection. If the
  // cache has forgotten a call of a newer connection, this is true for each connection that has been silent since
  // before that call.
  bool MayHaveLeft(uint64_t connection) const {
    if (std::ranges::find(left_, connection) != left_.end()) return true;
    if (connection >= forgotten_connection_) return false;
    const auto last = last_calls_.find(connection);
    return last == last_calls_.end() || last->second < forgotten_call_;
  }

 private:
  uint64_t calls_ = 0;
  std::unordered_map<uint64_t, uint64_t> last_calls_;  // the key is the connection
  std::vector<uint64_t> left_;                         // a ring buffer
  size_t next_left_ = 0;
  uint64_t forgotten_call_ = 0;
  uint64_t forgotten_connection_ = 0;
};

// Each operation takes constant time. Only top_rank() is thread-safe.
class CachedClients {
 public:
  using Address = std::array<std::byte, 16>;

  // The replies of one kind in order, by their indexes in the cache.
  struct Order {
    static constexpr uint32_t kNone = ~0u;
    uint32_t oldest = kNone;
    uint32_t newest = kNone;
    size_t used = 0;  // entries, see ReplyCache::kEntryOctets
  };
  struct Client {
    Address address;
    Order writes;
    Order changes;
    size_t executing = 0;
    ClientConnections connections;

    size_t used() const { return writes.used + changes.used; }

   private:
    friend class CachedClients;
    TimePoint seen_;
    Client* seen_before_ = nullptr;
    Client* seen_after_ = nullptr;
    unsigned rank_ = 0;
    Client* rank_before_ = nullptr;
    Client* rank_after_ = nullptr;
  };

  size_t size() const { return clients_.size(); }

  // Returns null if the client is unknown.
  Client* Find(const Address& address) {
    auto found = clients_.find(address);
    return found == clients_.end() ? nullptr : &found->second;
  }
  // Requires !Find(address).
  Client& Add(const Address& address, TimePoint now) {
    Client& client = clients_[address];
    client.address = address;
    client.seen_ = now;
    LinkSeen(client);
    return client;
  }
  // Requires that the client has no entry and no call under execution.
  void Remove(Client& client) {
    UnlinkSeen(client);
    const Address address = client.address;
    clients_.erase(address);
  }

  // Records that the client has called, or that one of its calls has ended.
  void Touch(Client& client, TimePoint now) {
    client.seen_ = now;
    if (last_seen_ == &client) return;
    UnlinkSeen(client);
    LinkSeen(client);
  }
  // Returns the client with the oldest last call if that is older than `limit`, else null.
  Client* FindIdle(TimePoint now, Duration limit) const {
    return first_seen_ && now - first_seen_->seen_ > limit ? first_seen_ : nullptr;
  }

  // Updates the rank after a change of used().
  void Rank(Client& client) {
    const unsigned rank = RankOf(client.used());
    if (rank == client.rank_) return;
    if (client.rank_ > 0) {
      (client.rank_before_ ? client.rank_before_->rank_after_ : ranks_[client.rank_]) = client.rank_after_;
      if (client.rank_after_) client.rank_after_->rank_before_ = client.rank_before_;
    }
    client.rank_ = rank;
    client.rank_before_ = client.rank_after_ = nullptr;
    if (rank > 0) {
      client.rank_after_ = std::exchange(ranks_[rank], &client);
      if (client.rank_after_) client.rank_after_->rank_before_ = &client;
    }
    unsigned top = std::max(top_rank(), rank);
    while (top > 0 && !ranks_[top]) --top;
    top_rank_.store(top, std::memory_order_relaxed);
  }
  // The rank of the client with most entries, or 0 if there is no entry. Thread-safe.
  unsigned top_rank() const { return top_rank_.load(std::memory_order_relaxed); }
  // Returns a client of the highest rank, or null. No other client has more than 5/4 of its entries.
  Client* FindLargest() const { return ranks_[top_rank()]; }

 private:
  // Four ranks for each power of two.
  static constexpr unsigned kRanks = 4 * 30;

  struct Hash {
    size_t operator()(const Address& address) const {
      const uint64_t high = LoadBig<uint64_t>(address.data());
      const uint64_t low = LoadBig<uint64_t>(address.data() + 8);
      return (high * 31 ^ low) * 0x9e37'79b9'7f4a'7c15u >> 16;
    }
  };

  static unsigned RankOf(size_t used) {
    if (used < 4) return static_cast<unsigned>(used);
    const auto width = static_cast<unsigned>(std::bit_width(used));
    return std::min<unsigned>(4 * (width - 2) + ((used >> (width - 3)) & 3), kRanks - 1);
  }

  void LinkSeen(Client& client) {
    client.seen_before_ = std::exchange(last_seen_, &client);
    (client.seen_before_ ? client.seen_before_->seen_after_ : first_seen_) = &client;
  }
  void UnlinkSeen(Client& client) {
    (client.seen_before_ ? client.seen_before_->seen_after_ : first_seen_) = client.seen_after_;
    (client.seen_after_ ? client.seen_after_->seen_before_ : last_seen_) = client.seen_before_;
    client.seen_before_ = client.seen_after_ = nullptr;
  }

  SteadyMap<Address, Client, Hash> clients_;
  Client* first_seen_ = nullptr;
  Client* last_seen_ = nullptr;
  std::array<Client*, kRanks> ranks_{};  // ranks_[0] stays empty
  std::atomic<unsigned> top_rank_{0};
};

}  // namespace penstock::rpc
