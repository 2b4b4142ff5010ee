// The duplicate request cache: a call that is sent again (after a timeout, or on a new connection) gets the reply that it
// had the first time, and is not executed again. For procedures whose second execution would differ from the first:
// REMOVE would say NOENT, RENAME and MKDIR likewise (RFC 1813 §4.5, RFC 5531 §9 on XIDs). And for WRITEs: one that is
// executed late would undo what its client has written since.
//
// A client sends its calls again on another connection, and leaves the one before. What it had sent over that one may still
// be on its way, and be read much later: the cache recognizes connections that were left, or may have been as far as it
// remembers, and has their calls dropped.
//
// What a security flavor makes of a reply is no matter here: what is remembered has an empty verifier, and is sealed each
// time that it is sent.
//
// A client is an address. Each has quotas of its own, and room for one is made at the expense of the client that has most:
//
//   - A client keeps its last Limits::client_changes replies of one kind and Limits::client_writes of the other, whatever
//     others do, as long as all clients together have room.
//   - Where they have none, one that has less than a third of the average share (Limits::entries / clients) loses nothing
//     that is younger than Limits::age.
//   - A call that is being executed is never forgotten.
//   - Where Limits::clients have called within the last minute, the calls of further ones are executed unremembered.
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

// What makes two calls the same call. Without the client's port, which may change with its connection.
struct CallKey {
  std::array<std::byte, 16> address{};  // IPv4 addresses mapped
  Xid xid;
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  // Of the arguments, since clients that restart reuse XIDs.
  uint32_t length = 0;
  uint64_t checksum = 0;
  // Who proved to have sent it (GssInitiator::name); empty where nobody did. Nobody gets a reply that is meant for another.
  std::string initiator;

  bool operator==(const CallKey&) const = default;
};

std::array<std::byte, 16> CacheAddress(const IpAddress& address);

// Which calls a reply is kept for, and in which quota.
enum class Keep : uint8_t {
  kNothing,
  kWrite,   // a second execution ends as the first, but must not come late
  kChange,  // a second execution would end differently, or would do something else
};

// Thread-safe: a client's connections may live on different loops. Each call takes one of several locks, for constant time.
class ReplyCache {
 public:
  // Replies are counted by the memory that they hold: one entry for each kEntryOctets, or part of them.
  static constexpr size_t kEntryOctets = 512;

  struct Limits {
    size_t entries = 262'144;  // of all clients. Half of them at most are calls that are being executed
    // Several times what a client may have unanswered: 128 calls over a TCP connection, 64 over RDMA, and Linux makes up to
    // 16 connections (nconnect).
    size_t client_changes = 16'384;
    size_t client_writes = 4096;
    size_t clients = 2048;
    Duration age = std::chrono::minutes(5);
  };

  // A duplicate that waits for the execution of the first to end. Lives in the frame of the coroutine that waits.
  struct Waiter {
    Loop* loop = nullptr;
    OneShot<Message> reply{};
    Waiter* next = nullptr;
  };

  enum class Outcome : uint8_t {
    kExecute,   // a new call: execute it, then Finish(ticket)
    kWait,      // it is being executed: co_await waiter.reply
    kReplay,    // here is the reply
    kUncached,  // a new call, and no room to remember it: execute it
    kLeft,      // the client has left this connection for a newer one: execute nothing, send nothing, close it
  };
  struct Found {
    Outcome outcome;
    uint32_t ticket = 0;
    Message reply;
  };

  ReplyCache() : ReplyCache(Limits{}) {}
  explicit ReplyCache(Limits limits);
  ~ReplyCache();

  // `connection` is Peer::connection: newer ones have higher numbers; 0 where there is none. `waiter.loop` is the calling
  // loop. The waiter is used with kWait only.
  //
  // A call that came over one connection and comes again over a newer one shows that its client has left the older one: no
  // client sends a call again elsewhere before (RFC 5531 §9 leaves retransmission to the client; Linux, with nconnect as
  // well, and ReconnectingChannel send the same XID over another connection only when the one before is closed).
  // Where the call that came over the newer connection is forgotten meanwhile, no connection that has been silent since
  // before it is trusted: its client connects anew and calls again.
  Found Start(const CallKey& key, uint64_t connection, TimePoint now, Waiter& waiter);

  // Ends the execution that `ticket` stands for. `reply` owns its memory; it is forgotten where it is empty or not to be
  // kept. Duplicates that wait are resumed: inside this call those of the loop `here`, later the others.
  void Finish(uint32_t ticket, const Message& reply, TimePoint now, Loop* here, Keep keep = Keep::kChange);

  // Replies remembered now, and the memory that they hold.
  size_t entries() const;
  size_t octets() const;
  // Clients that it knows, some of them perhaps without a reply.
  size_t clients() const;

 private:
  static constexpr uint32_t kShards = 16;
  class Shard;

  // Forgets what is too much, of the clients that have most.
  void Shrink();

  const Limits limits_;
  std::atomic<size_t> used_{0};       // of Limits::entries
  std::atomic<size_t> executing_{0};  // part of them
  std::array<std::unique_ptr<Shard>, kShards> shards_;
};

}  // namespace penstock::rpc
