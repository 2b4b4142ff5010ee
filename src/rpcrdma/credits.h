// RPC-over-RDMA credits: RFC 8166 §3.3.1, §3.3.3, RFC 8267 §6.7.2. A credit is the right to have one call without a
// reply. Each side counts: the requester must not send more calls than the responder has granted, and the responder
// checks that.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>

namespace penstock::rpcrdma {

// Counts the requester's credits.
//
// An empty Send returns a credit (draft-talpey-nfsv4-rdma-sess-01 §2.4). It uses a receive of the peer and has no
// reply. A reply that left before the empty Send arrived grants the returned credit once more, wrongly. So an empty
// Send counts like a call in flight until the reply to a later call: that reply left after the empty Send had arrived.
class RequesterCredits {
 public:
  // `requested` is the number of replies for which receives are posted. If `reserve` is true and there are several
  // credits, the last one is reserved for probes of the peer's health (RFC 8267 §6.7.2). If `one_first` is true, only
  // one credit is used until Open(), whatever is requested and granted.
  explicit RequesterCredits(uint32_t requested, bool reserve = false, bool one_first = false)
      : requested_(std::max(requested, 1u)), reserve_(reserve), opening_(one_first) {}

  // The credit value for the header of a call.
  uint32_t requested() const { return requested_; }
  uint32_t granted() const { return granted_; }
  uint32_t in_flight() const { return in_flight_; }
  // The number of calls that may be without a reply at once.
  uint32_t limit() const { return opening_ ? 1 : std::min({requested_, held(), target_}); }
  // Whether an ordinary call may be sent. A probe may also use the reserved credit.
  bool available() const { return in_flight_ < (reserve_ && limit() > 1 ? limit() - 1 : limit()); }
  bool available_for_probe() const { return in_flight_ < limit(); }
  bool opening() const { return opening_; }
  void Open() { opening_ = false; }

  void HandleSent() {
    assert(available_for_probe());
    ++in_flight_;
  }
  // A reply has arrived. A grant of zero is forbidden, because it would end all traffic; it counts as a grant of one.
  // `returned_before` was returned() when the call was sent.
  void HandleAnswered(uint32_t granted, uint64_t returned_before = 0) {
    assert(in_flight_ > 0);
    --in_flight_;
    granted_ = std::max(granted, 1u);
    settled_ = std::max(settled_, returned_before);
  }
  // Returns the credit of a call that was not sent.
  void HandleUnsent() {
    assert(in_flight_ > 0);
    --in_flight_;
  }
  void set_requested(uint32_t requested) { requested_ = std::max(requested, 1u); }

  // Begins to return the credits above `target`, but never the last one. Until the end, calls use no more than these.
  void BeginReturn(uint32_t target) { target_ = std::min(target_, std::max(target, 1u)); }
  // Whether an empty Send must leave now: a credit is to be returned, and it is not in use.
  bool MustReturn() const { return held() > target_ && in_flight_ + unsettled() < granted_; }
  void HandleReturned() {
    assert(MustReturn());
    ++returned_;
  }
  bool returning() const { return target_ != kNoTarget; }
  // Returns true, and ends the return, if no more credits are left than its target.
  bool EndReturn() {
    if (!returning() || held() > target_) return false;
    target_ = kNoTarget;
    return true;
  }
  // All credits that empty Sends have returned so far.
  uint64_t returned() const { return returned_; }

 private:
  static constexpr uint32_t kNoTarget = std::numeric_limits<uint32_t>::max();

  uint32_t unsettled() const { return static_cast<uint32_t>(returned_ - settled_); }
  // The credits that are left.
  uint32_t held() const { return granted_ > unsettled() ? granted_ - unsettled() : 1; }

  uint32_t requested_;
  const bool reserve_;
  bool opening_;
  // One, until the first reply of the peer grants more (RFC 8166 §3.3.3).
  uint32_t granted_ = 1;
  uint32_t in_flight_ = 0;
  uint32_t target_ = kNoTarget;
  uint64_t returned_ = 0;
  uint64_t settled_ = 0;  // of these: those that the latest grant takes into account
};

// Counts the responder's credits.
class ResponderCredits {
 public:
  // Calls above the grant that the responder tolerates. A peer that has given up a call may send another one before the
  // reply to the first.
  static constexpr uint32_t kSlack = 4;

