#include "nfs/v4/engine/execution.h"

#include <algorithm>
#include <utility>

#include "base/loop.h"
#include "base/loop_turn.h"
#include "base/probes.h"
#include "metrics/counts.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4.h"
#include "protocol/nfs4_compound.h"
#include "rpc/call_order.h"
#include "rpc/connection_control.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// A reply must always have room for the number and status of an operation that fails.
constexpr size_t kFailure = sizeof(uint32_t) * 3;

// A COMPOUND lets other work of its loop go on after so many operations, and earlier if they take long.
constexpr uint32_t kOperationsInATurn = 16;

// Sealed results travel as one opaque, without payloads beside it (RFC 8166 §8.2.2.3).
bool IsSealed(const rpc::Credential& credential) { return credential.service != rpc::GssService::kNone; }

}  // namespace

Execution::Execution(const Services& services, rpc::CallContext& call, const CompoundHead& head,
                     xdr::Decoder& arguments, xdr::Encoder& results)
    : compound_{.services = services, .call = call, .dialect = *head.dialect},
      head_(head),
      arguments_(arguments),
      results_(results, head.tag),
      limit_(RoomWithin(services.settings.max_response)),
      counts_(CountsFor(call)) {
  if (compound_.dialect.session_kind() == SessionKind::kBound) LimitToConnection();
}

metrics::InterfaceCounts* Execution::CountsFor(const rpc::CallContext& call) {
  return call.peer.counts ? call.peer.counts->loop().Find({NFS4_PROGRAM, NFS_V4, call.notes.variant}) : nullptr;
}

void Execution::Count(nfs_opnum4 number) {
  if (!counts_) return;
  metrics::LoopCounts& loop = compound_.call.peer.counts->loop();
  const metrics::Ticks now = loop.clock().Now();
  const auto status = static_cast<uint32_t>(status_);
  const Duration duration = loop.clock().Between(counted_until_, now);
  counts_->Get(static_cast<uint32_t>(number)).Record(status, duration);
  counted_until_ = now;
  compound_.call.notes.ended = now;
  const metrics::CallNotes& notes = compound_.call.notes;
  if (compound_.current) {
    loop.exports.Get(compound_.current->in().id().value())
        .Record(status, duration, notes.read_octets - read_octets_, notes.written_octets - written_octets_);
  }
  read_octets_ = notes.read_octets;
  written_octets_ = notes.written_octets;
}

Task<nfsstat4> Execution::Run() {
  counted_until_ = turn_began_ = compound_.call.notes.began;
  compound_.call.notes.operations = 0;
  // Over a bound connection, a COMPOUND without operations lacks its opener.
  if (head_.count == 0 && compound_.dialect.session_kind() == SessionKind::kBound) {
    co_return compound_.dialect.errors().without_opener;
  }
  for (uint32_t i = 0; i < head_.count && status_ == NFS4_OK && !replayed_; ++i) {
    // A request of 2004 may have many operations.
    Loop* const loop = compound_.call.peer.loop;
    if (loop && i > 0 && (i % kOperationsInATurn == 0 || IsTurnOver())) {
      co_await NextTurn(*loop);
      BeginTurn();
    }
    nfs_opnum4 number = OP_ILLEGAL;
    const Operation* const operation = Next(i, number);
    if (operation && operation->placement == Placement::kOpener) {
      if (number == OP_SEQUENCE) {
        status_ = RunSequence();
      } else {
        status_ = co_await RunControl();
      }
    } else if (operation) {
      if (MustWait(*operation)) status_ = co_await WaitToBegin(*operation);
      if (status_ != NFS4_OK) {
        Fail(number, operation, status_);
      } else {
        Begin(i, *operation);
        if (operation->now && !(operation->task && IsLast(i))) {
          status_ = operation->now(compound_, arguments_, results_.encoder());
        } else {
          status_ = co_await operation->task(compound_, arguments_, results_.encoder());
        }
        End(i, *operation);
      }
    }
    if (status_ != NFS4_OK && !replayed_) compound_.NoteFailure(number, status_);
    ++compound_.call.notes.operations;
    PENSTOCK_PROBE(4, operation__end, compound_.call.xid.value(), compound_.call.peer.connection,
                   static_cast<uint32_t>(number), static_cast<uint32_t>(status_));
    Count(number);
  }
  co_return status_;
}

// The clock is read where operations are counted anyway.
bool Execution::IsTurnOver() const {
  if (!counts_) return false;
  return compound_.call.peer.counts->loop().clock().Between(turn_began_, counted_until_) >= LoopTurn::kLimit;
}

