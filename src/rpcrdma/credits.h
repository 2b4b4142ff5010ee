// RPC-over-RDMA credits: RFC 8166 §3.3.1, §3.3.3, RFC 8267 §6.7.2. A credit is the right to have one call unanswered.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace penstock::rpcrdma {

// The requester's account.
class RequesterCredits {
 public:
  // `requested` is what the receives that are posted can take in replies. `reserve`: of several credits the last is kept for
  // probes of the peer's health (RFC 8267 §6.7.2).
  explicit RequesterCredits(uint32_t requested, bool reserve = false)
      : requested_(std::max(requested, 1u)), reserve_(reserve) {}

  // What goes into the header of a call.
  uint32_t requested() const { return requested_; }
  uint32_t granted() const { return granted_; }
  uint32_t in_flight() const { return in_flight_; }
  // How many calls may be unanswered at once.
  uint32_t limit() const { return std::min(requested_, granted_); }
  // For an ordinary call.
  bool available() const { return in_flight_ < (reserve_ && limit() > 1 ? limit() - 1 : limit()); }
  bool available_for_probe() const { return in_flight_ < limit(); }

  void HandleSent() {
    assert(available_for_probe());
    ++in_flight_;
  }
  // A call was answered. A grant of zero would end all traffic, and is forbidden: taken for one.
  void HandleAnswered(uint32_t granted) {
    assert(in_flight_ > 0);
    --in_flight_;
    granted_ = std::max(granted, 1u);
  }
  // A call was never sent after all.
  void HandleUnsent() {
    assert(in_flight_ > 0);
    --in_flight_;
  }
  void set_requested(uint32_t requested) { requested_ = std::max(requested, 1u); }

 private:
  uint32_t requested_;
  const bool reserve_;
  // One until the peer's first answer says more (RFC 8166 §3.3.3).
  uint32_t granted_ = 1;
  uint32_t in_flight_ = 0;
};

// The responder's account.
class ResponderCredits {
 public:
  // A peer that gives up on a call may send another in its place before the first is answered.
  static constexpr uint32_t kSlack = 4;

  explicit ResponderCredits(uint32_t limit) : limit_(std::max(limit, 1u)), highest_(limit_) {}

  // What goes into the header of an answer to a peer that has asked for `requested`. Never zero.
  uint32_t Grant(uint32_t requested) const { return std::clamp(requested, 1u, limit_); }
  uint32_t limit() const { return limit_; }

  // More may be granted from now on: the caller has posted receives_needed() before. Or less: the peer may not know yet, so
  // that receives stay as they are.
  void set_limit(uint32_t limit) {
    limit_ = std::max(limit, 1u);
    highest_ = std::max(highest_, limit_);
  }
  // Receives that have to be posted for the calls of a peer.
  uint32_t receives_needed() const { return highest_ + kSlack; }

  // False where the peer has more calls unanswered than it was ever granted.
  bool HandleCall() {
    if (unanswered_ == receives_needed()) return false;
    ++unanswered_;
    return true;
  }
  void HandleAnswered() {
    assert(unanswered_ > 0);
    --unanswered_;
  }
  uint32_t unanswered() const { return unanswered_; }

 private:
  uint32_t limit_;
  uint32_t highest_;
  uint32_t unanswered_ = 0;
};

}  // namespace penstock::rpcrdma
