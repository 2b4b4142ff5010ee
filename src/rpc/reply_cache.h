// The duplicate request cache: a call that is sent again (after a timeout, or on a new connection) gets the reply that it
// had the first time, and is not executed again. For procedures whose second execution would differ from the first:
// REMOVE would say NOENT, RENAME and MKDIR likewise (RFC 1813 §4.5, RFC 5531 §9 on XIDs).
//
// It knows nothing of transports and connections: a client that lost its connection sends its calls again on another. Nor of
// what a security flavor makes of a reply: what is remembered has an empty verifier, and is sealed each time that it is sent.
#pragma once

#include <array>
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

// Of the first kChecksummedOctets of `arguments`; against accidents, not against forgery (only a client's own calls can collide).
inline constexpr size_t kChecksummedOctets = 256;
uint64_t ArgumentChecksum(ConstBytes arguments);

// Thread-safe: a client's connections may live on different loops.
class ReplyCache {
 public:
  struct Limits {
    size_t entries = 8192;
    size_t octets = 32 << 20;
    Duration age = std::chrono::minutes(5);
  };

  // A duplicate that waits for the execution of the first to end. Lives in the frame of the coroutine that waits.
  struct Waiter {
    Loop* loop = nullptr;
    Completion<Message> reply{};
    Waiter* next = nullptr;
  };

  enum class Outcome : uint8_t {
    kExecute,   // a new call: execute it, then Finish(ticket)
    kWait,      // it is being executed: co_await waiter.reply
    kReplay,    // here is the reply
    kUncached,  // a new call, and no room to remember it: execute it
  };
  struct Found {
    Outcome outcome;
    uint32_t ticket = 0;
    Message reply;
  };

  ReplyCache() : ReplyCache(Limits{}) {}
  explicit ReplyCache(Limits limits);
  ~ReplyCache();

  // `waiter.loop` is the calling loop. The waiter is used with kWait only.
  Found Start(const CallKey& key, TimePoint now, Waiter& waiter);

  // Ends the execution that `ticket` stands for. `reply` owns its memory; it is forgotten where it is empty or not to be
  // remembered. Duplicates that wait are resumed: inside this call those of the loop `here`, later the others.
  void Finish(uint32_t ticket, const Message& reply, TimePoint now, Loop* here, bool remember = true);

  // Replies remembered now, and the memory that they hold.
  size_t entries() const;
  size_t octets() const;

 private:
  static constexpr uint32_t kShards = 16;
  class Shard;
  std::array<std::unique_ptr<Shard>, kShards> shards_;
};

}  // namespace penstock::rpc
