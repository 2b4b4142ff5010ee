// The data path of a Connection, inwards: from completions of the queue pair to those of the endpoint.
#include <array>
#include <optional>
#include <utility>

#include "base/log.h"
#include "rdma/verbs/connection.h"

namespace penstock::rdma::verbs {
namespace {

// Requests are flushed: what has ended the connection is about to be told by other means.
constexpr Duration kTold = std::chrono::milliseconds(100);
// IB_WC_WITH_INVALIDATE, see Traits::software_roce.
constexpr unsigned kKernelsWithInvalidate = 1u << 2;

// What a completion with an error says about who is to blame.
struct Verdict {
  DisconnectReason reason;
  Status status;
};
std::optional<Verdict> Judge(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_WR_FLUSH_ERR:
      return std::nullopt;
    case IBV_WC_REM_ACCESS_ERR:
      return Verdict{DisconnectReason::kPeerTerminated, Status::kRemoteAccess};
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:  // a Send without a receive
    case IBV_WC_REM_ABORT_ERR:
      return Verdict{DisconnectReason::kPeerTerminated, Status::kFlushed};
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return Verdict{DisconnectReason::kPeerReset, Status::kFlushed};
    default:
      return Verdict{DisconnectReason::kFault, Status::kLocalError};
  }
}

}  // namespace

size_t Connection::PollQueue() {
  std::array<ibv_wc, 32> batch;
  size_t total = 0;
  for (;;) {
    const int count = ::ibv_poll_cq(queue_, static_cast<int>(batch.size()), batch.data());
    if (count < 0) {
      Fail(DisconnectReason::kFault, "the completion queue cannot be polled");
      break;
    }
    for (int i = 0; i < count; ++i) {
      if (batch[static_cast<size_t>(i)].wr_id & 1) {
        HandleReceived(batch[static_cast<size_t>(i)]);
      } else {
        HandleSent(batch[static_cast<size_t>(i)]);
      }
    }
    total += static_cast<size_t>(count);
    if (static_cast<size_t>(count) < batch.size()) break;
  }
  if (fate_) Touch();
  return total;
}

void Connection::HandleSent(const ibv_wc& wc) {
  const uint64_t number = wc.wr_id >> 1;
  if (wc.status != IBV_WC_SUCCESS) {
    const auto verdict = Judge(wc.status);
    if (!verdict) return HandleFlushed();
    if (!fate_) {
      blamed_ = number;
      blame_ = verdict->status;
    }
    log::debug("{}: request {} failed: {}", traits_.name, number, ::ibv_wc_status_str(wc.status));
    return Fail(verdict->reason, ::ibv_wc_status_str(wc.status));
  }
  send_queue_.HandleCompleted(number,
                              [this](uint64_t done) { Finish(posted_[done - posted_head_], Status::kSuccess); });
  for (; posted_head_ < send_queue_.head(); ++posted_head_) posted_.pop_front();
}

void Connection::Finish(Work& work, Status status) {
  for (ibv_mr* registration : work.registrations) ::ibv_dereg_mr(registration);
  work.registrations.clear();
  if (work.operation == Operation::kRead && status == Status::kSuccess) --reads_;
  if (work.opcode == IBV_WR_LOCAL_INV && work.exposed->valid) Retire(*work.exposed);
  if (!work.silent) Complete(work.operation, work.context, status);
  work.gather.clear();
  work.owner.Reset();
}

void Connection::HandleReceived(const ibv_wc& wc) {
  PostedReceive receive;
  if (wc.status == IBV_WC_WR_FLUSH_ERR) return HandleFlushed();
  if (!receive_queue_.HandleCompleted(wc.wr_id >> 1, receive)) {
    return Fail(DisconnectReason::kFault, "a receive completed out of turn");
  }
  if (wc.status != IBV_WC_SUCCESS) {
    CompleteReceive(std::move(receive), wc.status == IBV_WC_LOC_LEN_ERR ? Status::kLocalError : Status::kFlushed);
    const bool ours = wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR;
    return Fail(ours ? DisconnectReason::kFault : DisconnectReason::kProtocolError, ::ibv_wc_status_str(wc.status));
  }
  Completion completion;
  completion.context = receive.context;
  completion.buffer = std::move(receive.buffer);
  completion.length = wc.byte_len;
  const unsigned told = traits_.software_roce ? kKernelsWithInvalidate : unsigned{IBV_WC_WITH_INV};
  if (wc.wc_flags & told) {
    const auto found = exposed_.find(wc.invalidated_rkey);
    if (found != exposed_.end()) {
      const std::shared_ptr<Exposed> exposed = found->second;
      completion.invalidated = exposed->stag;
      Retire(*exposed);
    }
  }
  completions_.push_back(std::move(completion));
}

// The connection has ended, and this is not why.
void Connection::HandleFlushed() {
  if (fate_ || timer_ || state_ == State::kLost) return;
  timer_ = loop_.MakeTimer([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Fail(DisconnectReason::kPeerReset, "the queue pair has failed");
  });
  timer_->ExpireAfter(kTold);
}

}  // namespace penstock::rdma::verbs
