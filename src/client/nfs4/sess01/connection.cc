#include "client/nfs4/sess01/connection.h"

#include <algorithm>

namespace penstock::client::v4::sess01 {

Task<Connection::Answer> Connection::Call(std::shared_ptr<Connection> self, rpc::Message call, rpc::ReplyShape shape) {
  if (self->ended_ || !self->transport_) co_return std::unexpected(rpc::CallError::kDisconnected);
  if (self->in_flight_ < self->credits_ && self->waiters_.empty()) {
    ++self->in_flight_;
  } else {
    Waiter waiter;
    self->waiters_.push_back(&waiter);
    const bool admitted = co_await waiter.admitted;
    if (!admitted) co_return std::unexpected(rpc::CallError::kDisconnected);
  }
  const std::optional<rpc::Xid> xid = LostCalls::XidOf(call);
  Answer answer = co_await self->transport_->Call(std::move(call), std::move(shape));
  --self->in_flight_;
  const bool lost =
      !answer && (answer.error() == rpc::CallError::kDisconnected || answer.error() == rpc::CallError::kTimedOut);
  if (lost) {
    if (self->lost_) self->lost_->Add(xid);
    self->End();
  } else {
    self->Admit();
  }
  co_return answer;
}

void Connection::set_credits(uint32_t credits) {
  credits_ = std::max(credits, 1u);
  Admit();
}

void Connection::Admit() {
  const std::shared_ptr<Connection> self = shared_from_this();
  while (!ended_ && !waiters_.empty() && in_flight_ < credits_) {
    Waiter* const next = waiters_.front();
    waiters_.pop_front();
    ++in_flight_;
    next->admitted.Set(true);
  }
}

void Connection::End() {
  const std::shared_ptr<Connection> self = shared_from_this();
  ended_ = true;
  for (Waiter* waiter : std::exchange(waiters_, {})) waiter->admitted.Set(false);
}

void Connection::Abort() {
  const std::shared_ptr<Connection> self = shared_from_this();
  End();
  if (transport_) transport_->Close();
}

void Connection::Close() {
  const std::shared_ptr<Connection> self = shared_from_this();
  End();
  const std::unique_ptr<rpc::Channel> transport = std::move(transport_);
}

}  // namespace penstock::client::v4::sess01
