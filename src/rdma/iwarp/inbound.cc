#include "rdma/iwarp/inbound.h"

#include <cassert>

namespace penstock::rdma::iwarp {
namespace {

bool Wraps(uint64_t offset, uint32_t size) { return offset + size < offset; }

bool Contains(const StagTable::Region& region, uint64_t offset, uint32_t size) {
  return offset >= region.offset && offset - region.offset <= region.memory.size() &&
         size <= region.memory.size() - (offset - region.offset);
}

// RFC 5040 §4.1, figure 4.
bool BelongsTo(Opcode opcode, uint32_t queue) {
  switch (opcode) {
    case Opcode::kSend:
    case Opcode::kSendInvalidate:
    case Opcode::kSendSolicited:
    case Opcode::kSendSolicitedInvalidate:
      return queue == kSendQueue;
    case Opcode::kReadRequest:
      return queue == kReadRequestQueue;
    case Opcode::kTerminate:
      return queue == kTerminateQueue;
    default:
      return false;
  }
}

}  // namespace

bool Inbound::HandleHeader(ConstBytes header, size_t length, Bytes& destination) {
  const SegmentControl control = SegmentControl::Parse(header.data());
  segment_.opcode = Opcode{control.opcode};
  segment_.last = control.last;
  segment_.absorbed = false;
  segment_.size = static_cast<uint32_t>(length - header.size());
  segment_.length = static_cast<uint16_t>(length);
  segment_.header_size = static_cast<uint8_t>(header.size());
  CopyBytes(segment_.header, header);
  const bool accepted = control.tagged ? HandleTagged(TaggedHeader::Parse(header.data()), destination)
                                       : HandleUntagged(UntaggedHeader::Parse(header.data()), destination);
  first_segment_ = false;
  return accepted;
}

bool Inbound::HandleTagged(const TaggedHeader& header, Bytes& destination) {
  if (header.control.ddp_version != SegmentControl::kDdpVersion) return Refuse(terminate::kTaggedVersion);
  if (header.control.rdmap_version > SegmentControl::kRdmapVersion) return Refuse(terminate::kRdmapVersion);
  segment_.stag = header.stag;
  switch (segment_.opcode) {
    case Opcode::kWrite:
      return HandleWrite(header, destination);
    case Opcode::kReadResponse:
      return HandleReadResponse(header, destination);
    default:
      return Refuse(terminate::kUnexpectedOpcode);
  }
}

bool Inbound::HandleWrite(const TaggedHeader& header, Bytes& destination) {
  if (segment_.size == 0) return true;  // RFC 5041 §5.2: STag and offset are ignored
  // RFC 5041 §7.1
  const StagTable::Region* region = stags_.Find(header.stag);
  if (!region || region->access != Access::kRemoteWrite) return Refuse(terminate::kInvalidStag);
  if (Wraps(header.offset, segment_.size)) return Refuse(terminate::kWrap);
  if (!Contains(*region, header.offset, segment_.size)) return Refuse(terminate::kBounds);
  destination = region->memory.subspan(header.offset - region->offset, segment_.size);
  return true;
}

bool Inbound::HandleReadResponse(const TaggedHeader& header, Bytes& destination) {
  if (reads_.outstanding.empty()) return Refuse(terminate::kUnexpectedOpcode);
  // RFC 5040 §5.5 rule 20: responses come in the order of the requests. A response must fill the whole sink from front
  // to back. If a peer could leave holes, the old contents of the memory would count as its data.
  const OutstandingRead& read = reads_.outstanding.front();
  if (segment_.size > 0) {
    if (header.stag != read.sink_stag) return Refuse(terminate::kInvalidStag);
    if (Wraps(header.offset, segment_.size)) return Refuse(terminate::kWrap);
    if (header.offset != read.received || segment_.size > read.size - read.received) return Refuse(terminate::kBounds);
    destination = read.sink.subspan(read.received, segment_.size);
  }
  if (segment_.last && read.received + segment_.size != read.size) return Refuse(terminate::kBounds);
  return true;
}

bool Inbound::HandleUntagged(const UntaggedHeader& header, Bytes& destination) {
  if (header.control.ddp_version != SegmentControl::kDdpVersion) return Refuse(terminate::kUntaggedVersion);
  if (header.queue >= kQueues) return Refuse(terminate::kInvalidQueue);
  if (header.control.rdmap_version > SegmentControl::kRdmapVersion) return Refuse(terminate::kRdmapVersion);
  if (!BelongsTo(segment_.opcode, header.queue)) return Refuse(terminate::kUnexpectedOpcode);
  segment_.queue = header.queue;
  segment_.stag = header.invalidate;

  Queue& queue = queues_[header.queue];
  if (queue.in_message && queue.opcode != segment_.opcode) return Refuse(terminate::kUnexpectedOpcode);
  // TCP delivers in order, so that only the next message can come.
  if (header.msn != queue.expected) return Refuse(terminate::kMsnRange);
  // RFC 6581 §9.2: a readiness indication uses no receive.
  if (options_.absorb_rtr_send && first_segment_ && segment_.opcode == Opcode::kSend && segment_.last &&
      segment_.size == 0) {
    segment_.absorbed = true;
    return true;
  }
  size_t room = 0;
  if (auto error = FindRoom(header.queue, room)) return Refuse(*error);
  // The segments must fill the buffer from front to back. HandleReadResponse() states the reason.
  if (header.offset != queue.offset) return Refuse(terminate::kInvalidOffset);
  if (segment_.size > room - queue.offset) return Refuse(terminate::kTooLong);
  destination = BufferOf(header.queue).subspan(queue.offset, segment_.size);
  queue.in_message = true;
  queue.opcode = segment_.opcode;
  return true;
}

// Determines how long the message in `queue` may be.
std::optional<TerminateCode> Inbound::FindRoom(uint32_t queue, size_t& room) {
  switch (queue) {
    case kSendQueue:
      if (receives_.empty()) return terminate::kNoBuffer;
      room = receives_.front().size;
      return std::nullopt;
    case kReadRequestQueue:
      // RFC 5040 §6.1: Reads beyond the IRD find no buffer.
      if (reads_.requested.size() >= options_.ird) return terminate::kNoBuffer;
      room = read_request_buffer_.size();
      return std::nullopt;
    default:
      room = terminate_buffer_.size();
      return std::nullopt;
  }
}

Bytes Inbound::BufferOf(uint32_t queue) {
  switch (queue) {
    case kSendQueue:
      // Most messages are one segment, so that their size is known.
      if (!message_) message_ = pool_.Allocate(segment_.last ? segment_.size : receives_.front().size);
      return message_->bytes();
    case kReadRequestQueue:
      return read_request_buffer_;
    default:
      return terminate_buffer_;
  }
}

bool Inbound::MayPlace() {
  if (segment_.opcode != Opcode::kWrite || stags_.Find(segment_.stag)) return true;
  refusal_ = MakeTerminate(terminate::kInvalidStag, segment_header(), segment_.length);
  return false;
}

bool Inbound::HandleEnd() {
  if (segment_.opcode == Opcode::kWrite) return true;
  if (segment_.opcode == Opcode::kReadResponse) {
    reads_.outstanding.front().received += segment_.size;
    octets_read_ += segment_.size + (segment_.last ? 1 : 0);
    if (segment_.last) CompleteRead();
    return true;
  }
  Queue& queue = queues_[segment_.queue];
  queue.offset += segment_.size;
  if (!segment_.last) return true;
  const uint32_t size = std::exchange(queue.offset, 0);
  queue.expected = Msn(queue.expected.value() + 1);
  queue.in_message = false;
  switch (segment_.queue) {
    case kSendQueue:
      return segment_.absorbed || DeliverSend(size);
    case kReadRequestQueue:
      return DeliverReadRequest(size);
    default:
      return DeliverTerminate(size);
  }
}

bool Inbound::DeliverSend(uint32_t size) {
  // RFC 5040 §5.3, §7.2
  const bool invalidates = Invalidates(segment_.opcode);
  if (invalidates && !stags_.Invalidate(segment_.stag)) return Fail(terminate::kCannotInvalidate);
  Completion completion = ReceiveCompletion({receives_.pop_front().context, std::move(message_)}, Status::kSuccess);
  completion.length = size;
  completion.solicited = Solicits(segment_.opcode);
  if (invalidates) completion.invalidated = segment_.stag;
  completions_.Add(std::move(completion));
  return true;
}

bool Inbound::DeliverReadRequest(uint32_t size) {
  if (size != ReadRequestHeader::kSize) return Fail(terminate::kUnspecified);
  const ReadRequestHeader request = ReadRequestHeader::Parse(read_request_buffer_.data());
  // RFC 5040 §5.2.1: a Read of no octets is answered without a check of its STag and offset.
  if (request.size > 0) {
    const StagTable::Region* region = stags_.Find(request.source_stag);
    if (!region) return Fail(terminate::kSourceInvalidStag, request);
    if (region->access != Access::kRemoteRead) return Fail(terminate::kSourceAccess, request);
    if (Wraps(request.source_offset, request.size)) return Fail(terminate::kSourceWrap, request);
    if (!Contains(*region, request.source_offset, request.size)) return Fail(terminate::kSourceBounds, request);
  }
  reads_.requested.push_back(request);
  return true;
}

bool Inbound::DeliverTerminate(uint32_t size) {
  peer_terminate_ = TerminateMessage::Parse(ConstBytes(terminate_buffer_).first(size));
  if (!peer_terminate_)
    peer_terminate_ = MakeTerminate(terminate::kUnspecified);  // a malformed Terminate ends the connection too
  return false;
}

void Inbound::CompleteRead() {
  OutstandingRead read = reads_.outstanding.pop_front();
  if (read.internal) return;
  Completion completion = RequestCompletion(Operation::kRead, read.context, Status::kSuccess);
  completion.length = read.size;
  completions_.Add(std::move(completion));
}

bool Inbound::Refuse(TerminateCode code) {
  refusal_ = MakeTerminate(code, segment_header(), segment_.length);
  return false;
}

bool Inbound::Fail(TerminateCode code, std::optional<ReadRequestHeader> request) {
  failure_ = MakeTerminate(code, segment_header(), segment_.length, request);
  return false;
}

}  // namespace penstock::rdma::iwarp
