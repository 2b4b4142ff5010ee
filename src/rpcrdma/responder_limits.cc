// The limits of a responder: how many receives it keeps posted, and how they change when a program binds the connection
// (rpc/connection_control.h, draft-talpey-nfsv4-rdma-sess-01 §2.3, §2.4).
#include <algorithm>

#include "rpcrdma/reply_plan.h"
#include "rpcrdma/responder.h"

namespace penstock::rpcrdma {

void Responder::UseAnnouncedLimits() {
  opening_ = false;
  connection_.set_receive_size(connection_.announced_receive_size());
  SetCreditLimit(demand_.limit());
}

void Responder::BeginBound(const rpc::ConnectionLimits& limits) {
  bound_ = true;
  may_read_ = limits.reads > 0;
  reads_.set_limit(limits.reads);
}

void Responder::Bind(rpc::Xid call, const rpc::ConnectionLimits& limits) {
  BeginBound(limits);
  opening_ = false;
  // Replies to calls of the server arrive in the same receives, and their size is not among the limits. So the receives
  // stay at least as long as was announced.
  connection_.set_receive_size(std::max(limits.max_request, connection_.announced_receive_size()));
  connection_.set_receive_threshold(limits.max_request);
  next_size_ = NextSize{.call = call, .max_response = limits.max_response};
  SetCreditLimit(limits.credits);
}

void Responder::KeepLimitsOpen(rpc::Xid call) {
  if (Executing* const found = Find(call)) found->keeps_limits_open = true;
}

bool Responder::TakesReceiveBack() {
  if (credits_.withdrawing()) credits_.HandleWithdrawn();
  if (receives_ <= credits_.receives_needed()) return false;
  --receives_;
  return true;
}

// Each empty Send costs the peer a credit until the next reply grants it again, so a peer that respects its grants
// cannot send many in a row.
bool Responder::HandleEmptySend() {
  if (!bound_) return false;
  if (++empty_sends_ > credits_.most_unanswered()) End("the peer returns more credits than it has");
  return TakesReceiveBack();
}

uint32_t Responder::send_threshold() const {
  const uint32_t now = connection_.thresholds().send;
  return next_size_ ? std::min(now, next_size_->max_response) : now;
}

Responder::Executing* Responder::Find(rpc::Xid call) const {
  const auto found = std::ranges::find(executing_, call, &Executing::xid);
  return found == executing_.end() ? nullptr : *found;
}

size_t Responder::ReplyRoom(rpc::Xid call) const {
  const Executing* const found = Find(call);
  return found ? rpcrdma::ReplyRoom(found->chunks, send_threshold()) : 0;
}

std::optional<size_t> Responder::PayloadRoom(rpc::Xid call, size_t n) const {
  const Executing* const found = Find(call);
  if (!found || !IsPlaced(found->chunks.writes, n)) return std::nullopt;
  return TotalLength(found->chunks.writes.chunk(n));
}

}  // namespace penstock::rpcrdma
