#include "nfs/v4/engine/program.h"

#include <algorithm>

#include "base/log.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/engine/operation_table.h"
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

constexpr uint32_t kHighestMinorVersion = 2;
// The number and status of an operation that fails: what a reply must always have room for.
constexpr size_t kFailure = sizeof(uint32_t) * 3;

// Without a session there is nothing that may stand beside these, nor before them (RFC 8881 §18.35.3 and others).
bool StandsAlone(nfs_opnum4 number) {
  switch (number) {
    case OP_EXCHANGE_ID:
    case OP_CREATE_SESSION:
    case OP_DESTROY_SESSION:
    case OP_DESTROY_CLIENTID:
    case OP_BIND_CONN_TO_SESSION:
      return true;
    default:
      return false;
  }
}

// The results of a COMPOUND as they are written: their head is completed in the end.
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

  // The next operation's number; its result is written behind it.
  void Begin(nfs_opnum4 number) {
    ++count_;
    encoder_.U32(static_cast<uint32_t>(number));
    result_ = encoder_.mark();
  }
  // Another result instead of the one just written.
  void Replace() { encoder_.Rewind(result_); }

  void Finish(nfsstat4 status) {
    encoder_.PatchU32(start_.size, static_cast<uint32_t>(status));
    encoder_.PatchU32(count_at_, count_);
  }
  xdr::Message Copy() const { return encoder_.CopySince(start_); }
  // What was kept, instead of all that is there.
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

// One COMPOUND.
class Execution {
 public:
  Execution(const Services& services, rpc::CallContext& call, const COMPOUND4args_head& head, xdr::Decoder& arguments,
            xdr::Encoder& results)
      : compound_{.services = services, .call = call, .minor_version = head.minorversion},
        count_(head.count),
        arguments_(arguments),
        results_(results, head.tag),
        limit_(RoomWithin(services.settings.max_response)) {}

  // The status of the whole. All is executed, or it stopped at the first failure (RFC 8881 §16.2.3).
  Task<nfsstat4> Run();
  Results& results() { return results_; }
  // How the reply is remembered: whether something that is not to be done twice, or not late, has been done, or tried.
  rpc::Keep keep() const { return changed_ ? rpc::Keep::kChange : wrote_ ? rpc::Keep::kWrite : rpc::Keep::kNothing; }
  // A kept reply has been written: there is nothing to be added.
  bool replayed() const { return replayed_; }
  // The reply is kept for a client that asks again after the server has started again: before it is sent.
  bool must_outlive_server() const { return replies_ && compound_.keeps_reply && (compound_.lasting || !reclaiming_); }
  Task<> Persist();
  // The slot, if there is one, is free for the client's next request.
  void Finish();

 private:
  nfsstat4 Fail(nfs_opnum4 number, const Operation* operation, nfsstat4 status);
  nfsstat4 Check(uint32_t index, nfs_opnum4 number, const Operation* operation) const;
  nfsstat4 CheckOrder(uint32_t index, nfs_opnum4 number) const;
  nfsstat4 CheckRoom(size_t size) const;
  size_t RoomWithin(size_t reply) const;
  Task<nfsstat4> RunOne(uint32_t index);
  nfsstat4 RunSequence();
  Sessions::RequestFacts FactsAfterSequence() const;

