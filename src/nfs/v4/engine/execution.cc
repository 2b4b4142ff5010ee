#include "nfs/v4/engine/execution.h"

#include <algorithm>
#include <utility>

#include "nfs/v4/state/state.h"
#include "protocol/nfs4.h"
#include "protocol/nfs4_compound.h"
#include "rpc/call_order.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// A reply must always have room for the number and status of an operation that fails.
constexpr size_t kFailure = sizeof(uint32_t) * 3;

}  // namespace

Execution::Execution(const Services& services, rpc::CallContext& call, const CompoundHead& head,
                     xdr::Decoder& arguments, xdr::Encoder& results)
    : compound_{.services = services, .call = call, .dialect = *head.dialect},
      count_(head.count),
      arguments_(arguments),
      results_(results, head.tag),
      limit_(RoomWithin(services.settings.max_response)) {}

Task<nfsstat4> Execution::Run() {
  // Over a bound connection, a COMPOUND without operations lacks its opener.
  if (count_ == 0 && compound_.dialect.session_kind() == SessionKind::kBound) {
    co_return compound_.dialect.errors().without_opener;
  }
  for (uint32_t i = 0; i < count_ && status_ == NFS4_OK && !replayed_; ++i) status_ = co_await RunOne(i);
  co_return status_;
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
      return count_ == 1 ? NFS4_OK : errors.not_alone;
    case Placement::kAlsoAlone:
      return compound_.session || count_ == 1 ? NFS4_OK : errors.not_alone;
    case Placement::kInRequest:
      return compound_.session ? NFS4_OK : errors.without_opener;
    case Placement::kBeforeReads:
      return index == 0 ? NFS4_OK : errors.opener_misplaced;
    case Placement::kLast:
      return compound_.session && index + 1 == count_ ? NFS4_OK : errors.opener_misplaced;
  }
  std::unreachable();
}

// A limit on the size of a reply includes the octets that the security flavor adds (RFC 8881 §18.36.3: headers with
// credentials and verifiers).
size_t Execution::RoomWithin(size_t reply) const { return reply - std::min(reply, compound_.call.reply_overhead); }

// RFC 8881 §2.10.6.4
nfsstat4 Execution::CheckRoom(size_t size) const {
  if (size > limit_) return compound_.dialect.errors().reply_too_big;
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
  if (operation->needs_current && !compound_.current) return NFS4ERR_NOFILEHANDLE;
  if (operation->needs_saved && !compound_.saved) return NFS4ERR_NOFILEHANDLE;
  // RFC 8881 §2.6.3.1.1.7: only operations that put a filehandle return NFS4ERR_WRONGSEC.
  if (operation->needs_current && !compound_.MayUseCurrent(number)) return NFS4ERR_ACCESS;
  // An operation that changes something must not be executed if its result might not fit in the reply.
  if (!operation->changes && number != OP_WRITE) return NFS4_OK;
  const size_t size = results_.size() + 4 + operation->max_result;
  if (size > changed_limit_) return compound_.dialect.errors().reply_too_big_to_keep;
  return CheckRoom(size);
}

Task<nfsstat4> Execution::RunOne(uint32_t index) {
  uint32_t word;
  if (!arguments_.U32(word)) co_return Fail(OP_ILLEGAL, nullptr, NFS4ERR_BADXDR);
  const auto number = static_cast<nfs_opnum4>(word);
  const Operation* operation = compound_.dialect.Find(number);
  if (const nfsstat4 status = Check(index, number, operation); status != NFS4_OK) {
    co_return Fail(number, operation, status);
  }
  if (operation->placement == Placement::kOpener) {
    if (number == OP_SEQUENCE) co_return RunSequence();
    co_return co_await RunControl();
  }

  // Over RDMA, the server may not have received the payload of an earlier WRITE yet.
  if (rpc::CallOrder* const order = compound_.call.peer.order; order && operation->gives_up) {
    co_await order->WaitForEarlier(compound_.call.xid, NamedFileHash()(compound_.current->name()));
  }
  const bool changes = operation->changes || number == OP_WRITE;
  if (changes && !co_await BeginChange(*operation)) co_return Fail(number, operation, NFS4ERR_SERVERFAULT);
  changed_ |= operation->changes;
  wrote_ |= number == OP_WRITE;
  if ((changed_ || wrote_) && changed_limit_ < kept_limit_) {
    kept_limit_ = changed_limit_;
    compound_.keeps_reply = true;
  }
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

bool Execution::must_outlive_server() const {
  if (const auto* stream = std::get_if<StreamRequest>(&request_)) return stream->begun != StreamRequest::Begun::kNo;
  const auto* slot = std::get_if<SlotRequest>(&request_);
  return slot && slot->replies && compound_.keeps_reply && (compound_.lasting || !slot->reclaiming);
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
