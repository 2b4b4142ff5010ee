// The duplicate request cache. A retransmitted call (after a timeout, or on a new connection) gets the reply of the
// first one, and is not executed again. The cache serves procedures whose second execution would differ from the first:
// REMOVE would answer NOENT, and RENAME and MKDIR behave likewise (RFC 1813 §4.5, RFC 5531 §9 on XIDs). It also serves
// WRITE: a late execution would undo later writes of the client.
//
// A client retransmits its calls on another connection, and abandons the earlier one. Calls on the abandoned connection
// may still be in transit and arrive much later. The cache recognizes abandoned connections, and connections that may
// be abandoned according to its entries. Calls on these connections are dropped.
//
// Security flavors do not matter here: a cached reply has an empty verifier, and is sealed each time that it is sent.
//
// A client is an address. Each client has its own quotas. To make room, the cache takes from the client that has most:
//
//   - A client keeps its last Limits::client_changes replies of one kind and Limits::client_writes of the other, as
//   long
//     as the whole cache has room. Calls of other clients do not change that.
//   - If the cache is full, a client with less than a third of the average share (Limits::entries / clients) loses no
//     reply that is younger than Limits::age.
//   - The cache never forgets a call that is being executed.
//   - If Limits::clients clients have called within the last minute, calls of further clients are executed without
//   being
//     cached.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/loop.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// Identifies a call. It excludes the client's port, which may change with the connection.
struct CallKey {
  std::array<std::byte, 16> address{};  // IPv4 addresses mapped
  Xid xid;
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  // The length and checksum of the arguments, because clients reuse XIDs after a restart.
  uint32_t length = 0;
  uint64_t checksum = 0;
  // The authenticated sender (GssInitiator::name), or empty. No caller gets a reply that is meant for another one.
  std::string initiator;

  bool operator==(const CallKey&) const = default;
};

std::array<std::byte, 16> CacheAddress(const IpAddress& address);

// Whether a reply is kept, and in which quota.
enum class Keep : uint8_t {
  kNothing,
  kWrite,   // a second execution has the same result, but must not come late
  kChange,  // a second execution would have another result or another effect
};

// Thread-safe: a client's connections may live on different loops. Each call takes one of several locks, for constant
// time.
class ReplyCache {
 public:
  // Replies are counted by their memory: one entry for each kEntryOctets or part of it.
  static constexpr size_t kEntryOctets = 512;

  struct Limits {
    size_t entries = 262'144;  // for all clients; at most half of them for calls under execution
    // Several times the number of a client's unanswered calls: 128 over a TCP connection, 64 over RDMA, and up to 16
    // connections from Linux (nconnect).
    size_t client_changes = 16'384;
    size_t client_writes = 4096;
    size_t clients = 2048;
    Duration age = std::chrono::minutes(5);
  };

  // A duplicate that waits for the first execution to end. It lives in the frame of the waiting coroutine.
  struct Waiter {
    Loop* loop = nullptr;
    OneShot<Message> reply{};
    Waiter* next = nullptr;
  };

  enum class Outcome : uint8_t {
    kExecute,   // a new call: execute it, then Finish(ticket)
    kWait,      // the first one is being executed: co_await waiter.reply
    kReplay,    // the call is done: send Found::reply
    kUncached,  // a new call without room in the cache: execute it
    kLeft,      // the client has abandoned this connection: close it without executing or sending anything
  };
  struct Found {
    Outcome outcome;
    uint32_t ticket = 0;
    Message reply;
  };

  ReplyCache() : ReplyCache(Limits{}) {}
  explicit ReplyCache(Limits limits);
  ~ReplyCache();

  // `connection` is Peer::connection: newer connections have higher numbers; 0 means none. `waiter.loop` is the calling
  // loop. The cache uses the waiter only for kWait.
  //
  // A call that arrived over one connection and arrives again over a newer one proves that its client has abandoned the
  // older one: no client retransmits over another connection before that. (RFC 5531 §9 leaves retransmission to the
  // client. Linux, with nconnect as well, and ReconnectingChannel send the same XID over another connection only after
  // closing the first.) If the cache has forgotten such a call of a newer connection, it distrusts each connection that
  // has been silent since before that call: the client must connect again and retransmit.
  Found Start(const CallKey& key, uint64_t connection, TimePoint now, Waiter& waiter);

  // Ends the execution with this `ticket`. `reply` owns its memory. The cache keeps it unless it is empty or `keep` is
  // kNothing. Resumes waiting duplicates: those of the loop `here` before it returns, the others later.
  void Finish(uint32_t ticket, const Message& reply, TimePoint now, Loop* here, Keep keep = Keep::kChange);

  // The number of cached entries, and their memory in octets.
  size_t entries() const;
  size_t octets() const;
  // The number of known clients, including clients without a reply.
  size_t clients() const;

 private:
  static constexpr uint32_t kShards = 16;
  class Shard;

  // Removes replies of the clients with most entries until the limits hold.
  void Shrink();

  const Limits limits_;
  std::atomic<size_t> used_{0};       // compared with Limits::entries
  std::atomic<size_t> executing_{0};  // included in used_
  std::array<std::unique_ptr<Shard>, kShards> shards_;
};

}  // namespace penstock::rpc