  Compound compound_;
  const uint32_t count_;
  xdr::Decoder& arguments_;
  Results results_;
  size_t limit_;                  // octets of the reply
  size_t kept_limit_ = SIZE_MAX;  // where it is to be kept
  bool uncached_ = false;         // a retry whose reply was not kept
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

// The result of an operation that is not run. One that does not exist has no result of its own (RFC 8881 §18.52).
nfsstat4 Execution::Fail(nfs_opnum4 number, const Operation* operation, nfsstat4 status) {
  results_.Begin(operation ? number : OP_ILLEGAL);
  if (operation) {
    operation->fail(results_.encoder(), status);
  } else {
    xdr::Encode(results_.encoder(), ILLEGAL4res{.status = status});
  }
  return status;
}

// Where an operation may stand, from minor version 1 on (RFC 8881 §2.10.6.2.1, §18.46.3).
nfsstat4 Execution::CheckOrder(uint32_t index, nfs_opnum4 number) const {
  if (compound_.minor_version == 0) return NFS4_OK;
  if (number == OP_SEQUENCE) return index == 0 ? NFS4_OK : NFS4ERR_SEQUENCE_POS;
  if (number == OP_BIND_CONN_TO_SESSION && count_ != 1) return NFS4ERR_NOT_ONLY_OP;
  if (compound_.slot) return NFS4_OK;
  if (!StandsAlone(number)) return NFS4ERR_OP_NOT_IN_SESSION;
  return count_ == 1 ? NFS4_OK : NFS4ERR_NOT_ONLY_OP;
}

// What limits count includes what the flavor is going to add (RFC 8881 §18.36.3: headers with credentials and verifiers).
size_t Execution::RoomWithin(size_t reply) const { return reply - std::min(reply, compound_.call.reply_overhead); }

// RFC 8881 §2.10.6.4. In minor version 0 there is no telling a client beforehand.
nfsstat4 Execution::CheckRoom(size_t size) const {
  if (size > limit_) return compound_.minor_version == 0 ? NFS4ERR_RESOURCE : NFS4ERR_REP_TOO_BIG;
  return size > kept_limit_ ? NFS4ERR_REP_TOO_BIG_TO_CACHE : NFS4_OK;
}

// Everything that is known before the arguments are.
nfsstat4 Execution::Check(uint32_t index, nfs_opnum4 number, const Operation* operation) const {
  if (!operation) return NFS4ERR_OP_ILLEGAL;
  // Every operation of a session but the first has been counted by SEQUENCE.
  if (index >= compound_.services.settings.max_operations && !compound_.slot) {
    return compound_.minor_version == 0 ? NFS4ERR_RESOURCE : NFS4ERR_TOO_MANY_OPS;
  }
  if (const nfsstat4 status = CheckOrder(index, number); status != NFS4_OK) return status;
  if (!operation->supported_in(compound_.minor_version)) return NFS4ERR_NOTSUPP;
  if (uncached_) return NFS4ERR_RETRY_UNCACHED_REP;
  if (operation->needs_current && !compound_.current) return NFS4ERR_NOFILEHANDLE;
  if (operation->needs_saved && !compound_.saved) return NFS4ERR_NOFILEHANDLE;
  // RFC 8881 §2.6.3.1.1.7: NFS4ERR_WRONGSEC is for those that put a filehandle.
  if (operation->needs_current && !compound_.MayUseCurrent(number)) return NFS4ERR_ACCESS;
  // What cannot be taken back must not be done when its result could not be told.
  return operation->changes ? CheckRoom(results_.size() + 4 + operation->max_result) : NFS4_OK;
}

Task<nfsstat4> Execution::RunOne(uint32_t index) {
  uint32_t word;
  if (!arguments_.U32(word)) co_return Fail(OP_ILLEGAL, nullptr, NFS4ERR_BADXDR);
  const auto number = static_cast<nfs_opnum4>(word);
  const Operation* operation = FindOperation(number);
  if (operation && !operation->exists_in(compound_.minor_version)) operation = nullptr;
  if (const nfsstat4 status = Check(index, number, operation); status != NFS4_OK) {
    co_return Fail(number, operation, status);
  }
  if (number == OP_SEQUENCE) co_return RunSequence();

  // Over RDMA the payload of an earlier WRITE may still be on its way.
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

// What tells this request from another of the same number, seen from behind SEQUENCE's arguments.
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

// RFC 8881 §2.10.6.5. What has been done cannot be undone where its reply cannot be kept: the client has it now, and the
// session takes nothing new, so that it hears that it counts on what is not there.
Task<> Execution::Persist() {
  const Services& services = compound_.services;
  const SlotUse& use = *compound_.slot;
  const KeptReply kept{.sequence = use.sequence, .digest = digest_, .results = results_.Copy()};
  // A long tag; nothing else has been executed then (CheckRoom).
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

// The minor version in a COMPOUND's arguments, which stands behind its tag.
std::optional<uint32_t> MinorVersionOf(ConstBytes arguments) {
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(arguments));
  xdr::Decoder decoder(message);
  COMPOUND4args_head head;
  if (!xdr::Decode(decoder, head)) return std::nullopt;
  return head.minorversion;
}

}  // namespace

uint32_t Program::number() const { return NFS4_PROGRAM; }

rpc::VersionRange Program::versions() const { return {.low = NFS_V4, .high = NFS_V4}; }

bool Program::IsIdempotent(uint32_t /*version*/, uint32_t procedure) const {
  return procedure != NFSPROC4_COMPOUND::kNumber;
}

bool Program::MeetsDuplicates(uint32_t /*version*/, uint32_t procedure, ConstBytes arguments) const {
  return procedure == NFSPROC4_COMPOUND::kNumber && MinorVersionOf(arguments) != 0u;
}

// Operations are executed before the ones behind them are decoded.
bool Program::PlacesItems(uint32_t /*version*/, uint32_t procedure, xdr::Decoder& arguments) const {
  if (procedure != NFSPROC4_COMPOUND::kNumber) return true;
  COMPOUND4args_head head;
  if (!xdr::Decode(arguments, head)) return false;
  const auto octets_in_items = [&] { return arguments.flat_size() - arguments.position() - arguments.remaining(); };
  for (uint32_t i = 0; i < head.count && octets_in_items() > 0; ++i) {
    nfs_argop4 operation;
    if (!xdr::Decode(arguments, operation)) return false;
  }
  return octets_in_items() == 0;
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
  COMPOUND4args_head head;
  if (!xdr::Decode(arguments, head)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  Execution execution(services_, context, head, arguments, results);
  nfsstat4 status = NFS4_OK;
  if (head.minorversion > kHighestMinorVersion) {
    status = NFS4ERR_MINOR_VERS_MISMATCH;
  } else if (!IsUtf8(head.tag)) {
    status = NFS4ERR_INVAL;
  } else {
    status = co_await execution.Run();
  }
  context.keep = execution.keep();
  if (execution.replayed()) co_return rpc::AcceptStatus::SUCCESS;
  execution.results().Finish(status);
  if (execution.must_outlive_server()) co_await execution.Persist();
  execution.Finish();
  // What follows the operations, in the stream or beside it, was meant by the client as part of them.
  const bool is_garbage = status == NFS4_OK && !arguments.Finish();
  co_return is_garbage ? rpc::AcceptStatus::GARBAGE_ARGS : rpc::AcceptStatus::SUCCESS;
}

}  // namespace penstock::nfs::v4
