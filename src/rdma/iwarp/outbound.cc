#include "rdma/iwarp/outbound.h"

#include <algorithm>
#include <cassert>

namespace penstock::rdma::iwarp {
namespace {

// The pointer of a marker has sixteen bits and counts the octets of markers too.
constexpr size_t kMaxUlpduWithMarkers = 32 << 10;
constexpr size_t kMinUlpdu = 128;     // RFC 5044 §4.5
constexpr size_t kMaxMulpdu = 64768;  // RFC 5044 §3; the reader accepts longer ULPDUs
constexpr size_t kPage = 4096;

size_t EffectiveMaxUlpdu(size_t wanted, const Framing& framing) {
  return std::clamp(wanted, kMinUlpdu, framing.markers ? kMaxUlpduWithMarkers : kMaxMulpdu);
}

}  // namespace

Outbound::Outbound(Options options, Framing framing, BufferPool& pool, StagTable& stags, RdmaReads& reads,
                   CompletionQueue& completions)
    : options_(options),
      max_ulpdu_(EffectiveMaxUlpdu(options.max_ulpdu, framing)),
      stags_(stags),
      reads_(reads),
      completions_(completions),
      writer_(framing, pool) {}

void Outbound::Post(WorkRequest&& request) {
  WorkRequest& posted = requests_.push_back(std::move(request));
  posted.cursor = GatherCursor(posted.gather);
}

bool Outbound::Fill() {
  if (!allowed_) return true;
  while (writer_.has_room()) {
    if (current_ == Source::kNone) current_ = Choose();
    if (current_ == Source::kNone) return true;
    last_ = current_;
    if (current_ == Source::kRequest) {
      AddRequest();
      if (writer_.file_error()) return false;
    } else if (!AddResponse()) {
      return false;
    }
  }
  return true;
}

Outbound::Source Outbound::Choose() {
  const bool response = !reads_.requested.empty();
  const bool request = RequestReady();
  if (response && request) return last_ == Source::kResponse ? Source::kRequest : Source::kResponse;
  if (response) return Source::kResponse;
  return request ? Source::kRequest : Source::kNone;
}

bool Outbound::RequestReady() {
  if (built_ == requests_.size()) return false;
  // A Read beyond ORD waits, and all requests after it wait too: requests leave in order (RFC 5040 §5.5 rule 13).
  return requests_[built_].operation != Operation::kRead || reads_.outstanding.size() < options_.ord;
}

void Outbound::AddRequest() {
  WorkRequest& request = requests_[built_];
  switch (request.operation) {
    case Operation::kSend:
      AddSend(request);
      break;
    case Operation::kWrite:
      AddWrite(request);
      break;
    default:
      AddRead(request);
      break;
  }
  if (request.done < request.size && request.operation != Operation::kRead) return;
  request.built = true;
  request.end = writer_.added();
  ++built_;
  current_ = Source::kNone;
}

void Outbound::AddSend(WorkRequest& request) {
  const size_t size = SegmentSize(UntaggedHeader::kSize, request.size - request.done);
  const bool last = request.done + size == request.size;
  UntaggedHeader header;
  header.control = Control(false, request.opcode, last);
  if (Invalidates(request.opcode)) header.invalidate = request.stag;
  header.queue = kSendQueue;
  header.msn = Msn(next_msn_[kSendQueue]);
  header.offset = request.done;
  std::array<std::byte, UntaggedHeader::kSize> bytes;
  header.Serialize(bytes.data());
  writer_.Add(bytes, {}, &request.cursor, size);
  request.done += static_cast<uint32_t>(size);
  if (last) ++next_msn_[kSendQueue];
}

void Outbound::AddWrite(WorkRequest& request) {
  const size_t size = SegmentSize(TaggedHeader::kSize, request.size - request.done);
  TaggedHeader header;
  header.control = Control(true, Opcode::kWrite, request.done + size == request.size);
  header.stag = request.stag;
  header.offset = request.offset + request.done;
  std::array<std::byte, TaggedHeader::kSize> bytes;
  header.Serialize(bytes.data());
  writer_.Add(bytes, {}, &request.cursor, size);
  request.done += static_cast<uint32_t>(size);
}

void Outbound::AddRead(WorkRequest& request) {
  // Only the response to this Read can use the sink STag, so that the STag need not be secret.
  const Stag sink_stag(next_sink_stag_++);
  std::array<std::byte, ReadRequestHeader::kSize> body;
  ReadRequestHeader{sink_stag, 0, request.size, request.stag, request.offset}.Serialize(body.data());
  AddMessage(Opcode::kReadRequest, kReadRequestQueue, body);
  OutstandingRead read;
  read.context = request.context;
  read.internal = request.internal;
  read.sink_stag = sink_stag;
  read.sink = request.sink;
  read.owner = std::move(request.owner);
  read.size = request.size;
  reads_.outstanding.push_back(std::move(read));
}

bool Outbound::AddResponse() {
  const ReadRequestHeader& request = reads_.requested.front();
  const uint32_t left = request.size - response_done_;
  const size_t size = SegmentSize(TaggedHeader::kSize, left);
  Data payload;
  if (size > 0) {
    const StagTable::Region* region = stags_.Find(request.source_stag);
    if (!region) {
      // The region was valid when the request arrived. RFC 5040 §4.8: the header describes the part that is left.
      ReadRequestHeader rest = request;
      rest.sink_offset += response_done_;
      rest.source_offset += response_done_;
      rest.size = left;
      failure_ = MakeTerminate(terminate::kSourceInvalidStag, {}, 0, rest);
      return false;
    }
    payload =
        Data(Slice::Borrowed(region->memory.subspan(request.source_offset - region->offset + response_done_, size)));
  }
  TaggedHeader header;
  header.control = Control(true, Opcode::kReadResponse, size == left);
  header.stag = request.sink_stag;
  header.offset = request.sink_offset + response_done_;
  std::array<std::byte, TaggedHeader::kSize> bytes;
  header.Serialize(bytes.data());
  GatherCursor cursor(std::span(&payload, 1));
  writer_.Add(bytes, {}, &cursor, size, request.source_stag);
  response_done_ += static_cast<uint32_t>(size);
  if (size == left) {
    response_done_ = 0;
    reads_.requested.pop_front();
    current_ = Source::kNone;
  }
  return true;
}

void Outbound::HandleSent(size_t size) {
  writer_.HandleSent(size);
  while (built_ > 0 && requests_.front().end <= writer_.sent()) {
    const WorkRequest request = requests_.pop_front();
    --built_;
    if (request.internal || request.operation == Operation::kRead)
      continue;  // the end of its response completes a Read
    Completion completion = RequestCompletion(request.operation, request.context, Status::kSuccess);
    completion.length = request.size;
    completions_.Add(std::move(completion));
  }
}

void Outbound::AddTerminate(const TerminateMessage& message) {
  std::array<std::byte, TerminateMessage::kMaxSize> body;
  const size_t size = message.Serialize(body.data());
  AddMessage(Opcode::kTerminate, kTerminateQueue, ConstBytes(body).first(size));
}

void Outbound::AddMessage(Opcode opcode, uint32_t queue, ConstBytes body) {
  UntaggedHeader header;
  header.control = Control(false, opcode, true);
  header.queue = queue;
  header.msn = Msn(next_msn_[queue]++);
  std::array<std::byte, UntaggedHeader::kSize> bytes;
  header.Serialize(bytes.data());
  writer_.Add(bytes, body, nullptr, 0);
}

// Returns the payload size of the next segment. All segments of a message except the last one are whole pages, if a
// page fits, so that memory and files are cut at page boundaries, where copies are cheap.
size_t Outbound::SegmentSize(size_t header_size, size_t left) const {
  const size_t most = max_ulpdu_ - header_size;
  if (left <= most) return left;
  return most >= kPage ? most / kPage * kPage : most / 4 * 4;
}

SegmentControl Outbound::Control(bool tagged, Opcode opcode, bool last) const {
  SegmentControl control;
  control.tagged = tagged;
  control.last = last;
  control.opcode = static_cast<uint8_t>(opcode);
  return control;
}

}  // namespace penstock::rdma::iwarp
