// The requester of a TCP connection: it sends calls and passes each reply to the call that waits for it. Both a client
// and a server that calls its client have a requester.
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

// A requester belongs to its loop. Its owner is also the owner of the socket, and forwards the events of the socket.
class Requester {
 public:
  // `loop` and `socket` must outlive the requester. A call without a reply fails after `call_limit` (and up to an
  // eighth more).
  Requester(Loop& loop, RecordSocket& socket, Duration call_limit);
  // Requires that HandleClosed() was called, or that no call was ever made.
  ~Requester();

  // Sends a call and returns its reply. The requester may be destroyed before the coroutine of a failed call resumes.
  Task<Result<Message, CallError>> Call(Message call);
  // True if no call is under way.
  bool idle() const { return pending_count_ == 0; }

  // Handles a record that is not a call. Drops a reply without a pending call.
  void HandleReply(Slice record);
  // The socket has sent queued octets.
  void HandleSent();
  // The socket receives nothing more: pending calls fail with kDisconnected.
  void HandleEnd();
  // The socket is closed.
  void HandleClosed();

 private:
  // A call that waits for its reply. It lives in the frame of Call().
  struct Pending {
    uint32_t xid = 0;
    uint64_t number = 0;      // the number of its message in the socket
    uint64_t started = 0;     // the tick
    Pending* next = nullptr;  // the next call in the same bucket
    OneShot<Result<Message, CallError>> reply;
  };

  void Insert(Pending& pending);
  Pending** Find(uint32_t xid);
  Pending* Unlink(Pending** link);
  // Removes all calls for which `condition` is true, and returns them as a list.
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
