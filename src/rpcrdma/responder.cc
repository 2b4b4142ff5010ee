#include "rpcrdma/responder.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/log.h"
#include "base/probes.h"
#include "rpc/call_order.h"
#include "rpc/header.h"
#include "rpcrdma/payload.h"
#include "rpcrdma/reply_plan.h"

namespace penstock::rpcrdma {
namespace {

bool BeginsWith(const Slice& stream, rpc::Xid xid) {
  return stream.size() >= 4 && LoadBig<uint32_t>(stream.data()) == xid.value();
}

bool IsCall(const Slice& stream, rpc::Xid xid) {
  return BeginsWith(stream, xid) && rpc::DirectionOf(stream.bytes()) == rpc::Direction::kCall;
}

}  // namespace

Responder::Responder(Connection& connection, rpc::CallHandler& handler, const rpc::Peer& peer,
                     const ResponderOptions& options, RefusedCalls* refused, rpc::MemoryBudget::Account* memory)
    : connection_(connection),
      handler_(handler),
      peer_(peer),
      options_(options),
      refused_(refused),
      credits_(options.one_receive_first ? 1 : std::min(options.first_credits, options.credits)),
      receives_(options.first_receives()),
      demand_(options.first_credits, options.credits),
      opening_(options.one_receive_first),
      reads_(connection.endpoint()),
      memory_(memory) {
  assert(options_.max_pulled_octets >= options_.max_call_octets);
  connection_.AddReceives(receives_);
}

void Responder::End(std::string why, metrics::ConnectionEnd reason) {
  if (peer_.counts && !connection_.lost()) peer_.counts->SetEnd(reason);
  connection_.Disconnect(std::move(why));
}

void Responder::CountChunks(const Header& header, const ReadPlan* plan) const {
  metrics::RdmaCounts* const counted = counts();
  if (!counted) return;
  if (plan && plan->long_call) counted->position_zero_chunks.Add();
  if (plan && !plan->items.empty()) counted->read_chunks.Add(plan->items.size());
  if (header.chunks.writes.size() > 0) counted->write_chunks.Add(header.chunks.writes.size());
  if (header.chunks.has_reply) counted->reply_chunks.Add();
  if (!plan && header.chunks.empty()) counted->inline_calls.Add();
}

void Responder::set_credits(uint32_t credits) {
  const uint32_t limit = demand_.set_most(credits);
  if (!opening_) SetCreditLimit(limit);
}

void Responder::SetCreditLimit(uint32_t limit) {
  credits_.set_limit(limit);
  const uint32_t needed = credits_.receives_needed();
  if (receives_ >= needed) return;
  connection_.AddReceives(needed - receives_);
  receives_ = needed;
}

void Responder::Stop() {
  stopping_ = true;
  if (credits_.unanswered() == 0) connection_.Disconnect("stopped");
}

void Responder::EndCall() {
  credits_.HandleAnswered();
  if (stopping_ && credits_.unanswered() == 0) connection_.Disconnect("stopped");
}

void Responder::HandleCall(Received&& message) {
  if (!ReceivesReplies()) return;
  if (IsRefused(message.header)) {
    log::debug("call {:08x} refused: its memory was not accessible before", message.header.fixed.xid.value());
    LeaveGap(message.header.fixed.xid);
    Spawn(SendError(message.header.fixed, ErrorCode::kChunk));
    return;
  }
  if (stopping_) return;  // the requester sends the call again on its next connection
  empty_sends_ = 0;
  // A receive may be longer than the agreed size, because it was posted before the binding.
  if (bound_ && message.bytes.size() > connection_.thresholds().receive) {
    return End("the peer sent a longer call than it has agreed on");
  }
  if (!credits_.HandleCall()) return End("the peer sent more calls than it was granted");
  if (!bound_ && !opening_) {
    const uint32_t before = demand_.limit();
    const uint32_t limit = demand_.HandleCall(credits_.unanswered() + replies_queued_, message.header.fixed.credits);
    if (limit != before) SetCreditLimit(limit);
  }
  Spawn(Serve(std::move(message)));
}

void Responder::LeaveGap(rpc::Xid xid) {
  if (peer_.order && IsBoundToSession()) (void)peer_.order->Enter(xid, rpc::CallOrder::Lateness::kArguments);
}

void Responder::HandleBadHeader(const FixedHeader& fixed, HeaderError error) {
  LeaveGap(fixed.xid);
  if (ReceivesReplies())
    Spawn(SendError(fixed, error == HeaderError::kVersion ? ErrorCode::kVersion : ErrorCode::kChunk));
}

// Credits alone do not limit the replies that are queued for a peer that never receives: a posted reply gives its
// credit back. A peer that respects its credits has received all replies except those to its last
// credits_.most_unanswered() calls. As many more replies may have left without a completion so far.
bool Responder::ReceivesReplies() {
  if (replies_queued_ < 2 * credits_.most_unanswered()) return true;
  End("the peer does not receive its replies");
  return false;
}

void Responder::HandleLost() {
  if (memory_) memory_->StopWaiting();
  room_.Close();
  queue_room_.Close();
}

Task<void> Responder::Serve(Received message) {
  Connection::Activity activity(connection_);
  std::optional<rpc::CallOrder::Place> place;
  UnansweredCall unanswered(*this);
  PullRoom pulled;
  std::optional<PulledPieces> pieces;
  Header& header = message.header;
  const FixedHeader request = header.fixed;
  const RefusedCalls::Key key = KeyOf(header);
  PENSTOCK_PROBE(3, call__received, request.xid.value(), peer_.connection, message.bytes.size());
  auto refuse = [this, &request](std::string_view why) {
    log::debug("call {:08x} refused: {}", request.xid.value(), why);
    Spawn(SendError(request, ErrorCode::kChunk));
  };

  connection_.LogState(request.xid, "received, {} octets, {} Read segments, {} Write chunks{}", message.bytes.size(),
                       header.chunks.reads.size(), header.chunks.writes.size(),
                       header.chunks.has_reply ? ", a Reply chunk" : "");
  // Reassemble the call. Its stream is in the Send or in the position-zero chunk; its items are in the other Read
  // chunks.
  rpc::Message call;
  if (request.procedure != Procedure::kNomsg) call.stream = message.payload();
  if (request.procedure == Procedure::kMsgp) {
    call.padding = {.boundary = header.alignment,
                    .threshold = header.threshold,
                    .offset = static_cast<uint32_t>(message.header_size)};
  }
  if (!options_.chunks && !header.chunks.empty()) co_return refuse("chunks are not supported on this connection");
  if (!header.chunks.reads.empty() && !may_read_) co_return refuse("the connection was bound without RDMA Reads");
  const bool is_late = !header.chunks.reads.empty() || request.procedure == Procedure::kNomsg;
  if (peer_.order && (is_late || IsBoundToSession())) {
    using Lateness = rpc::CallOrder::Lateness;
    place.emplace(peer_.order->Enter(request.xid, is_late ? Lateness::kPayload : Lateness::kArguments));
  }
  if (is_late) {
    Result<ReadPlan, ReadError> plan = PlanReads(header, call.stream.size(), options_.max_call_octets);
    if (!plan) co_return refuse(ToString(plan.error()));
    CountChunks(header, &*plan);
    const Room room = RoomFor(*plan);
    bool ready = room_.empty() && TakeRoom(room);
    if (!ready) {
      connection_.LogState(request.xid, "waiting for room to pull {} octets", room.octets);
      ready = co_await room_.Wait(room);
    }
    if (!ready) co_return;  // the connection is lost
    pulled = PullRoom(*this, room);
    connection_.LogState(request.xid, "pulling {} octets", room.octets);
    pieces.emplace();
    ready = co_await Pull(key, *plan, call, *pieces);
    if (!ready && pieces->arrival()) co_await pieces->done;
    if (!ready) co_return;  // the connection is lost
    if (!pieces->arrival()) pieces.reset();
  } else {
    CountChunks(header, nullptr);
  }
  message.bytes = {};
  // RFC 8166 §4.5.2
  if (!BeginsWith(call.stream, request.xid)) co_return refuse("its header and its stream have different XIDs");
  // Ignore a message that is not a call. Its sender does not wait for a reply.
  if (rpc::DirectionOf(call.stream.bytes()) != rpc::Direction::kCall) co_return;

  bool ready = queued_octets_ <= options_.max_queued_octets;
  if (!ready) ready = co_await AwaitQueueRoom(request.xid);
  if (!ready && pieces) co_await pieces->done;
  if (!ready) co_return;
  connection_.LogState(request.xid, "executing");
  Executing self{.xid = request.xid, .chunks = header.chunks};
  executing_.push_back(&self);
  ExecutionTicket execution(*this, &self);
  rpc::Message reply = co_await handler_.HandleCall(std::move(call), peer_);

  // The reply tells the peer that its memory is free. A call that was refused has not waited for its payload.
  if (pieces) co_await pieces->done;
  execution.GiveBack();
  pulled.GiveBack();
  // Also after a call without chunks: memory of the connection's own account may have become free meanwhile.
  HandleRoom();
  if (queued_octets_ > options_.max_queued_octets && MustLoad(reply)) (void)co_await AwaitQueueRoom(request.xid);
  WorkBatch work;
  if (!connection_.lost() && !CanSend(reply)) co_return;
  // Count the memory of the reply, but not the buffers of messages and the execution of small calls. Credits limit
  // their number, and Server::ReserveMessages() their size. And if they took memory, the calls that they may have to
  // wait for could lack it.
  const size_t held = reply.memory();
  const CountedMemory counted = CountMemory(held);
  if (opening_ && !self.keeps_limits_open) UseAnnouncedLimits();
  if (!connection_.lost() && !PostReply(reply, std::move(header), work))
    co_return refuse("the reply does not fit into its chunks");
  connection_.LogState(request.xid, "writing and sending its reply, {} octets, {} payloads", reply.stream.size(),
                       reply.items.size());
  PENSTOCK_PROBE(2, reply__posted, request.xid.value(), peer_.connection);
  const QueuedReply queued = QueueReply(held);
  unanswered.GiveBack();
  place.reset();
  co_await work;  // until then, `reply` must keep the memory that it borrows
  PENSTOCK_PROBE(3, reply__sent, request.xid.value(), peer_.connection, work.ok());
  connection_.LogState(request.xid, "{}", work.ok() ? "done" : "done, but the connection is lost");
  Remember(key, work);
}

Responder::QueuedReply Responder::QueueReply(size_t octets) {
  ++replies_queued_;
  queued_octets_ += octets;
  return QueuedReply(*this, octets);
}

void Responder::HandleReplySent(size_t octets) {
  --replies_queued_;
  queued_octets_ -= octets;
  while (!queue_room_.empty() && queued_octets_ <= options_.max_queued_octets) queue_room_.WakeFront();
}

Task<bool> Responder::AwaitQueueRoom(rpc::Xid xid) {
  connection_.LogState(xid, "waiting for the peer to receive replies");
  co_return co_await queue_room_.Wait({});
}

// ---- the call ----

Responder::CountedMemory Responder::CountMemory(size_t octets) {
  if (memory_) memory_->Update(memory_->used() + octets);
  return CountedMemory(*this, octets);
}

void Responder::UncountMemory(size_t octets) {
  if (memory_) memory_->Update(memory_->used() - octets);
}

Responder::Room Responder::RoomFor(const ReadPlan& plan) {
  Room room{.octets = plan.total};
  if (plan.long_call) room.memory += BufferPool::CapacityFor(plan.stream.length);
  for (const ReadChunk& chunk : plan.items) room.memory += BufferPool::CapacityFor(chunk.length);
  return room;
}

bool Responder::TakeRoom(const Room& room) {
  if (pulled_octets_ + room.octets > options_.max_pulled_octets) return false;
  if (memory_ && !memory_->Admit(room.memory)) return false;
  pulled_octets_ += room.octets;
  return true;
}

void Responder::ReleaseRoom(Room room) {
  pulled_octets_ -= room.octets;
  if (memory_) memory_->Update(memory_->used() - room.memory);
  HandleRoom();
}

void Responder::HandleRoom() {
  while (!room_.empty() && TakeRoom(room_.front())) room_.WakeFront();
}

// A call that is alone profits from pieces: while the next one arrives, the server stores the one before. Other calls
// use that time anyway.
bool Responder::ShouldDivide(const ReadPlan& plan, const rpc::Message& call, rpc::Xid xid) const {
  return IsCall(call.stream, xid) && plan.items.size() == 1 && !plan.long_call &&
         plan.items.front().length >= PulledPieces::kShortest && credits_.unanswered() == 1 &&
         connection_.endpoint().info().ord >= PulledPieces::kMost && !IsBoundToSession();
}

Task<bool> Responder::Pull(RefusedCalls::Key key, const ReadPlan& plan, rpc::Message& call, PulledPieces& pieces) {
  if (ShouldDivide(plan, call, key.xid)) pieces.Divide(plan.items.front().length);
  auto pull = [&](const ReadChunk& chunk) {
    BufferRef buffer = connection_.buffers().Allocate(chunk.length);
    PostReads(plan.SegmentsOf(chunk), buffer, pieces);
    ConstBytes bytes = buffer->bytes().first(chunk.length);
    return Slice(std::move(buffer), bytes);
  };
  if (plan.long_call) call.stream = pull(plan.stream);
  call.items.reserve(plan.items.size());
  for (const ReadChunk& chunk : plan.items) {
    call.items.push_back({chunk.offset, Data(pull(chunk), pieces.arrival())});
  }
  // The stream of a long call, with its operations, is still to be read.
  if (!plan.long_call && IsBoundToSession() && IsCall(call.stream, key.xid)) handler_.PreviewCall(call, peer_);
  const bool pulled = co_await pieces.first();
  Remember(key, pieces.first());
  if (!pieces.arrival()) co_return pulled;
  if (pulled) pieces.HandleArrived(1);
  Spawn(Follow(key, pieces));
  co_return pulled;
}

Task<void> Responder::Follow(RefusedCalls::Key key, PulledPieces& pieces) {
  size_t arrived = 1;
  bool failed = !pieces.first().ok();
  for (WorkBatch& work : pieces.rest()) {
    const bool ok = co_await work;
    if (failed) continue;
    Remember(key, work);
    failed = !ok;
    if (failed) {
      pieces.arrival()->End();
    } else {
      pieces.HandleArrived(++arrived);
    }
  }
  pieces.done.Set();  // must be last, because it ends the pieces
}

void Responder::Remember(RefusedCalls::Key key, const WorkBatch& work) {
  if (metrics::RdmaCounts* const counted = work.ok() ? nullptr : counts()) {
    counted->failed_work.Add();
    if (work.refused()) counted->refused_access.Add();
  }
  if (work.refused() && refused_) refused_->Add(peer_.address.address(), key, connection_.timers().Now());
}

RefusedCalls::Key Responder::KeyOf(const Header& call) const {
  return {call.fixed.xid, RefusedCalls::DigestOf(call.chunks), connection_.timers().Now()};
}

bool Responder::IsRefused(const Header& call) const {
  return refused_ && !refused_->empty() &&
         refused_->Refuses(peer_.address.address(), KeyOf(call), connection_.timers().Now());
}

void Responder::PostReads(std::span<const Segment> segments, const BufferRef& buffer, PulledPieces& pieces) {
  const size_t max_transfer = connection_.endpoint().limits().max_transfer;
  metrics::RdmaCounts* const counted = counts();
  size_t to = 0;
  for (const Segment& segment : segments) {
    for (uint32_t done = 0; done < segment.length;) {
      const auto part =
          static_cast<uint32_t>(std::min({size_t{segment.length - done}, max_transfer, pieces.LeftOfPiece(to)}));
      rdma::ReadRequest request;
      request.context = pieces.BatchAt(to).Add();
      request.local = {buffer->data() + to, part};
      request.owner = buffer;
      request.remote = {segment.stag, part, segment.offset + done};
      if (counted) {
        counted->reads.Add();
        counted->read_octets.Add(part);
      }
      reads_.Post(std::move(request));
      to += part;
      done += part;
    }
  }
}

// ---- the reply ----

bool Responder::MustLoad(const rpc::Message& reply) const {
  const auto is_file = [](const xdr::Item& item) { return item.data.is_file(); };
  return !connection_.endpoint().limits().file_data && std::ranges::any_of(reply.items, is_file);
}

// RFC 8166 §4.5.4: a requester without a reply would wait for the reply and for its credit for ever. Only the loss of
// the connection tells it. If the file of a reply cannot be read, the client sends the call again and then gets an
// error reply.
bool Responder::CanSend(rpc::Message& reply) {
  if (reply.empty()) {
    End("a call has no reply", metrics::ConnectionEnd::kNoReply);
    return false;
  }
  if (connection_.endpoint().limits().file_data) return true;
  const auto loaded = xdr::LoadFiles(reply, connection_.buffers());
  if (!loaded) {
    log::warn("cannot read the data of a reply from its file, so its connection is closed: {}",
              loaded.error().message());
    End("the data of a reply cannot be read", metrics::ConnectionEnd::kNoReply);
  }
  return loaded.has_value();
}

bool Responder::PostReply(const rpc::Message& reply, Header&& call, WorkBatch& work) {
  std::optional<ReplyPlan> plan = PlanReply(reply, std::move(call), send_threshold());
  if (!plan) return false;
  Header& header = plan->header;
  if (next_size_ && next_size_->call == header.fixed.xid) {
    connection_.set_send_threshold(next_size_->max_response);
    next_size_.reset();
  }

  // Post all Writes before the Send. Their data are then in place when the peer receives the Send (RFC 8166 §3.4.6).
  const WriteList& writes = header.chunks.writes;
  auto placed = [&writes](size_t n) { return IsPlaced(writes, n); };
  for (size_t n = 0; n < reply.items.size() && n < writes.size(); ++n) {
    if (placed(n)) PostWrites({reply.items[n].data}, writes.chunk(n), work);
  }
  if (plan->form == ReplyForm::kLong) {
    rdma::Gather stream;
    AppendPayload(reply, placed, stream);
    PostWrites(stream, header.chunks.reply, work);
  }

  header.fixed.credits = credits_.Grant(header.fixed.credits);
  rdma::SendRequest send;
  // RFC 8797 §4.1
  if (connection_.thresholds().remote_invalidation) send.invalidate = plan->invalidate;
  // draft-talpey-nfsv4-rdma-sess-01 §2.4
  send.solicited = IsBoundToSession();
  send.gather.reserve(2);
  send.gather.push_back(connection_.Serialize(header));
  if (plan->form == ReplyForm::kShort) AppendPayload(reply, placed, send.gather);
  if (metrics::RdmaCounts* const counted = counts()) {
    counted->sends.Add();
    for (const Data& part : send.gather) counted->sent_octets.Add(part.size());
    counted->credits.Add(header.fixed.credits);
  }
  send.context = work.Add();
  connection_.endpoint().PostSend(std::move(send));
  return true;
}

void Responder::PostWrites(const rdma::Gather& gather, std::span<const Segment> segments, WorkBatch& work) {
  const rdma::Limits& limits = connection_.endpoint().limits();
  metrics::RdmaCounts* const counted = counts();
  GatherCursor cursor(gather);
  for (const Segment& segment : segments) {
    for (uint32_t done = 0; done < segment.length;) {
      const uint32_t part = std::min(segment.length - done, limits.max_transfer);
      rdma::WriteRequest request;
      request.context = work.Add();
      request.gather = cursor.Take(part);
      request.remote = {segment.stag, part, segment.offset + done};
      if (counted) {
        counted->writes.Add();
        counted->written_octets.Add(part);
      }
      connection_.endpoint().PostWrite(std::move(request));
      done += part;
    }
  }
}

Task<void> Responder::SendError(FixedHeader request, ErrorCode error) {
  if (connection_.lost()) co_return;
  Connection::Activity activity(connection_);
  if (opening_) UseAnnouncedLimits();
  // RFC 8166 §4.5: the error has the XID and the version of the call, even if this responder does not support that
  // version.
  Header header;
  header.fixed = {request.xid, request.version, credits_.Grant(request.credits), Procedure::kError};
  header.error = error;
  header.lowest_version = header.highest_version = kProtocolVersion;
  rdma::SendRequest send;
  send.gather.push_back(connection_.Serialize(header));
  if (metrics::RdmaCounts* const counted = counts()) {
    counted->refused_calls.Add();
    counted->sends.Add();
    counted->sent_octets.Add(send.gather.front().size());
    counted->credits.Add(header.fixed.credits);
  }
  WorkBatch work;
  send.context = work.Add();
  connection_.endpoint().PostSend(std::move(send));
  const QueuedReply queued = QueueReply(0);
  co_await work;
}

}  // namespace penstock::rpcrdma
