// The part of Side that delivers messages to the peer. Each event is one step: a segment, a Read Request or the close.
#include <algorithm>
#include <cassert>

#include "rdma/sim/side.h"

namespace penstock::rdma::sim {
namespace {

// Copies octets of `gather`, from offset `from` on, until `to` is full. Returns false if a file cannot be read.
bool CopyOut(const Gather& gather, size_t from, Bytes to) {
  for (const Data& piece : gather) {
    if (to.empty()) break;
    if (from >= piece.size()) {
      from -= piece.size();
      continue;
    }
    size_t size = std::min(piece.size() - from, to.size());
    if (!piece.Sub(from, size).CopyTo(to.first(size))) return false;
    to = to.subspan(size);
    from = 0;
  }
  return true;
}

}  // namespace

void Side::Later(Duration delay, void (Side::*method)()) {
  world_.Schedule(delay, [self = shared_from_this(), method] {
    if (!self->broken_) (self.get()->*method)();
  });
}

bool Side::StepLoses(const char* step) {
  bool loses = network_.StepLoses();
  world_.Trace("{} step {}: {}", name_, network_.steps(), step);
  if (loses) Break(DisconnectReason::kPeerReset, DisconnectReason::kPeerReset, "the network has lost the connection");
  return loses;
}

size_t Side::SegmentOf(size_t remaining) {
  size_t segment = std::min<size_t>(remaining, network_.options_.max_segment);
  // Some segments have a random size.
  if (segment > 1 && world_.random().Below(8) == 0) segment = world_.random().Between(1, segment);
  return segment;
}

// Completes early messages at the front of the queue, as far as the order of completions allows.
void Side::CompleteEarly() {
  for (Message& message : outgoing_) {
    if (message.kind == Message::Kind::kClose) return;
    if (message.completed || message.kind == Message::Kind::kReadRequest) continue;
    if (!message.early) return;
    message.completed = true;
    CompleteMessage(message);
  }
}

void Side::CompleteMessage(const Message& message) {
  const Operation operation = message.kind == Message::Kind::kSend ? Operation::kSend : Operation::kWrite;
  Complete(kSendsAndWrites, RequestCompletion(operation, message.context, Status::kSuccess));
}

void Side::KickOutgoing() {
  auto peer = peer_.lock();
  if (delivering_ || broken_ || outgoing_.empty() || !peer || !peer->ready_.started()) return;
  // A Read beyond ORD waits, and all requests after it wait too.
  if (outgoing_.front().kind == Message::Kind::kReadRequest && reads_out_.size() >= info_.ord) return;
  delivering_ = true;
  Later(network_.Latency(), &Side::DeliverNext);
}

void Side::DeliverNext() {
  delivering_ = false;
  auto peer = peer_.lock();
  Message& message = outgoing_.front();
  size_t segment = SegmentOf(message.size - message.delivered);
  switch (message.kind) {
    case Message::Kind::kSend:
      if (StepLoses("Send") || !DeliverSend(*peer, message, segment)) return;
      break;
    case Message::Kind::kWrite:
      if (StepLoses("Write") || !DeliverWrite(*peer, message, segment)) return;
      break;
    case Message::Kind::kReadRequest:
      if (StepLoses("Read Request")) return;
      reads_out_.push_back(std::move(reads_waiting_.front()));
      reads_waiting_.pop_front();
      assert(reads_out_.size() <= peer->info_.ird);
      KickReads();
      break;
    case Message::Kind::kClose:
      if (StepLoses("close")) return;
      Break(DisconnectReason::kLocal, DisconnectReason::kPeerClosed, "closed");
      return;
  }
  message.delivered += segment;
  network_.stats_.octets += segment;
  if (message.delivered == message.size) FinishMessage();
  KickOutgoing();
}

void Side::FinishMessage() {
  Message message = std::move(outgoing_.front());
  outgoing_.pop_front();
  if (message.kind == Message::Kind::kReadRequest) return;
  bool is_send = message.kind == Message::Kind::kSend;
  ++(is_send ? network_.stats_.sends : network_.stats_.writes);
  if (message.completed) return;
  CompleteMessage(message);
  CompleteEarly();
}

void Side::FileFails(Message& message) {
  message.if_flushed = Status::kLocalError;
  Break(DisconnectReason::kFault, DisconnectReason::kPeerReset, "a file that is being sent cannot be read");
}

bool Side::CopySegment(Message& message, Bytes to) {
  if (message.early) {
    CopyBytes(to, ConstBytes(message.staged).subspan(message.delivered, to.size()));
  } else if (!CopyOut(message.gather, message.delivered, to)) {
    FileFails(message);
    return false;
  }
  return true;
}

bool Side::DeliverSend(Side& peer, Message& message, size_t segment) {
  if (message.delivered == 0) {
    if (peer.receives_.empty()) {
      Refused(message.if_flushed, "a Send has no posted receive");
      return false;
    }
    const ReceiveRequest receive = peer.receives_.front();
    peer.receives_.pop_front();
    const bool fits = message.size <= receive.size;
    peer.receiving_ = {receive.context, peer.MakeMessage(fits ? message.size : 0)};
    if (!fits) {
      peer.receiving_if_flushed_ = Status::kLocalError;
      Refused(message.if_flushed, "a Send does not fit into its receive");
      return false;
    }
  }
  if (!CopySegment(message, peer.receiving_->buffer->bytes().subspan(message.delivered, segment))) return false;
  if (message.delivered + segment < message.size) return true;

  if (message.invalidate) {
    auto found = peer.regions_.find(*message.invalidate);
    if (found == peer.regions_.end()) {
      Refused(message.if_flushed, "a Send invalidates a region that is not valid");
      return false;
    }
    auto region = found->second;
    peer.Invalidate(*region);
    ++network_.stats_.invalidations;
  }
  Completion completion = ReceiveCompletion(*std::exchange(peer.receiving_, {}), Status::kSuccess);
  completion.length = static_cast<uint32_t>(message.size);
  completion.solicited = message.solicited;
  completion.invalidated = message.invalidate;
  peer.Complete(kReceives, std::move(completion));
  return true;
}

bool Side::DeliverWrite(Side& peer, Message& message, size_t segment) {
  if (message.size == 0) return true;  // an empty Write is not checked (RFC 5041 §5.2)
  auto memory = peer.Reach(message.remote, Access::kRemoteWrite);
  if (!memory || (message.delivered == 0 && network_.AccessRefused())) {
    Refused(message.if_flushed, "a Write may not reach its memory");
    return false;
  }
  return CopySegment(message, memory->subspan(message.delivered, segment));
}

void Side::KickReads() {
  auto peer = peer_.lock();
  if (serving_ || broken_ || network_.faults_.leave_reads || reads_out_.empty() || !peer || !peer->ready_.started())
    return;
  serving_ = true;
  Later(network_.Latency(), &Side::ServeNextRead);
}

void Side::ServeNextRead() {
  serving_ = false;
  auto peer = peer_.lock();
  Read& read = reads_out_.front();
  size_t segment = SegmentOf(read.request.local.size() - read.placed);
  if (StepLoses("Read Response")) return;
  if (segment > 0) {
    auto memory = peer->Reach(read.request.remote, Access::kRemoteRead);
    if (!memory || (read.placed == 0 && network_.AccessRefused())) {
      Refused(read.if_flushed, "a Read may not reach its memory");
      return;
    }
    CopyBytes(read.request.local.subspan(read.placed, segment), memory->subspan(read.placed, segment));
  }
  read.placed += segment;
  network_.stats_.octets += segment;
  if (read.placed == read.request.local.size()) {
    ++network_.stats_.reads;
    Complete(kReads, RequestCompletion(Operation::kRead, read.request.context, Status::kSuccess));
    reads_out_.pop_front();
    KickOutgoing();
  }
  KickReads();
}

std::optional<Bytes> Side::Reach(const RemoteSegment& remote, Access access) const {
  auto found = regions_.find(remote.stag);
  if (found == regions_.end()) return std::nullopt;
  const RegionState& region = *found->second;
  if (region.access != access || remote.offset < region.offset) return std::nullopt;
  uint64_t at = remote.offset - region.offset;
  if (at > region.memory.size() || remote.length > region.memory.size() - at) return std::nullopt;
  return region.memory.subspan(at, remote.length);
}

void Side::Refused(Status& if_flushed, const std::string& why) {
  ++network_.stats_.refused_accesses;
  if_flushed = Status::kRemoteAccess;
  Break(DisconnectReason::kPeerTerminated, DisconnectReason::kProtocolError, why);
}

}  // namespace penstock::rdma::sim
