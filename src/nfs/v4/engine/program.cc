#include "nfs/v4/engine/program.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4.h"
#include "protocol/nfs4_compound.h"
#include "rpc/call_order.h"
#include "rpc/handle.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// A reply must always have room for the number and status of an operation that fails.
constexpr size_t kFailure = sizeof(uint32_t) * 3;

// Writes the results of a COMPOUND. Finish() completes their head.
class Results {
 public:
  Results(xdr::Encoder& encoder, std::string_view tag) : encoder_(encoder), start_(encoder.mark()) {
    xdr::Encode(encoder_, NFS4_OK);
    encoder_.String(tag);
    count_at_ = encoder_.reduced_size();
    encoder_.U32(0);
  }

  xdr::Encoder& encoder() { return encoder_; }
  size_t size() const { return encoder_.size(); }

  // Writes the number of the next operation. The operation's result follows.
  void Begin(nfs_opnum4 number) {
    ++count_;
    encoder_.U32(static_cast<uint32_t>(number));
    result_ = encoder_.mark();
  }
  // Removes the result that was just written, so that another result can take its place.
  void Replace() { encoder_.Rewind(result_); }

  void Finish(nfsstat4 status) {
    encoder_.PatchU32(start_.size, static_cast<uint32_t>(status));
    encoder_.PatchU32(count_at_, count_);
  }
  xdr::Message Copy() const { return encoder_.CopySince(start_); }
  // Replaces everything written so far by a kept reply.
  void ReplaceAll(const xdr::Message& kept) {
    encoder_.Rewind(start_);
    encoder_.Append(kept);
  }

 private:
  xdr::Encoder& encoder_;
  const xdr::Encoder::Mark start_;
  size_t count_at_ = 0;
  uint32_t count_ = 0;
  xdr::Encoder::Mark result_{};
};

// The execution of one COMPOUND.
class Execution {
 public:
  // `arguments` is positioned after the head. The dialect of the head is not null.
  Execution(const Services& services, rpc::CallContext& call, const CompoundHead& head, xdr::Decoder& arguments,
            xdr::Encoder& results)
      : compound_{.services = services, .call = call, .dialect = *head.dialect},
        count_(head.count),
        arguments_(arguments),
        results_(results, head.tag),
        limit_(RoomWithin(services.settings.max_response)) {}

  // Executes the operations up to the first failure (RFC 8881 §16.2.3). Returns the status of the COMPOUND.
  Task<nfsstat4> Run();
  Results& results() { return results_; }
  // Tells how the reply cache keeps the reply. kChange: the COMPOUND tried an operation that must not be executed
  // twice. kWrite: it tried a WRITE, which must not be executed late.
  rpc::Keep keep() const { return changed_ ? rpc::Keep::kChange : wrote_ ? rpc::Keep::kWrite : rpc::Keep::kNothing; }
  // The results are a kept reply, which is complete.
  bool replayed() const { return replayed_; }
  // The reply must be on stable storage before it is sent: the client may ask for it again after the server's restart.
  bool must_outlive_server() const { return replies_ && compound_.keeps_reply && (compound_.lasting || !reclaiming_); }
  Task<> Persist();
  // Frees the slot, if the request has one, for the client's next request.
  void Finish();

 private:
  nfsstat4 Fail(nfs_opnum4 number, const Operation* operation, nfsstat4 status);
  nfsstat4 Check(uint32_t index, nfs_opnum4 number, const Operation* operation) const;
  nfsstat4 CheckOrder(uint32_t index, const Operation& operation) const;
  nfsstat4 CheckRoom(size_t size) const;
  size_t RoomWithin(size_t reply) const;
  Task<nfsstat4> RunOne(uint32_t index);
  nfsstat4 RunSequence();
  Sessions::RequestFacts FactsAfterSequence() const;

  Compound compound_;
  const uint32_t count_;
  xdr::Decoder& arguments_;
  Results results_;
  size_t limit_;                  // the largest size of the reply in octets
  size_t kept_limit_ = SIZE_MAX;  // the same for a reply that the slot keeps
  bool uncached_ = false;         // the request is a retry, and the slot did not keep the reply
  bool replayed_ = false;
  bool changed_ = false;
  bool wrote_ = false;
  std::shared_ptr<SessionReplies> replies_;  // see Sessions::StartedRequest
  bool reclaiming_ = false;
  uint64_t digest_ = 0;
};

