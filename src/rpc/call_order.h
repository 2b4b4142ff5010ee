// The order in which a connection received its calls, so that some calls can wait for earlier ones. A later call can be
// ready first: RPC-over-RDMA executes a short call while it still reads the payload of an earlier one, and RPCSEC_GSS
// unseals long calls on other threads. Two things keep to the order of arrival:
//   - operations that give something up, for example a DELEGRETURN behind a WRITE that belongs to the delegation;
//   - the requests of a session of 2004, whose chains and retries depend on it (draft-talpey-nfsv4-rdma-sess-01 §2.7,
//     §3.2). Judging a request is less than executing it, so executions may overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "base/signal.h"
#include "base/task.h"
#include "rpc/xid.h"

namespace penstock::rpc {

// One for each connection, on its loop. It lists calls from their arrival until their replies are ready.
class CallOrder {
 public:
  class Place;

  // The decision of a program about a call whose payloads have not arrived yet. If the call is never executed, the
  // destructor takes the decision back.
  class Judgement {
   public:
    virtual ~Judgement() = default;
  };

  enum class Lateness : uint8_t {
    kPayload,    // later calls may overtake the execution of the call, since its payload arrives late
    kArguments,  // only its judgement may be late
  };
  // Adds the call `xid`, which has arrived.
  Place Enter(Xid xid, Lateness lateness = Lateness::kPayload);

  // ---- the order of executions

  // Records the file that the call works on, as a hash of its handle. Before that, the call may work on any file.
  void NoteSubject(Xid xid, uint64_t subject) {
    for (Call& call : calls_) {
      if (call.xid == xid && call.standing != Standing::kGone) call.subject = subject;
    }
    changed_.Notify();
  }

  // Waits until all calls are executed that arrived before `xid`, may be overtaken, and may work on `subject`. A call
  // waits for earlier ones only, so calls never wait for each other in a circle.
  Task<void> WaitForEarlier(Xid xid, uint64_t subject) {
    const uint64_t number = NumberOf(xid);
    while (IsBehind(number, subject)) co_await changed_;
  }

  // ---- the order of judgements

  // Whether a call before `xid` and behind the last one for which this was asked ended without a judgement: it was
  // malformed or refused, or its arguments never came. Call it when the earlier calls are judged or gone.
  bool TakeGap(Xid xid) {
    const uint64_t number = NumberOf(xid);
    return std::erase_if(
               calls_, [&](const Call& call) { return call.standing == Standing::kGone && call.number < number; }) > 0;
  }
  // Records that the program has judged the call, or that it does not judge it. `judgement` stays with the call until
  // Take().
  void SetJudged(Xid xid, std::unique_ptr<Judgement> judgement = nullptr) {
    Call* const call = Find(xid);
    if (!call) return;
    call->standing = Standing::kJudged;
    std::swap(call->judgement, judgement);
    changed_.Notify();
  }
  // Whether the call is listed and not judged, and all earlier calls are judged.
  bool MayJudge(Xid xid) {
    const Call* const call = Find(xid);
    return call && call->standing == Standing::kUnjudged && !IsUnjudgedBefore(call->number);
  }
  // Waits until all calls that arrived before `xid` are judged or gone.
  Task<void> AwaitJudgements(Xid xid) {
    const uint64_t number = NumberOf(xid);
    while (IsUnjudgedBefore(number)) co_await changed_;
  }
  // The calls that are listed, and the gaps between them.
  size_t size() const { return calls_.size(); }
  bool empty() const { return calls_.empty(); }

  // Returns the judgement of the call; null if it has none.
  std::unique_ptr<Judgement> Take(Xid xid) {
    Call* const call = Find(xid);
    return call ? std::move(call->judgement) : nullptr;
  }

 private:
  enum class Standing : uint8_t {
    kUnjudged,
    kJudged,
    kGone,  // without a judgement; only its place in the order matters
  };
  struct Call {
    uint64_t number = 0;
    Xid xid;
    Lateness lateness = Lateness::kPayload;
    std::optional<uint64_t> subject{};
    Standing standing = Standing::kUnjudged;
    std::unique_ptr<Judgement> judgement{};
  };
  Call* Find(Xid xid) {
    const auto found = std::ranges::find_if(
        calls_, [&](const Call& call) { return call.standing != Standing::kGone && call.xid == xid; });
    return found == calls_.end() ? nullptr : &*found;
  }
  // Returns the number of the call, or the next number for a call that is not listed: such a call is executed on
  // arrival.
  uint64_t NumberOf(Xid xid) {
    const Call* const call = Find(xid);
    return call ? call->number : next_;
  }
  bool IsBehind(uint64_t number, uint64_t subject) const {
    return std::ranges::any_of(calls_, [&](const Call& call) {
      return call.number < number && call.standing != Standing::kGone && call.lateness == Lateness::kPayload &&
             call.subject.value_or(subject) == subject;
    });
  }
  bool IsUnjudgedBefore(uint64_t number) const {
    return std::ranges::any_of(
        calls_, [&](const Call& call) { return call.number < number && call.standing == Standing::kUnjudged; });
  }

  // A call without a judgement leaves a gap. Adjacent gaps are one.
  void Remove(std::list<Call>::iterator at) {
    const auto is_gap = [&](auto other) { return other != calls_.end() && other->standing == Standing::kGone; };
    const auto before = at == calls_.begin() ? calls_.end() : std::prev(at);
    if (at->standing == Standing::kUnjudged && !is_gap(before) && !is_gap(std::next(at))) {
      at->standing = Standing::kGone;
    } else {
      calls_.erase(at);
    }
  }

  std::list<Call> calls_;  // in the order of their numbers
  uint64_t next_ = 0;
  Signal changed_;
};

// Keeps the call in the order. Its destructor removes the call: it is executed, or it never will be.
class CallOrder::Place {
 public:
  Place(CallOrder& order, std::list<Call>::iterator at) : order_(&order), at_(at) {}
  Place(Place&& other) noexcept : order_(std::exchange(other.order_, nullptr)), at_(other.at_) {}
  Place& operator=(Place&&) = delete;
  ~Place() {
    if (!order_) return;
    // Taking a judgement back may let other calls go on, so the order must be consistent before.
    std::unique_ptr<Judgement> unused = std::move(at_->judgement);
    order_->Remove(at_);
    unused.reset();
    order_->changed_.Notify();
  }

 private:
  CallOrder* order_;
  std::list<Call>::iterator at_;
};

inline CallOrder::Place CallOrder::Enter(Xid xid, Lateness lateness) {
  calls_.push_back({.number = next_++, .xid = xid, .lateness = lateness});
  return {*this, std::prev(calls_.end())};
}

}  // namespace penstock::rpc
