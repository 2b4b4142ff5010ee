#include "rdma/iwarp/rdmap_stream.h"

#include <algorithm>
#include <cassert>

#include "base/task.h"

namespace penstock::rdma::iwarp {
namespace {

class Region : public MemoryRegion {
 public:
  Region(std::shared_ptr<StagTable> stags, const StagTable::Region& region)
      : stags_(std::move(stags)), stag_(region.stag), offset_(region.offset), length_(region.memory.size()) {}
  ~Region() override { stags_->Invalidate(stag_); }

  Stag stag() const override { return stag_; }
  uint64_t offset() const override { return offset_; }
  size_t length() const override { return length_; }
  bool valid() const override { return stags_->Find(stag_) != nullptr; }

  // The memory of regions is recycled, because each RPC registers some.
  static void* operator new(size_t size) { return FrameAllocator::Allocate(size); }
  static void operator delete(void* region, size_t size) noexcept { FrameAllocator::Free(region, size); }

 private:
  std::shared_ptr<StagTable> stags_;
  Stag stag_;
  uint64_t offset_;
  size_t length_;
};

// Makes a message of no octets that the stream itself posts. It has no completion.
WorkRequest InternalRequest(Operation operation) {
  WorkRequest request;
  request.operation = operation;
  request.internal = true;
  return request;
}

WorkRequest TaggedRequest(Operation operation, Context context, const RemoteSegment& remote) {
  WorkRequest request;
  request.operation = operation;
  request.context = context;
  request.stag = remote.stag;
  request.offset = remote.offset;
  return request;
}

}  // namespace

RdmapStream::RdmapStream(Options options, BufferPool& pool, Entropy entropy)
    : options_(options),
      stags_(std::make_shared<StagTable>(std::move(entropy))),
      inbound_({options_.agreement.ird, options_.agreement.absorb_rtr_send}, pool, *stags_, reads_, completions_),
      reader_({options_.agreement.crc, options_.agreement.receive_markers}, inbound_),
      outbound_({options_.max_ulpdu, options_.agreement.ord}, {options_.agreement.crc, options_.agreement.send_markers},
                pool, *stags_, reads_, completions_) {
  stags_->set_user(&outbound_.writer());
  if (options_.initiator) outbound_.AllowSending();
  if (options_.agreement.send_rtr) SendRtr(*options_.agreement.send_rtr);
}

RdmapStream::~RdmapStream() {
  stags_->set_user(nullptr);
  stags_->InvalidateAll();
}

// RFC 6581 §9.2: the readiness indication is the first message of the initiator and has no payload.
void RdmapStream::SendRtr(Rtr kind) {
  switch (kind) {
    case Rtr::kSend:
      return outbound_.Post(InternalRequest(Operation::kSend));
    case Rtr::kWrite:
      return outbound_.Post(InternalRequest(Operation::kWrite));
    case Rtr::kRead:
      return outbound_.Post(InternalRequest(Operation::kRead));
  }
}

void RdmapStream::Nudge() {
  if (!unanswered() || state_ == State::kHalfClosed) return;
  outbound_.Post(InternalRequest(Operation::kWrite));
}

void RdmapStream::PostReceive(ReceiveRequest request) {
  if (state_ == State::kOpen) return inbound_.PostReceive(request);
  completions_.Add(RequestCompletion(Operation::kReceive, request.context, Status::kFlushed));
}

void RdmapStream::PostSend(SendRequest request) {
  if (!Accepts(Operation::kSend, request.context)) return;
  const size_t size = SizeOf(request.gather);
  if (size > kMaxMessage) return FailLocally(Operation::kSend, request.context, "a Send that is too long");
  WorkRequest work_request;
  work_request.context = request.context;
  work_request.opcode = SendOpcode(request.solicited, request.invalidate.has_value());
  work_request.stag = request.invalidate.value_or(Stag());
  work_request.size = static_cast<uint32_t>(size);
  work_request.gather = std::move(request.gather);
  outbound_.Post(std::move(work_request));
}

void RdmapStream::PostWrite(WriteRequest request) {
  if (!Accepts(Operation::kWrite, request.context)) return;
  const size_t size = SizeOf(request.gather);
  if (size > std::min(kMaxTransfer, request.remote.length)) {
    return FailLocally(Operation::kWrite, request.context, "an RDMA Write that is too long");
  }
  WorkRequest work_request = TaggedRequest(Operation::kWrite, request.context, request.remote);
  work_request.size = static_cast<uint32_t>(size);
  work_request.gather = std::move(request.gather);
  outbound_.Post(std::move(work_request));
}

void RdmapStream::PostRead(ReadRequest request) {
  if (!Accepts(Operation::kRead, request.context)) return;
  if (options_.agreement.ord == 0) return FailLocally(Operation::kRead, request.context, "an RDMA Read with ORD 0");
  if (request.remote.length > kMaxTransfer || request.local.size() != request.remote.length) {
    return FailLocally(Operation::kRead, request.context, "an RDMA Read of the wrong length");
  }
  WorkRequest work_request = TaggedRequest(Operation::kRead, request.context, request.remote);
  work_request.size = request.remote.length;
  work_request.sink = request.local;
  work_request.owner = std::move(request.owner);
  outbound_.Post(std::move(work_request));
}

std::unique_ptr<MemoryRegion> RdmapStream::Register(Bytes memory, Access access) {
  return std::make_unique<Region>(stags_, stags_->Register(memory, access));
}

void RdmapStream::PostInvalidate(Context context, MemoryRegion& region) {
  stags_->Invalidate(region.stag());
  completions_.Add(RequestCompletion(Operation::kInvalidate, context, Status::kSuccess));
}

void RdmapStream::Disconnect() {
  if (state_ != State::kOpen) return;
  state_ = State::kDraining;
  CheckDrained();
}

void RdmapStream::HandleReceived(size_t size, ConstBytes staging) {
  reader_.HandleReceived(size, staging);
  CheckInput();
}

void RdmapStream::CheckInput() {
  if (state_ == State::kLost) return;
  if (inbound_.failure()) {
    const TerminateMessage message = *inbound_.failure();
    // The Send was longer than the oldest receive, which therefore completes with kLocalError.
    if (message.code == terminate::kTooLong && !inbound_.receives().empty() && message.ddp_header_size > 0 &&
        UntaggedHeader::Parse(message.ddp_header.data()).queue == kSendQueue) {
      completions_.Add(
          RequestCompletion(Operation::kReceive, inbound_.receives().pop_front().context, Status::kLocalError));
    }
    return Fail(message, DisconnectReason::kProtocolError, message.ToString());
  }
  if (inbound_.peer_terminate()) return HandlePeerTerminate(*inbound_.peer_terminate());
  if (!outbound_.allowed() && reader_.fpdus() > 0) outbound_.AllowSending();
  CheckDrained();
}

void RdmapStream::HandleEndOfStream() {
  switch (state_) {
    case State::kOpen:
      if (reader_.at_boundary()) return Lose(DisconnectReason::kPeerClosed, "closed by the peer", Ending::kClose);
      return Lose(DisconnectReason::kPeerReset, "closed by the peer in the middle of a frame", Ending::kClose);
    case State::kDraining:
    case State::kHalfClosed:
      return Lose(DisconnectReason::kLocal, "closed by us", Ending::kClose);
    case State::kLost:
      ending_ = Ending::kClose;
      return;
  }
}

void RdmapStream::HandleBroken(std::string detail) {
  if (state_ == State::kLost) {
    ending_ = Ending::kReset;
    return;
  }
  const bool ours = state_ == State::kHalfClosed;
  Lose(ours ? DisconnectReason::kLocal : DisconnectReason::kPeerReset, std::move(detail), Ending::kReset);
}

void RdmapStream::HandleFault(std::string detail) {
  if (state_ == State::kLost) return;
  Fail(MakeTerminate(terminate::kLocalCatastrophic), DisconnectReason::kFault, std::move(detail));
}

void RdmapStream::Abandon() {
  if (state_ != State::kLost) {
    Lose(DisconnectReason::kLocal, "given up", state_ == State::kHalfClosed ? Ending::kShutdown : Ending::kReset);
  }
  completions_.Close();
}

void RdmapStream::Refuse(TerminateCode code) {
  Fail(MakeTerminate(code), DisconnectReason::kProtocolError, code.ToString());
}

void RdmapStream::HandleCloseTimeout() {
  if (state_ == State::kLost) {
    ending_ = Ending::kReset;
  } else {
    Lose(DisconnectReason::kLocal, "closed by us; the peer has not closed its half", Ending::kReset);
  }
}

int RdmapStream::StalledIntervals() {
  const auto look = [](Progress& progress, bool owed, uint64_t now) {
    progress.stalled = owed && now == progress.seen ? progress.stalled + 1 : 0;
    progress.seen = now;
    return progress.stalled;
  };
  const bool in_message = !reader_.at_boundary() || inbound_.in_message();
  return std::max({look(sending_, in_message, reader_.fpdus()),
                   look(taking_, !outbound_.writer().batch_sent(), outbound_.writer().sent()),
                   look(answering_, !reads_.outstanding.empty(), inbound_.octets_read())});
}

void RdmapStream::HandleStall() {
  if (state_ != State::kLost) Lose(DisconnectReason::kPeerReset, "the peer stalled", Ending::kReset);
}

FpduWriter::Part RdmapStream::NextToSend() {
  if ((state_ == State::kOpen || state_ == State::kDraining) && !outbound_.Fill()) {
    if (const auto& error = outbound_.writer().file_error()) {
      HandleFault("cannot read a file that is being sent: " + error->message());
    } else {
      const TerminateMessage message = *outbound_.failure();
      Fail(message, DisconnectReason::kProtocolError, message.ToString());
    }
  }
  return outbound_.writer().Next();
}

void RdmapStream::HandleSent(size_t size) {
  if (state_ == State::kLost) return outbound_.writer().HandleSent(size);
  outbound_.HandleSent(size);
  CheckDrained();
}

RdmapStream::Ending RdmapStream::ending() const {
  switch (state_) {
    case State::kOpen:
    case State::kDraining:
      return Ending::kNone;
    case State::kHalfClosed:
      return Ending::kShutdown;
    case State::kLost:
      return ending_;
  }
  return Ending::kNone;
}

// Ends the draining of Disconnect() when all requests are sent and the Reads of both sides are answered.
void RdmapStream::CheckDrained() {
  if (state_ != State::kDraining) return;
  // A responder that has received no FPDU must not send; its posted requests are flushed.
  if (!outbound_.allowed() || (outbound_.idle() && reads_.outstanding.empty())) state_ = State::kHalfClosed;
}

void RdmapStream::Fail(const TerminateMessage& message, DisconnectReason reason, std::string detail) {
  if (state_ == State::kHalfClosed) return Lose(DisconnectReason::kLocal, std::move(detail), Ending::kReset);
  // RFC 5040 §5.4: the Terminate is the last message. §6.2.1: then this side closes in order, so that the Terminate
  // arrives. A responder that has received no valid FPDU must not send (RFC 5044 §7.1.2 rule 4).
  const bool spoken_to = outbound_.allowed() || reader_.fpdus() > 0;
  const bool can_send = outbound_.writer().Cut() && spoken_to;
  if (can_send) outbound_.AddTerminate(message);
  Lose(reason, std::move(detail), can_send ? Ending::kShutdown : Ending::kReset);
}

void RdmapStream::HandlePeerTerminate(const TerminateMessage& message) {
  blame_ = &message;
  std::string detail = "the peer: " + message.ToString();
  Lose(DisconnectReason::kPeerTerminated, std::move(detail), Ending::kClose);
}

void RdmapStream::Lose(DisconnectReason reason, std::string detail, Ending ending) {
  assert(state_ != State::kLost);
  state_ = State::kLost;
  ending_ = ending;
  reader_.Stop();
  if (ending != Ending::kShutdown) outbound_.writer().Drop();
  stags_->InvalidateAll();
  FlushAll();
  completions_.Add(DisconnectCompletion(reason, std::move(detail)));
}

void RdmapStream::FlushAll() {
  const bool access = blame_ && blame_->code.is_remote_access();
  for (Fifo<OutstandingRead>& reads = reads_.outstanding; !reads.empty();) {
    const OutstandingRead read = reads.pop_front();
    const bool blamed = access && blame_->read_request && blame_->read_request->sink_stag == read.sink_stag;
    if (!read.internal)
      completions_.Add(
          RequestCompletion(Operation::kRead, read.context, blamed ? Status::kRemoteAccess : Status::kFlushed));
  }
  for (Fifo<WorkRequest>& requests = outbound_.requests(); !requests.empty();) {
    const WorkRequest request = requests.pop_front();
    if (request.internal || (request.operation == Operation::kRead && request.built)) continue;
    bool blamed = false;
    if (access && request.operation == Operation::kWrite && blame_->ddp_header_size == TaggedHeader::kSize) {
      blamed = TaggedHeader::Parse(blame_->ddp_header.data()).stag == request.stag;
    }
    completions_.Add(
        RequestCompletion(request.operation, request.context, blamed ? Status::kRemoteAccess : Status::kFlushed));
  }
  for (Fifo<ReceiveRequest>& receives = inbound_.receives(); !receives.empty();) {
    completions_.Add(RequestCompletion(Operation::kReceive, receives.pop_front().context, Status::kFlushed));
  }
  reads_.requested.clear();
}

void RdmapStream::FailLocally(Operation operation, Context context, std::string_view why) {
  completions_.Add(RequestCompletion(operation, context, Status::kLocalError));
  HandleFault(std::string(why));
}

bool RdmapStream::Accepts(Operation operation, Context context) {
  if (state_ == State::kOpen) return true;
  completions_.Add(RequestCompletion(operation, context, Status::kFlushed));
  return false;
}

}  // namespace penstock::rdma::iwarp