Task<nfsstat4> Execution::Run() {
  nfsstat4 status = NFS4_OK;
  for (uint32_t i = 0; i < count_ && status == NFS4_OK && !replayed_; ++i) status = co_await RunOne(i);
  co_return status;
}

// Writes the result of an operation that is not executed. For an operation that does not exist, it is the result of
// ILLEGAL (RFC 8881 §18.52).
nfsstat4 Execution::Fail(nfs_opnum4 number, const Operation* operation, nfsstat4 status) {
  results_.Begin(operation ? number : OP_ILLEGAL);
  if (operation) {
    operation->fail(results_.encoder(), status);
  } else {
    xdr::Encode(results_.encoder(), ILLEGAL4res{.status = status});
  }
  return status;
}

// Checks whether the operation may stand at this index (RFC 8881 §2.10.6.2.1, §18.46.3).
nfsstat4 Execution::CheckOrder(uint32_t index, const Operation& operation) const {
  if (compound_.dialect.ordering() == OrderingRule::kAnyOrder) return NFS4_OK;
  switch (operation.placement) {
    case Placement::kOpener:
      return index == 0 ? NFS4_OK : NFS4ERR_SEQUENCE_POS;
    case Placement::kOnlyAlone:
      return count_ == 1 ? NFS4_OK : NFS4ERR_NOT_ONLY_OP;
    case Placement::kAlsoAlone:
      return compound_.slot || count_ == 1 ? NFS4_OK : NFS4ERR_NOT_ONLY_OP;
    case Placement::kInRequest:
      return compound_.slot ? NFS4_OK : NFS4ERR_OP_NOT_IN_SESSION;
  }
  std::unreachable();
}

// A limit on the size of a reply includes the octets that the security flavor adds (RFC 8881 §18.36.3: headers with
// credentials and verifiers).
size_t Execution::RoomWithin(size_t reply) const { return reply - std::min(reply, compound_.call.reply_overhead); }

// RFC 8881 §2.10.6.4
nfsstat4 Execution::CheckRoom(size_t size) const {
  if (size > limit_) return compound_.dialect.errors().reply_too_big;
  return size > kept_limit_ ? NFS4ERR_REP_TOO_BIG_TO_CACHE : NFS4_OK;
}

// Checks everything that can be checked before the arguments are decoded.
nfsstat4 Execution::Check(uint32_t index, nfs_opnum4 number, const Operation* operation) const {
  if (!operation) return NFS4ERR_OP_ILLEGAL;
  // In a session, SEQUENCE has counted the operations.
  if (index >= compound_.services.settings.max_operations && !compound_.slot) {
    return compound_.dialect.errors().too_many_operations;
  }
  if (const nfsstat4 status = CheckOrder(index, *operation); status != NFS4_OK) return status;
  if (!operation->supported()) return NFS4ERR_NOTSUPP;
  if (uncached_) return NFS4ERR_RETRY_UNCACHED_REP;
  if (operation->needs_current && !compound_.current) return NFS4ERR_NOFILEHANDLE;
  if (operation->needs_saved && !compound_.saved) return NFS4ERR_NOFILEHANDLE;
  // RFC 8881 §2.6.3.1.1.7: only operations that put a filehandle return NFS4ERR_WRONGSEC.
  if (operation->needs_current && !compound_.MayUseCurrent(number)) return NFS4ERR_ACCESS;
  // An operation that changes something must not be executed if its result might not fit in the reply.
  return operation->changes ? CheckRoom(results_.size() + 4 + operation->max_result) : NFS4_OK;
}

