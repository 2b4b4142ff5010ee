#include "rpcrdma/requester.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/log.h"
#include "rpcrdma/padding.h"
#include "rpcrdma/payload.h"
#include "rpcrdma/reply_check.h"

namespace penstock::rpcrdma {
namespace {

using rpc::CallError;

constexpr int kTicksPerLimit = 4;
// The distance from the XIDs of calls to the XIDs of probes. It is the largest one, so that calls do not reach it for
// long.
constexpr uint32_t kXidDistance = 1u << 31;

// The tick length for the shortest limit of the options. Returns zero if the options have no limit.
Duration TickFor(const RequesterOptions& options) {
  Duration shortest = options.call_timeout;
  if (options.health.probe) {
    for (Duration limit : {options.health.after, options.health.limit}) {
      assert(limit > Duration::zero());
      shortest = shortest > Duration::zero() ? std::min(shortest, limit) : limit;
    }
  }
  return shortest / kTicksPerLimit;
}

uint64_t TicksIn(Duration limit, Duration tick) { return static_cast<uint64_t>((limit + tick - Duration(1)) / tick); }

rpc::Xid XidOf(const Slice& stream) {
  assert(stream.size() >= 4);
  return rpc::Xid(LoadBig<uint32_t>(stream.data()));
}

}  // namespace

Requester::Requester(Connection& connection, const RequesterOptions& options)
    : connection_(connection),
      options_(options),
      conditions_{connection.thresholds().send, connection.thresholds().receive, options.min_chunk, options.chunks},
      credits_(options.credits, options.health.probe != nullptr, options.one_receive_first),
      receives_(options.first_receives()),
      tick_(TickFor(options)) {
  connection_.AddReceives(receives_);
  if (tick_ > Duration::zero()) ticker_ = connection.timers().MakeTimer([this] { Tick(); });
  if (checks_health()) {
    ticking_ = true;
    ticker_->ExpireAfter(tick_);
  }
}

Requester::~Requester() { assert(waiting_.empty()); }

Task<Result<rpc::Message, CallError>> Requester::Call(rpc::Message call, rpc::ReplyShape shape) {
  Connection::Activity activity(connection_);
  const rpc::Xid xid = XidOf(call.stream);
  last_xid_ = xid;
  if (!xdr::LoadFiles(call, connection_.buffers())) co_return std::unexpected(CallError::kUnreadable);
  Attempt attempt;
  conditions_.call_threshold = connection_.thresholds().send;
  conditions_.reply_threshold = connection_.thresholds().receive;
  std::optional<CallPlan> plan = PlanCall(call, shape, conditions_);
  if (!plan) co_return std::unexpected(CallError::kTooLarge);
  attempt.plan = *plan;

  // Take a credit (RFC 8166 §3.3.1).
  bool credit = !connection_.lost() && waiting_.empty() && credits_.available();
  if (credit) {
    credits_.HandleSent();
  } else if (!connection_.lost()) {
    connection_.LogState(xid, "waiting for a credit, {} of {} in use", pending_.size(), credits_.limit());
    credit = co_await waiting_.Wait({});
  }
  if (!credit) co_return std::unexpected(CallError::kDisconnected);

  Begin(attempt, call, shape);
  connection_.LogState(xid, "sent, {} octets, {} regions offered", call.stream.size(), attempt.regions.size());
  Outcome outcome = co_await attempt.outcome;

  // Fence the memory: from here on the peer cannot access it (RFC 8166 §4.4.1). If an invalidation fails, this waits
  // for the end of the connection (§4.5.4).
  PostInvalidations(attempt);
  connection_.LogState(xid, "{}, invalidating {} regions", outcome ? "reply" : "no reply", attempt.regions.size());
  co_await attempt.work;
  connection_.LogState(xid, "done");

  if (!outcome) co_return std::unexpected(outcome.error());
  co_return TakeReply(attempt, *outcome);
}

// ---- the call ----

void Requester::Begin(Attempt& attempt, rpc::Message& call, const rpc::ReplyShape& shape) {
  attempt.header.fixed.xid = XidOf(call.stream);
  attempt.returned_before = credits_.returned();
  pending_.Insert(attempt.header.fixed.xid, &attempt);
  Offer(attempt, call, shape);
  PostCall(attempt, call);
}

void Requester::Offer(Attempt& attempt, rpc::Message& call, const rpc::ReplyShape& shape) {
  attempt.header.fixed.credits = credits_.requested();
  attempt.header.fixed.procedure = attempt.plan.long_call ? Procedure::kNomsg : Procedure::kMsg;
  if (attempt.plan.padding > 0) {
    attempt.header.fixed.procedure = Procedure::kMsgp;
    attempt.header.alignment = attempt.plan.padding;
    attempt.header.threshold = kPaddingThreshold;
  }
  OfferCall(attempt, call);
  OfferReply(attempt, shape);
}

// RFC 8166 §3.4.5, §3.5.3
void Requester::OfferCall(Attempt& attempt, rpc::Message& call) {
  std::vector<ReadSegment>& reads = attempt.header.chunks.reads;
  auto reduced = [&](size_t n) { return attempt.plan.reduces(call.items[n]); };
  if (attempt.plan.long_call) {
    Slice stream = call.stream;
    if (const size_t size = PayloadSize(call, reduced); size != stream.size()) {
      // Short payloads travel in the stream. These are the only payloads that are copied.
      BufferRef buffer = connection_.buffers().Allocate(size);
      rdma::Gather pieces;
      AppendPayload(call, reduced, pieces);
      std::byte* to = buffer->data();
      for (const Data& piece : pieces) {
        CopyBytes({to, piece.size()}, piece.bytes());
        to += piece.size();
      }
      ConstBytes bytes = buffer->bytes().first(size);
      stream = Slice(buffer, bytes);
      attempt.arguments.push_back(std::move(buffer));
    }
    reads.push_back({0, Register(attempt, stream.bytes(), rdma::Access::kRemoteRead)});
  }
  if (attempt.plan.reduce_from == CallPlan::kNone) return;
  size_t before = 0;  // octets of the previous items; positions refer to the unreduced stream
  for (size_t n = 0; n < call.items.size(); ++n) {
    const xdr::Item& item = call.items[n];
    if (reduced(n)) {
      // The chunk has no padding (§3.4.5.2).
      reads.push_back({static_cast<uint32_t>(item.offset + before),
                       Register(attempt, item.data.bytes(), rdma::Access::kRemoteRead)});
    }
    before += RoundUp(item.data.size(), 4);
  }
}

// RFC 8166 §3.4.6, §4.3.2, §4.3.3
void Requester::OfferReply(Attempt& attempt, const rpc::ReplyShape& shape) {
  ChunkLists& chunks = attempt.header.chunks;
  for (size_t n = 0; n < attempt.plan.write_chunks; ++n) {
    const rpc::ResultSink& result = shape.results[n];
    chunks.writes.AddChunk();
    attempt.sinks.emplace_back();
    if (result.max_length == 0) continue;
    assert(result.destination.empty() || result.destination.size() >= result.max_length);
    Slice& sink = attempt.sinks.back();
    if (!result.destination.empty()) {
      sink = Slice::Borrowed(result.destination.first(result.max_length));
    } else {
      BufferRef buffer = connection_.buffers().Allocate(result.max_length);
      ConstBytes bytes = buffer->bytes().first(result.max_length);
      sink = Slice(std::move(buffer), bytes);
    }
    chunks.writes.Add(Register(attempt, sink.bytes(), rdma::Access::kRemoteWrite));
  }
  if (attempt.plan.reply_chunk > 0) {
    BufferRef buffer = connection_.buffers().Allocate(attempt.plan.reply_chunk);
    ConstBytes bytes = buffer->bytes().first(attempt.plan.reply_chunk);
    attempt.reply_chunk = Slice(std::move(buffer), bytes);
    chunks.has_reply = true;
    chunks.reply.push_back(Register(attempt, bytes, rdma::Access::kRemoteWrite));
  }
}

Segment Requester::Register(Attempt& attempt, ConstBytes memory, rdma::Access access) {
  // The interface has one type of memory for reading and for writing. The peer only reads memory that is registered for
  // reading.
  Bytes bytes(const_cast<std::byte*>(memory.data()), memory.size());
  attempt.regions.push_back(connection_.endpoint().Register(bytes, access));
  return attempt.regions.back()->Segment(0, memory.size());
}

void Requester::PostCall(Attempt& attempt, const rpc::Message& call) {
  rdma::SendRequest send;
  send.gather.reserve(2);
  send.gather.push_back(connection_.Serialize(attempt.header));
  if (attempt.plan.padding > 0) {
    AppendPadded(call, PaddingOf(attempt.plan.padding, attempt.header.serialized_size()), send.gather);
  } else if (!attempt.plan.long_call) {
    AppendPayload(call, [&](size_t n) { return attempt.plan.reduces(call.items[n]); }, send.gather);
  }
  send.context = attempt.work.Add();
  connection_.endpoint().PostSend(std::move(send));

  attempt.sent_at = ticks_;
  if (ticker_ && !ticking_) {
    ticking_ = true;
    ticker_->ExpireAfter(tick_);
  }
}

// ---- the reply ----

void Requester::HandleReply(Received&& message) {
  heard_ = true;
  const FixedHeader fixed = message.header.fixed;
  if (!pending_.Contains(fixed.xid)) return;
  // RFC 8166 §4.5: ignore a malformed reply.
  if (fixed.procedure == Procedure::kMsg && XidOf(message.payload()) != fixed.xid) return;

  Attempt* attempt = pending_.Remove(fixed.xid);
  credits_.HandleAnswered(fixed.credits, attempt ? attempt->returned_before : 0);
  PassCreditsOn();
  if (!attempt) return;  // its caller has given it up, and its memory is fenced
  // An error also means that the reply did not fit. More room would not help, because the types limit each reply (RFC
  // 8267 §3.1).
  if (fixed.procedure == Procedure::kError) return attempt->outcome.Set(std::unexpected(CallError::kRefused));
  attempt->outcome.Emplace(std::move(message));
}

void Requester::PostInvalidations(Attempt& attempt) {
  for (const std::unique_ptr<rdma::MemoryRegion>& region : attempt.regions) {
    // A region is already invalid after the peer's Send with Invalidate (RFC 8797 §4.1), or if the connection is lost.
    if (region->valid()) connection_.endpoint().PostInvalidate(attempt.work.Add(), *region);
  }
}

Result<rpc::Message, CallError> Requester::TakeReply(Attempt& attempt, Received& reply) {
  if (Result<void, ReplyError> check = CheckReply(attempt.header.chunks, reply.header); !check) {
    log::debug("reply {:08x} refused: {}", reply.header.fixed.xid.value(), ToString(check.error()));
    return std::unexpected(CallError::kMalformed);
  }
  const ChunkLists& chunks = reply.header.chunks;
  rpc::Message message;
  if (reply.header.fixed.procedure == Procedure::kMsg) {
    message.stream = reply.payload();
  } else {
    message.stream = attempt.reply_chunk.Sub(0, TotalLength(chunks.reply));
    if (message.stream.size() < 4 || XidOf(message.stream) != reply.header.fixed.xid) {
      return std::unexpected(CallError::kMalformed);
    }
  }
  message.placed.reserve(attempt.sinks.size());
  for (size_t n = 0; n < attempt.sinks.size(); ++n) {
    if (chunks.writes.chunk(n).empty()) {
      message.placed.emplace_back();
    } else {
      message.placed.push_back(attempt.sinks[n].Sub(0, TotalLength(chunks.writes.chunk(n))));
    }
  }
  return message;
}

// ---- credits and ends ----

void Requester::PassCreditsOn() {
  while (credits_.MustReturn()) {
    credits_.HandleReturned();
    Spawn(SendEmpty());
  }
  if (credits_.EndReturn()) returned_.Notify();
  while (!waiting_.empty() && credits_.available()) {
    credits_.HandleSent();
    waiting_.WakeFront();
  }
}

void Requester::PostReceives() {
  const uint32_t needed = credits_.requested();
  if (credits_.opening() || receives_ >= needed) return;
  connection_.AddReceives(needed - receives_);
  receives_ = needed;
}

void Requester::set_credits(uint32_t credits) {
  credits_.set_requested(credits);
  PostReceives();
  PassCreditsOn();
}

void Requester::Bind(const rpc::ConnectionLimits& limits) {
  connection_.set_send_threshold(limits.max_request);
  connection_.set_receive_threshold(limits.max_response);
  // Calls of the peer arrive in the same receives, and their size is not among the limits.
  connection_.set_receive_size(std::max(limits.max_response, connection_.announced_receive_size()));
  SetPadding(limits.padding);
  credits_.Open();
  set_credits(std::min(options_.credits, limits.credits));
}

Task<bool> Requester::ReturnCredits(uint32_t target) {
  Connection::Activity activity(connection_);
  if (connection_.lost()) co_return false;
  credits_.BeginReturn(target);
  PassCreditsOn();
  while (credits_.returning() && !connection_.lost()) co_await returned_;
  co_return !connection_.lost();
}

Task<void> Requester::SendEmpty() {
  Connection::Activity activity(connection_);
  WorkBatch work;
  rdma::SendRequest send;
  send.context = work.Add();
  connection_.endpoint().PostSend(std::move(send));
  co_await work;
}

void Requester::Cancel(rpc::Xid xid) { GiveUp(xid, CallError::kCancelled); }

void Requester::GiveUp(rpc::Xid xid, CallError error) {
  if (!pending_.Contains(xid)) return;
  Attempt* attempt = pending_.Get(xid);
  if (!attempt) return;
  pending_.GiveUp(xid);
  attempt->outcome.Set(std::unexpected(error));
}

void Requester::HandleLost() {
  std::vector<Attempt*> attempts;
  pending_.ForEach([&](rpc::Xid, Attempt* attempt) {
    if (attempt) attempts.push_back(attempt);
  });
  pending_.Clear();
  if (ticker_) ticker_->Cancel();
  // From here on, new calls fail at once. Callers that resume now therefore cannot change these lists.
  waiting_.Close();
  for (Attempt* attempt : attempts) attempt->outcome.Set(std::unexpected(CallError::kDisconnected));
  returned_.Notify();
}

// ---- time ----

void Requester::Tick() {
  ++ticks_;
  const bool waiting = options_.call_timeout > Duration::zero() && !pending_.empty();
  ticking_ = waiting || checks_health();
  if (ticking_) ticker_->ExpireAfter(tick_);
  if (waiting) GiveUpLateCalls();
  if (checks_health()) CheckHealth();
}

void Requester::GiveUpLateCalls() {
  const uint64_t limit = TicksIn(options_.call_timeout, tick_);
  std::vector<rpc::Xid> late;
  pending_.ForEach([&](rpc::Xid xid, const Attempt* attempt) {
    if (attempt && ticks_ - attempt->sent_at > limit) late.push_back(xid);
  });
  for (rpc::Xid xid : late) GiveUp(xid, CallError::kTimedOut);
}

void Requester::CheckHealth() {
  if (std::exchange(heard_, false)) {
    heard_at_ = ticks_;
    probed_at_.reset();
  } else if (probed_at_) {
    if (ticks_ - *probed_at_ >= TicksIn(options_.health.limit, tick_))
      connection_.Disconnect("the peer does not answer");
  } else if (credits_.available_for_probe()) {
    if (ticks_ - heard_at_ < TicksIn(options_.health.after, tick_)) return;
    probed_at_ = ticks_;
    Spawn(Probe());
  } else if (ticks_ - heard_at_ >= TicksIn(options_.health.patience, tick_)) {
    connection_.Disconnect("the peer does not answer");
  }
}

Task<void> Requester::Probe() {
  Connection::Activity activity(connection_);
  rpc::Xid xid(last_xid_.value() + kXidDistance);
  while (pending_.Contains(xid)) xid = rpc::Xid(xid.value() + 1);
  rpc::Message call = options_.health.probe(connection_.buffers(), xid);
  Attempt attempt;  // the default plan: a short call and a short reply
  credits_.HandleSent();
  Begin(attempt, call, {});
  co_await attempt.outcome;
  co_await attempt.work;
}

}  // namespace penstock::rpcrdma
