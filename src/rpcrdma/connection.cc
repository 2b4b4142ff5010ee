#include "rpcrdma/connection.h"

#include <fmt/core.h>

#include <cassert>
#include <utility>

#include "base/log.h"
#include "base/loop_turn.h"
#include "rpc/header.h"
#include "rpcrdma/requester.h"
#include "rpcrdma/responder.h"
#include "rpcrdma/work_batch.h"

namespace penstock::rpcrdma {
namespace {

using rpc::Direction;

// The RPC-over-RDMA header has no field for the direction. The procedure, the Read list or the RPC message tell whether
// this is a call or a reply (RFC 8167 §4.1).
Direction DirectionOf(const Received& message) {
  const Header& header = message.header;
  if (header.fixed.procedure == Procedure::kError) return Direction::kReply;
  if (!header.chunks.reads.empty()) return Direction::kCall;  // RFC 8166 §4.3.1
  if (header.fixed.procedure == Procedure::kNomsg) return Direction::kReply;
  return rpc::DirectionOf(message.bytes.bytes().subspan(message.header_size));
}

}  // namespace

Connection::Connection(std::unique_ptr<rdma::Endpoint> endpoint, const PrivateData& own, uint32_t posted,
                       const HeaderLimits& limits, TimerService& timers, std::function<void()> on_finished,
                       std::optional<PrivateData> peer)
    : endpoint_(std::move(endpoint)),
      limits_(limits),
      timers_(timers),
      announced_receive_size_(own.receive_size),
      receive_size_(own.receive_size),
      thresholds_(Thresholds::Agree(own, peer ? *peer : PrivateData::Parse(endpoint_->info().private_data),
                                    endpoint_->limits().max_message)),
      posted_(posted),
      drain_(timers.MakeTimer([this] { DrainLater(); })),
      finish_(timers.MakeTimer(std::move(on_finished))) {}

Connection::~Connection() { assert(activities_ == 0); }

void Connection::Start() {
  endpoint_->Start([this] { Drain(); });
}

Slice Connection::Serialize(const Header& header) {
  const size_t size = header.serialized_size();
  BufferRef buffer = buffers().Allocate(size);
  header.Serialize(buffer->bytes());
  ConstBytes bytes = buffer->bytes().first(size);
  return Slice(std::move(buffer), bytes);
}

void Connection::AddReceives(uint32_t count) {
  needed_ += count;
  for (; posted_ < needed_; ++posted_) endpoint_->PostReceive({0, receive_size_});
}

void Connection::Disconnect(std::string why) {
  if (lost_ || disconnecting_) return;
  disconnecting_ = true;
  end_ = std::move(why);
  endpoint_->Disconnect();
}

void Connection::WriteState(rpc::Xid xid, fmt::string_view state, fmt::format_args arguments) const {
  log::debug("connection {}, call {:08x}: {}", number_, xid.value(), fmt::vformat(state, arguments));
}

void Connection::Drain() {
  if (draining_later_) return;
  const LoopTurn turn(timers_.Now());
  for (bool is_full = true;; is_full = polled_ == batch_.size()) {
    while (handled_ < polled_) {
      HandleCompletion(batch_[handled_++]);
      if (!turn.IsOver(timers_.Now())) continue;
      draining_later_ = true;
      drain_->ExpireAfter(Duration::zero());
      return;
    }
    if (!is_full) return;
    polled_ = endpoint_->Poll(batch_);
    handled_ = 0;
  }
}

void Connection::DrainLater() {
  draining_later_ = false;
  Drain();
}

void Connection::HandleCompletion(rdma::Completion& completion) {
  switch (completion.operation) {
    case rdma::Operation::kReceive: {
      BufferRef buffer = std::move(completion.buffer);
      if (completion.status != rdma::Status::kSuccess) return;
      ConstBytes bytes = buffer->bytes().first(completion.length);
      HandleMessage(Slice(std::move(buffer), bytes));
      return;
    }
    case rdma::Operation::kDisconnected:
      HandleLost(completion);
      return;
    case rdma::Operation::kRead:
      if (responder_) responder_->HandleReadDone();  // only the responder posts Reads
      [[fallthrough]];
    default:
      if (WorkBatch* work = WorkBatch::From(completion.context)) work->HandleCompletion(completion.status);
      return;
  }
}

// Posts the new receive before a role can reply: a peer may use the credit of a reply at once (RFC 8166 §3.3.1).
void Connection::HandleMessage(Slice bytes) {
  if (bytes.empty()) {
    ReplaceReceive(responder_ && responder_->HandleEmptySend());
    return;
  }
  const std::optional<FixedHeader> fixed = FixedHeader::Parse(bytes.bytes());
  if (!fixed) return ReplaceReceive(false);
  Received message;
  const Result<size_t, HeaderError> size = message.header.Parse(*fixed, bytes.bytes(), limits_);
  if (!size) {
    ReplaceReceive(false);
    return HandleUnreadable(*fixed, size.error());
  }
  // RFC 8166 §4.6.2
  if (fixed->procedure == Procedure::kDone) return ReplaceReceive(false);
  message.bytes = std::move(bytes);
  message.header_size = *size;
  const Direction direction = DirectionOf(message);
  if (direction == Direction::kReply) {
    ReplaceReceive(false);
    if (fixed->procedure == Procedure::kMsgp) return;  // only calls have pads; RFC 8166 §4.6.1
    // A Long Call must have a Read list (RFC 8166 §4.5.2). An RDMA_NOMSG without a Read list is a reply if one is
    // expected, and else a malformed call.
    const bool expected = requester_ && requester_->Expects(fixed->xid);
    const bool long_message = fixed->procedure == Procedure::kNomsg;
    if (long_message && responder_ && !expected) return responder_->HandleBadHeader(*fixed, HeaderError::kNoPayload);
    if (requester_) requester_->HandleReply(std::move(message));
  } else {
    ReplaceReceive(responder_ && responder_->TakesReceiveBack());
    if (responder_) responder_->HandleCall(std::move(message));
  }
}

void Connection::HandleUnreadable(const FixedHeader& fixed, HeaderError error) {
  log::debug("{}: header of {:08x} refused: {}", endpoint_->info().provider, fixed.xid.value(), ToString(error));
  // RFC 8166 §4.5: ignore a reply whose header is malformed.
  const bool reply =
      fixed.procedure == Procedure::kError || !responder_ || (requester_ && requester_->Expects(fixed.xid));
  if (!reply) responder_->HandleBadHeader(fixed, error);
}

void Connection::ReplaceReceive(bool give_up) {
  if (give_up) {
    --posted_;
    --needed_;
  } else {
    endpoint_->PostReceive({0, receive_size_});
  }
}

void Connection::HandleLost(const rdma::Completion& completion) {
  lost_ = true;
  if (!disconnecting_) end_ = completion.detail;
  Activity activity(*this);
  if (on_lost_) on_lost_();
  if (requester_) requester_->HandleLost();
  if (responder_) responder_->HandleLost();
}

void Connection::CheckFinished() {
  if (lost_) finish_->ExpireAfter(Duration::zero());
}

}  // namespace penstock::rpcrdma