Task<nfsstat4> Execution::RunOne(uint32_t index) {
  uint32_t word;
  if (!arguments_.U32(word)) co_return Fail(OP_ILLEGAL, nullptr, NFS4ERR_BADXDR);
  const auto number = static_cast<nfs_opnum4>(word);
  const Operation* operation = compound_.dialect.Find(number);
  if (const nfsstat4 status = Check(index, number, operation); status != NFS4_OK) {
    co_return Fail(number, operation, status);
  }
  if (operation->placement == Placement::kOpener) co_return RunSequence();

  // Over RDMA, the server may not have received the payload of an earlier WRITE yet.
  if (rpc::CallOrder* const order = compound_.call.peer.order; order && operation->gives_up) {
    co_await order->WaitForEarlier(compound_.call.xid, NamedFileHash()(compound_.current->name()));
  }
  changed_ |= operation->changes;
  wrote_ |= number == OP_WRITE;
  compound_.lasting |= operation->lasting;
  results_.Begin(number);
  const bool is_last = index + 1 == count_;
  const size_t used = results_.size() + (is_last ? 0 : kFailure);
  compound_.room = std::min(limit_, kept_limit_) - std::min({limit_, kept_limit_, used});
  compound_.following = is_last ? nullptr : &arguments_;
  const nfsstat4 status = operation->now ? operation->now(compound_, arguments_, results_.encoder())
                                         : co_await operation->task(compound_, arguments_, results_.encoder());
  compound_.uses.End();
  if (const nfsstat4 fits = CheckRoom(results_.size() + (is_last ? 0 : kFailure)); fits != NFS4_OK) {
    results_.Replace();
    operation->fail(results_.encoder(), fits);
    co_return fits;
  }
  co_return status;
}

// Returns the facts that distinguish this request from another one with the same sequence ID. The decoder is positioned
// after the arguments of SEQUENCE.
Sessions::RequestFacts Execution::FactsAfterSequence() const {
  const size_t size = arguments_.flat_size();
  return {.size = size + compound_.call.call_overhead,
          .operations = count_,
          .digest = RequestDigest(compound_.call.credential, count_, size - arguments_.position(), arguments_.rest())};
}

// RFC 8881 §18.46
nfsstat4 Execution::RunSequence() {
  SEQUENCE4args arguments;
  results_.Begin(OP_SEQUENCE);
  if (!xdr::Decode(arguments_, arguments)) {
    xdr::Encode(results_.encoder(), SEQUENCE4res(NFS4ERR_BADXDR));
    return NFS4ERR_BADXDR;
  }
  const Sessions::RequestFacts facts = FactsAfterSequence();
  const TimePoint now = compound_.now();
  return compound_.services.state.Run([&](StateTables& state) -> nfsstat4 {
    auto started = state.sessions.StartRequest(arguments, facts, SessionConnection::Of(compound_.call.peer), now);
    if (!started) {
      xdr::Encode(results_.encoder(), SEQUENCE4res(started.error()));
      return started.error();
    }
    if (started->outcome == Sessions::Outcome::kReplay) {
      results_.ReplaceAll(started->reply);
      replayed_ = true;
      return NFS4_OK;
    }
    if (state.files.delegations.HasRevoked(started->client)) {
      started->sequence.sr_status_flags |= SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
    }
    compound_.slot = SlotUse{.client = started->client,
                             .session = arguments.sa_sessionid,
                             .slot = SlotId(arguments.sa_slotid),
                             .sequence = SequenceId(arguments.sa_sequenceid),
                             .persistent = started->replies != nullptr};
    replies_ = std::move(started->replies);
    reclaiming_ = started->reclaiming;
    digest_ = facts.digest;
    uncached_ = started->outcome == Sessions::Outcome::kUncached;
    compound_.keeps_reply = arguments.sa_cachethis && !uncached_;
    limit_ = RoomWithin(started->max_reply);
    if (compound_.keeps_reply) kept_limit_ = RoomWithin(started->max_kept_reply);
    xdr::Encode(results_.encoder(), SEQUENCE4res(NFS4_OK, started->sequence));
    return NFS4_OK;
  });
}