void Execution::BeginTurn() {
  if (counts_) turn_began_ = counted_until_ = compound_.call.peer.counts->loop().clock().Now();
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
  const ErrorWords& errors = compound_.dialect.errors();
  switch (operation.placement) {
    case Placement::kOpener:
      return index == 0 ? NFS4_OK : errors.opener_misplaced;
    case Placement::kOnlyAlone:
      return head_.count == 1 ? NFS4_OK : errors.not_alone;
    case Placement::kAlsoAlone:
      return compound_.session || head_.count == 1 ? NFS4_OK : errors.not_alone;
    case Placement::kInRequest:
      return compound_.session ? NFS4_OK : errors.without_opener;
    case Placement::kBeforeReads:
      return index == 0 ? NFS4_OK : errors.opener_misplaced;
    case Placement::kLast: {
      const auto& way = compound_.call.peer.back_channel;
      if (way && !way->bound()) return NFS4ERR_SESS01_NOT_BOUND;
      return compound_.session && index + 1 == head_.count ? NFS4_OK : errors.opener_misplaced;
    }
  }
  std::unreachable();
}

// A limit on the size of a reply includes the octets that the security flavor adds (RFC 8881 §18.36.3: headers with
// credentials and verifiers).
size_t Execution::RoomWithin(size_t reply) const { return reply - std::min(reply, compound_.call.reply_overhead); }

// From here on the reply must also fit in what the connection can send: over RDMA in a Send, or in the Reply chunk of
// the call. In a session of 2004 every operation must. In RFC 8881 only operations that change something must: the
// transport judges the others (RFC 8267 §6.4.2), and also sealed replies, whose size is known too late.
void Execution::LimitToConnection() {
  const rpc::CallContext& call = compound_.call;
  if (!call.peer.control) return;
  if (IsSealed(call.credential) && compound_.dialect.session_kind() != SessionKind::kBound) return;
  const size_t room = call.peer.control->ReplyRoom(call.xid);
  if (room != SIZE_MAX) sendable_ = RoomWithin(room);
}

// Returns the octets of the results so far that Write chunks take, with their padding. Returns nothing if a payload is
// longer than its chunk.
std::optional<size_t> Execution::PlacedOctets() const {
  const rpc::CallContext& call = compound_.call;
  const xdr::Items& payloads = results_.payloads();
  if (sendable_ == SIZE_MAX || IsSealed(call.credential)) return 0;
  size_t placed = 0;
  for (size_t n = 0; n < payloads.size(); ++n) {
    const size_t size = payloads[n].data.size();
    const std::optional<size_t> room = call.peer.control->PayloadRoom(call.xid, n);
    if (!room) continue;
    if (size > *room) return std::nullopt;
    placed += RoundUp(size, 4);
  }
  return placed;
}

// Whether the connection can send a reply of this size, with the payloads so far.
bool Execution::CanBeSent(size_t size) const {
  if (sendable_ == SIZE_MAX) return true;
  const std::optional<size_t> placed = PlacedOctets();
  return placed && size - *placed <= sendable_;
}

// RFC 8881 §2.10.6.4
nfsstat4 Execution::CheckRoom(size_t size) const {
  if (size > limit_) return compound_.dialect.errors().reply_too_big;
  if (compound_.dialect.session_kind() == SessionKind::kBound && !CanBeSent(size)) {
    return compound_.dialect.errors().reply_too_big;
  }
  return size > kept_limit_ ? compound_.dialect.errors().reply_too_big_to_keep : NFS4_OK;
}

// Checks everything that can be checked before the arguments are decoded.
nfsstat4 Execution::Check(uint32_t index, nfs_opnum4 number, const Operation* operation) const {
  if (!operation) return NFS4ERR_OP_ILLEGAL;
  // In a session, SEQUENCE has counted the operations.
  if (index >= compound_.services.settings.max_operations && !compound_.session) {
    return compound_.dialect.errors().too_many_operations;
  }
  if (const nfsstat4 status = CheckOrder(index, *operation); status != NFS4_OK) return status;
  if (!operation->supported()) return NFS4ERR_NOTSUPP;
  if (const auto* slot = std::get_if<SlotRequest>(&request_); slot && slot->uncached) return NFS4ERR_RETRY_UNCACHED_REP;
  if (operation->needs_current && !compound_.current) {
    if (!compound_.foreign) return NFS4ERR_NOFILEHANDLE;
    if (number != OP_SAVEFH) return compound_.foreign->status;
  }
  if (operation->needs_saved && !compound_.saved) {
    if (!compound_.saved_foreign) return NFS4ERR_NOFILEHANDLE;
    if (number != OP_COPY) return compound_.saved_foreign->status;
  }
  const bool uses_current = operation->needs_current && compound_.current;
  // RFC 8881 §2.6.3.1.1.7: only operations that put a filehandle return NFS4ERR_WRONGSEC.
  if (uses_current && !compound_.MayUseCurrent(number)) return NFS4ERR_ACCESS;
  // RFC 8881 §11.3: these operations decide themselves, by the attributes.
  const bool may_be_absent = number == OP_GETATTR || number == OP_VERIFY || number == OP_NVERIFY;
  if (uses_current && !may_be_absent && compound_.current->in().is_referral()) return NFS4ERR_MOVED;
  // An operation that changes something must not be executed if its result might not fit in the reply.
  if (!operation->may_change()) return NFS4_OK;
  const size_t size = results_.size() + 4 + operation->max_result;
  if (size > changed_limit_) return compound_.dialect.errors().reply_too_big_to_keep;
  if (!CanBeSent(size)) return compound_.dialect.errors().reply_too_big;
  return CheckRoom(size);
}

