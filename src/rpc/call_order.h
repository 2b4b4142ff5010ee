// The order in which a connection received its calls, so that some calls can wait for earlier ones. RPC-over-RDMA
// executes a short call while it still reads the payload of an earlier one: for example a DELEGRETURN before the WRITE
// that belongs to the delegation.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include "base/signal.h"
#include "base/task.h"
#include "rpc/xid.h"

namespace penstock::rpc {

// One for each connection, on its loop. It lists the calls that may be overtaken, from their arrival until they are
// executed.
class CallOrder {
 public:
  class Place;

  // Adds the call `xid`, which has arrived and may be overtaken from now on.
  Place Enter(Xid xid);

  // Records the file that the call works on, as a hash of its handle. Before that, the call may work on any file.
  void NoteSubject(Xid xid, uint64_t subject) {
    if (calls_.empty()) return;
    for (Call& call : calls_) {
      if (call.xid == xid) call.subject = subject;
    }
    changed_.Notify();
  }

  // Waits until all calls are executed that arrived before `xid` and may work on `subject`. A call waits for earlier
  // ones only, so calls never wait for each other in a circle.
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
  // Returns the number of the call, or the next number for a call that is not listed: such a call is executed on
  // arrival.
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

// Keeps the call in the order. Its destructor marks the call as executed.
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