// Stores the reply of a persistent session (RFC 8881 §2.10.6.5). If that fails, the client still gets the reply,
// since the operations cannot be undone. The session then accepts no new request, so that the client learns that its
// replies are not kept.
Task<> Execution::Persist() {
  const Services& services = compound_.services;
  const SlotUse& use = *compound_.slot;
  const KeptReply kept{.sequence = use.sequence, .digest = digest_, .results = results_.Copy()};
  // The tag is too long. CheckRoom() has then kept every operation but SEQUENCE from execution.
  if (kept.results.flat_size() > kept_limit_) co_return;
  const bool done =
      co_await services.replies->Keep(compound_.call.peer.loop, *replies_, use.slot, kept, compound_.lasting);
  if (done) co_return;
  log::error("the reply of a persistent session cannot be kept: the session ends");
  services.state.Run([&](StateTables& state) { state.sessions.LosePersistence(use.session); });
}

void Execution::Finish() {
  if (!compound_.slot || uncached_) return;
  const SlotUse& use = *compound_.slot;
  std::optional<xdr::Message> reply;
  if (compound_.keeps_reply) reply = results_.Copy();
  compound_.services.state.Run([&](StateTables& state) {
    state.sessions.FinishRequest(use.session, use.slot, use.sequence, std::move(reply), compound_.now());
  });
}

// Whether every item beside the arguments is at the place of an operation's payload (RFC 8166 §6.1). The decoder is
// positioned after the head. This looks ahead at all operations, since the program executes each operation before it
// decodes the next one.
bool PlacesItems(const CompoundHead& head, const xdr::Decoder& behind_head) {
  xdr::Decoder arguments = behind_head.Fork();
  const auto octets_in_items = [&] { return arguments.flat_size() - arguments.position() - arguments.remaining(); };
  for (uint32_t i = 0; i < head.count && octets_in_items() > 0; ++i) {
    nfs_argop4 operation;
    if (!xdr::Decode(arguments, operation)) return false;
  }
  return octets_in_items() == 0;
}

// Writes the results of a COMPOUND that fails before its first operation.
void Reject(const CompoundHead& head, nfsstat4 status, xdr::Encoder& encoder) {
  Results results(encoder, head.tag);
  results.Finish(status);
}

}  // namespace

uint32_t Program::number() const { return NFS4_PROGRAM; }

rpc::VersionRange Program::versions() const { return {.low = NFS_V4, .high = NFS_V4}; }

rpc::Classification Program::Classify(rpc::CallContext& context, xdr::Decoder& arguments) const {
  if (context.procedure != NFSPROC4_COMPOUND::kNumber) return {};
  const auto head = DecodeCompoundHead(arguments);
  if (!head || !PlacesItems(*head, arguments)) return {.is_garbage = true};
  context.head.Set(*head);
  const bool remembers = head->dialect && head->dialect->duplicate_policy() == DuplicatePolicy::kReplyCache;
  return {.keep = remembers ? rpc::Keep::kChange : rpc::Keep::kNothing};
}

Task<rpc::AcceptStatus> Program::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  switch (context.procedure) {
    case NFSPROC4_NULL::kNumber:
      return rpc::Handle<NFSPROC4_NULL>(context, arguments, results,
                                        [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case NFSPROC4_COMPOUND::kNumber:
      return RunCompound(context, arguments, results);
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

Task<rpc::AcceptStatus> Program::RunCompound(rpc::CallContext& context, xdr::Decoder& arguments,
                                             xdr::Encoder& results) const {
  const CompoundHead& head = *context.head.Get<CompoundHead>();
  if (!head.dialect || !IsUtf8(head.tag)) {
    Reject(head, head.dialect ? NFS4ERR_INVAL : NFS4ERR_MINOR_VERS_MISMATCH, results);
    context.keep = rpc::Keep::kNothing;
    co_return rpc::AcceptStatus::SUCCESS;
  }
  Execution execution(services_, context, head, arguments, results);
  const nfsstat4 status = co_await execution.Run();
  context.keep = execution.keep();
  if (execution.replayed()) co_return rpc::AcceptStatus::SUCCESS;
  execution.results().Finish(status);
  if (execution.must_outlive_server()) co_await execution.Persist();
  execution.Finish();
  // The arguments must end with the last operation, in the stream and beside it.
  const bool is_garbage = status == NFS4_OK && !arguments.Finish();
  co_return is_garbage ? rpc::AcceptStatus::GARBAGE_ARGS : rpc::AcceptStatus::SUCCESS;
}

}  // namespace penstock::nfs::v4