const Operation* Execution::Next(uint32_t index, nfs_opnum4& number) {
  uint32_t word;
  if (!arguments_.U32(word)) {
    status_ = Fail(OP_ILLEGAL, nullptr, NFS4ERR_BADXDR);
    return nullptr;
  }
  number = static_cast<nfs_opnum4>(word);
  PENSTOCK_PROBE(3, operation__begin, compound_.call.xid.value(), compound_.call.peer.connection, word);
  const Operation* const operation = compound_.dialect.Find(number);
  status_ = Check(index, number, operation);
  if (status_ == NFS4_OK) return operation;
  Fail(number, operation, status_);
  return nullptr;
}

bool Execution::MustWait(const Operation& operation) const {
  return (compound_.call.peer.order && operation.gives_up) ||
         (operation.may_change() && std::holds_alternative<StreamRequest>(request_));
}

Task<nfsstat4> Execution::WaitToBegin(const Operation& operation) {
  // Over RDMA, the server may not have received the payload of an earlier WRITE yet.
  if (rpc::CallOrder* const order = compound_.call.peer.order; order && operation.gives_up) {
    co_await order->WaitForEarlier(compound_.call.xid, NamedFileHash()(compound_.current->name()));
  }
  const auto* const stream = std::get_if<StreamRequest>(&request_);
  if (!stream || !operation.may_change()) co_return NFS4_OK;
  if (stream->repeats) co_return NFS4ERR_SESS01_UNKNOWN_FATE;
  const bool noted = co_await BeginChange(operation);
  co_return noted ? NFS4_OK : NFS4ERR_SERVERFAULT;
}

void Execution::Begin(uint32_t index, const Operation& operation) {
  changed_ |= operation.changes;
  wrote_ |= operation.number == OP_WRITE;
  gave_up_ |= operation.changes && operation.number != OP_OPEN;
  if ((changed_ || wrote_) && changed_limit_ < kept_limit_) {
    kept_limit_ = changed_limit_;
    compound_.keeps_reply = true;
  }
  compound_.lasting |= operation.lasting;
  results_.Begin(operation.number);
  const bool is_last = IsLast(index);
  const size_t used = results_.size() + (is_last ? 0 : kFailure);
  compound_.room = std::min(limit_, kept_limit_) - std::min({limit_, kept_limit_, used});
  if (sendable_ != SIZE_MAX && compound_.dialect.session_kind() == SessionKind::kBound) {
    const size_t unplaced = used - PlacedOctets().value_or(0);
    compound_.room = std::min(compound_.room, sendable_ - std::min(sendable_, unplaced));
  }
  compound_.following = is_last ? nullptr : &arguments_;
}

void Execution::End(uint32_t index, const Operation& operation) {
  compound_.uses.End();
  if (const nfsstat4 fits = CheckRoom(results_.size() + (IsLast(index) ? 0 : kFailure)); fits != NFS4_OK) {
    results_.Replace();
    operation.fail(results_.encoder(), fits);
    status_ = fits;
  }
}

// An open ends with the server. So after the restart, an OPEN that changed no file is the same as one that was never
// executed. State that a request gives up is another matter: another client may have it since.
bool Execution::must_outlive_server() const {
  if (const auto* stream = std::get_if<StreamRequest>(&request_)) return stream->begun != StreamRequest::Begun::kNo;
  const auto* slot = std::get_if<SlotRequest>(&request_);
  if (!slot || !slot->replies || !compound_.keeps_reply) return false;
  return compound_.lasting || (!slot->reclaiming && (wrote_ || gave_up_));
}

Task<> Execution::Persist() {
  if (const auto* stream = std::get_if<StreamRequest>(&request_)) co_return co_await Persist(*stream);
  co_await Persist(std::get<SlotRequest>(request_));
}

void Execution::Finish() {
  if (const auto* slot = std::get_if<SlotRequest>(&request_)) Finish(*slot);
  if (const auto* stream = std::get_if<StreamRequest>(&request_)) Finish(*stream);
}

}  // namespace penstock::nfs::v4
