#include "rdma/iwarp/outbound.h"

#include <algorithm>
#include <cassert>

namespace penstock::rdma::iwarp {
namespace {

// A marker points back by sixteen bits at most, markers included.
constexpr size_t kMaxUlpduWithMarkers = 32 << 10;
constexpr size_t kMinUlpdu = 128;     // RFC 5044 §4.5
constexpr size_t kMaxMulpdu = 64768;  // RFC 5044 §3; longer ones are taken all the same
constexpr size_t kPage = 4096;

size_t EffectiveMaxUlpdu(size_t wanted, const Framing& framing) {
  return std::clamp(wanted, kMinUlpdu, framing.markers ? kMaxUlpduWithMarkers : kMaxMulpdu);
}

}  // namespace

Outbound::Outbound(Options options, Framing framing, BufferPool& pool, StagTable& stags, Inbound& inbound,
                   Fifo<Completion>& completions)
    : options_(options),
      max_ulpdu_(EffectiveMaxUlpdu(options.max_ulpdu, framing)),
      stags_(stags),
      inbound_(inbound),
      completions_(completions),
      writer_(framing, pool) {}

void Outbound::Post(Work work) {
  Work& posted = works_.push_back(std::move(work));
  posted.cursor = GatherCursor(posted.gather);
}

bool Outbound::Fill() {
  if (!allowed_) return true;
  while (writer_.has_room()) {
    if (current_ == Source::kNone) current_ = Choose();
    if (current_ == Source::kNone) return true;
    last_ = current_;
    if (current_ == Source::kWork) {
      AddWork();
      if (writer_.file_error()) return false;
    } else if (!AddResponse()) {
      return false;
    }
  }
  return true;
}

Outbound::Source Outbound::Choose() {
  const bool response = !inbound_.read_requests().empty();
  const bool work = WorkReady();
  if (response && work) return last_ == Source::kResponse ? Source::kWork : Source::kResponse;
  if (response) return Source::kResponse;
  return work ? Source::kWork : Source::kNone;
}

bool Outbound::WorkReady() {
  if (built_ == works_.size()) return false;
  // A Read beyond our ORD waits, and what was posted after it as well: requests leave in order (RFC 5040 §5.5 rule 13).
  return works_[built_].operation != Operation::kRead || inbound_.reads().size() < options_.ord;
}

void Outbound::AddWork() {
  Work& work = works_[built_];
  switch (work.operation) {
    case Operation::kSend:
      AddSend(work);
      break;
    case Operation::kWrite:
      AddWrite(work);
      break;
    default:
      AddRead(work);
      break;
  }
  if (work.done < work.size && work.operation != Operation::kRead) return;
  work.built = true;
  work.end = writer_.added();
  ++built_;
  current_ = Source::kNone;
}

void Outbound::AddSend(Work& work) {
  const size_t size = SegmentSize(UntaggedHeader::kSize, work.size - work.done);
  const bool last = work.done + size == work.size;
  UntaggedHeader header;
  header.control = Control(false, work.opcode, last);
  if (Invalidates(work.opcode)) header.invalidate = work.stag;
  header.queue = kSendQueue;
  header.msn = Msn(next_msn_[kSendQueue]);
  header.offset = work.done;
  std::array<std::byte, UntaggedHeader::kSize> bytes;
  header.Serialize(bytes.data());
  writer_.Add(bytes, {}, &work.cursor, size);
  work.done += static_cast<uint32_t>(size);
  if (last) ++next_msn_[kSendQueue];
}

void Outbound::AddWrite(Work& work) {
  const size_t size = SegmentSize(TaggedHeader::kSize, work.size - work.done);
  TaggedHeader header;
  header.control = Control(true, Opcode::kWrite, work.done + size == work.size);
  header.stag = work.stag;
  header.offset = work.offset + work.done;
  std::array<std::byte, TaggedHeader::kSize> bytes;
  header.Serialize(bytes.data());
  writer_.Add(bytes, {}, &work.cursor, size);
  work.done += static_cast<uint32_t>(size);
}

void Outbound::AddRead(Work& work) {
  // Only a response to this very Read can use the sink STag, so that it need not be a secret.
  const Stag sink_stag(next_sink_stag_++);
  UntaggedHeader header;
  header.control = Control(false, Opcode::kReadRequest, true);
  header.queue = kReadRequestQueue;
  header.msn = Msn(next_msn_[kReadRequestQueue]++);
  std::array<std::byte, UntaggedHeader::kSize> bytes;
  header.Serialize(bytes.data());
  std::array<std::byte, ReadRequestHeader::kSize> request;
  ReadRequestHeader{sink_stag, 0, work.size, work.stag, work.offset}.Serialize(request.data());
  writer_.Add(bytes, request, nullptr, 0);
  OutstandingRead read;
  read.context = work.context;
  read.internal = work.internal;
  read.sink_stag = sink_stag;
  read.sink = work.sink;
  read.owner = std::move(work.owner);
  read.size = work.size;
  inbound_.ExpectRead(std::move(read));
}

bool Outbound::AddResponse() {
  const ReadRequestHeader& request = inbound_.read_requests().front();
  const uint32_t left = request.size - response_done_;
  const size_t size = SegmentSize(TaggedHeader::kSize, left);
  Data payload;
  if (size > 0) {
    const StagTable::Region* region = stags_.Find(request.source_stag);
    if (!region) {
      // It was valid when the request came. RFC 5040 §4.8: the header says how far we have got.
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
    inbound_.read_requests().pop_front();
    current_ = Source::kNone;
  }
  return true;
}

void Outbound::HandleSent(size_t size) {
  writer_.HandleSent(size);
  while (built_ > 0 && works_.front().end <= writer_.sent()) {
    const Work work = works_.pop_front();
    --built_;
    if (work.internal || work.operation == Operation::kRead) continue;  // a Read completes when its response has come
    Completion completion;
    completion.operation = work.operation;
    completion.context = work.context;
    completion.length = work.size;
    completions_.push_back(std::move(completion));
  }
}

void Outbound::AddTerminate(const TerminateMessage& message) {
  UntaggedHeader header;
  header.control = Control(false, Opcode::kTerminate, true);
  header.queue = kTerminateQueue;
  header.msn = Msn(next_msn_[kTerminateQueue]++);
  std::array<std::byte, UntaggedHeader::kSize> bytes;
  header.Serialize(bytes.data());
  std::array<std::byte, TerminateMessage::kMaxSize> body;
  const size_t size = message.Serialize(body.data());
  writer_.Add(bytes, ConstBytes(body).first(size), nullptr, 0);
}

// All segments of a message but the last are whole pages where they can be, so that the peer's memory, and ours, and files
// are cut where copies are cheap.
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
