// The order in which a connection has received calls, for those that must not overtake earlier ones. RPC-over-RDMA executes a
// short call while the payload of an earlier one is still being pulled: a DELEGRETURN, say, before the WRITE whose data it
// gives back.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include "base/signal.h"
#include "base/task.h"
#include "rpc/xid.h"

namespace penstock::rpc {

// Of one connection, on its loop. Knows the calls that may be overtaken, from when they are received until they are executed.
class CallOrder {
 public:
  class Place;

  // The call `xid` has been received, and may be overtaken from now on.
  Place Enter(Xid xid);

  // The call works on this from now on: a file, as a hash of its handle. Until then it may work on anything.
  void NoteSubject(Xid xid, uint64_t subject) {
    if (calls_.empty()) return;
    for (Call& call : calls_) {
      if (call.xid == xid) call.subject = subject;
    }
    changed_.Notify();
  }

  // Until all calls are executed that were received before `xid` and work on the subject. Calls that can be waited for wait
  // for earlier ones alone, so that nobody waits for ever.
  Task<void> WaitForEarlier(Xid xid, uint64_t subject) {
    const uint64_t number = NumberOf(xid);
    while (IsBehind(number, subject)) co_await changed_;
  }

 private:
  struct Call {
    uint64_t number = 0;
    Xid xid;
    std::optional<uint64_t> subject;
  };
  // Of a call that cannot be overtaken itself: it is executed as soon as it is received.
  uint64_t NumberOf(Xid xid) const {
    for (const Call& call : calls_) {
      if (call.xid == xid) return call.number;
    }
    return next_;
  }
  bool IsBehind(uint64_t number, uint64_t subject) const {
    for (const Call& call : calls_) {
      if (call.number < number && call.subject.value_or(subject) == subject) return true;
    }
    return false;
  }

  std::list<Call> calls_;  // in the order of their numbers
  uint64_t next_ = 0;
  Signal changed_;
};

// While it lives, the call is not yet executed.
class CallOrder::Place {
 public:
  Place(CallOrder& order, std::list<Call>::iterator at) : order_(&order), at_(at) {}
  Place(Place&& other) noexcept : order_(std::exchange(other.order_, nullptr)), at_(other.at_) {}
  Place& operator=(Place&&) = delete;
  ~Place() {
    if (!order_) return;
    order_->calls_.erase(at_);
    order_->changed_.Notify();
  }

 private:
  CallOrder* order_;
  std::list<Call>::iterator at_;
};

inline CallOrder::Place CallOrder::Enter(Xid xid) {
  return {*this, calls_.insert(calls_.end(), {.number = next_++, .xid = xid, .subject = {}})};
}

}  // namespace penstock::rpc