  explicit ResponderCredits(uint32_t limit) : limit_(std::max(limit, 1u)), highest_(limit_), granted_(limit_) {}

  // The credit value for the header of a reply to a peer that has requested `requested` credits. Never zero.
  uint32_t Grant(uint32_t requested) { return granted_ = std::clamp(requested, 1u, limit_); }
  uint32_t limit() const { return limit_; }

  // Changes the limit for later grants. Before replies can grant more, the caller must have posted receives_needed()
  // receives. Receives above receives_needed() may be taken back one by one, each when a call has arrived in it: the
  // peer may not have seen the new grant yet, but that call counts against the grant that it knows.
  void set_limit(uint32_t limit) {
    limit_ = std::max(limit, 1u);
    highest_ = std::max(highest_, limit_);
    target_ = kNoTarget;
  }
  // Begins to withdraw the credits above `target`, but never the last one. The peer returns those that it has: the
  // limit falls by one with each of its messages (HandleWithdrawn()), so that a grant says how many are left. The peer
  // may have requested fewer credits than the limit; then it does not have the others.
  void BeginWithdrawal(uint32_t target) {
    target_ = std::min(target_, std::max(target, 1u));
    limit_ = std::min(limit_, std::max(granted_, target_));
  }
  bool withdrawing() const { return limit_ > target_; }
  void HandleWithdrawn() {
    assert(withdrawing());
    --limit_;
  }
  // The number of receives to keep posted for the peer's calls.
  uint32_t receives_needed() const { return limit_ + kSlack; }
  // The most calls without a reply of a peer that respects its grants: it may know a higher one than the limit.
  uint32_t most_unanswered() const { return highest_ + kSlack; }

  // Counts a call. Returns false if the peer has more calls without a reply than it was ever granted.
  bool HandleCall() {
    if (unanswered_ == most_unanswered()) return false;
    ++unanswered_;
    return true;
  }
  void HandleAnswered() {
    assert(unanswered_ > 0);
    --unanswered_;
  }
  uint32_t unanswered() const { return unanswered_; }

 private:
  static constexpr uint32_t kNoTarget = std::numeric_limits<uint32_t>::max();

  uint32_t limit_;
  uint32_t highest_;
  uint32_t granted_;  // by the last reply
  uint32_t target_ = kNoTarget;
  uint32_t unanswered_ = 0;
};

// Decides how many credits a peer gets if each one costs a receive that takes memory also while the peer is idle: few
// at first, more as soon as the peer uses half of them, and fewer again after many calls that need few. A receive is
// only taken back by a call that arrives in it, so a peer that sends no more keeps what it had.
class CreditDemand {
 public:
  // So many calls in a row that need less than a quarter of the credits halve them. Calls that need a quarter of them
  // would double the halved ones at once.
  static constexpr uint32_t kQuietCalls = 1024;

  // The peer has `first` credits at first, and never fewer, and `most` at most. `first` may be above `most`.
  CreditDemand(uint32_t first, uint32_t most)
      : first_(std::max(first, 1u)), most_(most), limit_(std::min(first_, most)) {}

  // A call has arrived that requests so many credits. `under_way` is the number of calls, with this one, whose replies
  // the peer may not have yet. Returns the number of credits from now on.
  uint32_t HandleCall(uint32_t under_way, uint32_t requested) {
    busiest_ = std::max(busiest_, under_way);
    if (limit_ < std::min(most_, requested) && under_way >= (limit_ + 1) / 2) {
      Set(limit_ <= most_ / 2 ? 2 * limit_ : most_);
    } else if (++calls_ >= kQuietCalls) {
      Set(busiest_ < limit_ / 4 ? std::max(limit_ / 2, std::min(first_, most_)) : limit_);
    }
    return limit_;
  }
  // Changes the most credits. Returns the number of credits from now on.
  uint32_t set_most(uint32_t most) {
    most_ = most;
    limit_ = std::min(std::max(limit_, first_), most);
    return limit_;
  }
  uint32_t limit() const { return limit_; }

 private:
  void Set(uint32_t limit) {
    limit_ = limit;
    calls_ = busiest_ = 0;
  }

  const uint32_t first_;
  uint32_t most_;
  uint32_t limit_;
  uint32_t calls_ = 0;    // since limit_ was decided
  uint32_t busiest_ = 0;  // the most calls under way among these
};

}  // namespace penstock::rpcrdma
