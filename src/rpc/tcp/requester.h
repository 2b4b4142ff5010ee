// The side of a connection that calls: sends calls, and gives replies to those who wait for them. On a client's connection,
// and on a server's that calls back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/loop.h"
#include "base/timer.h"
#include "rpc/tcp/record_socket.h"
#include "rpc/transport.h"

namespace penstock::rpc::tcp {

// Belongs to its loop. Its owner is the socket's, and tells it what the socket does.
class Requester {
 public:
  // Both outlive the requester. A call without a reply for `call_limit` fails (an eighth later at the latest).
  Requester(Loop& loop, RecordSocket& socket, Duration call_limit);
  // Requires HandleClosed(), or that no call was ever made.
  ~Requester();

  // Nothing waits here for the requester itself: it may be gone when a call that it has failed is resumed.
  Task<Result<Message, CallError>> Call(Message call);
  // No call is under way.
  bool idle() const { return pending_count_ == 0; }

  // A record that is no call. A reply that nobody waits for is dropped.
  void HandleReply(Slice record);
  // All that was queued has been sent.
  void HandleSent();
  // Nothing more is received: calls fail with kDisconnected.
  void HandleEnd();
  // The socket is closed.
  void HandleClosed();

 private:
  // A call that waits for its reply; in its coroutine's frame.
  struct Pending {
    uint32_t xid = 0;
    uint64_t number = 0;  // of the message, in the socket
    uint64_t started = 0;
    Pending* next = nullptr;  // in its bucket
    OneShot<Result<Message, CallError>> reply;
  };

  void Insert(Pending& pending);
  Pending** Find(uint32_t xid);
  Pending* Unlink(Pending** link);
  // Takes out those that `condition` is true for, as a list.
  template <class Condition>
  Pending* UnlinkAll(Condition condition);
  static void FailAll(Pending* list, CallError error);
  void Tick();

  RecordSocket& socket_;
  std::array<Pending*, 256> buckets_{};
  size_t pending_count_ = 0;
  bool ended_ = false;
  const Duration tick_length_;
  uint64_t tick_ = 0;
  std::unique_ptr<Timer> timer_;
};

}  // namespace penstock::rpc::tcp
