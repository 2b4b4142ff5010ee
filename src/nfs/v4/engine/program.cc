#include "nfs/v4/engine/program.h"

#include "base/utf8.h"
#include "metrics/interface.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/engine/execution.h"
#include "nfs/v4/engine/judged_request.h"
#include "nfs/v4/engine/namespace.h"
#include "protocol/nfs4.h"
#include "protocol/nfs4_compound.h"
#include "rpc/handle.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

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

// Returns the octets of the pads among the operations, up to the first operation that is malformed (see xdr::Padding).
size_t PadsAmong(const CompoundHead& head, const xdr::Decoder& behind_head) {
  if (!behind_head.may_have_pads()) return 0;
  xdr::Decoder arguments = behind_head.Fork();
  for (uint32_t i = 0; i < head.count; ++i) {
    nfs_argop4 operation;
    if (!xdr::Decode(arguments, operation)) break;
  }
  return arguments.pads();
}

// Whether the COMPOUND belongs to the sessions of 2004.
bool IsBound(const CompoundHead& head) { return head.dialect && head.dialect->session_kind() == SessionKind::kBound; }

// Whether the COMPOUND creates a session of 2004 or binds a connection. It is in no chain.
bool CreatesOrBinds(const CompoundHead& head) {
  return head.first_operation == OP_SESSION_CREATE || head.first_operation == OP_SESSION_BIND;
}

// Names the dialect for the counters.
uint16_t VariantOf(const Dialect& dialect) {
  if (dialect.session_kind() == SessionKind::kBound) return metrics::kSess01Variant;
  return static_cast<uint16_t>(dialect.minor_version().value() + 1);
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
  auto head = DecodeCompoundHead(arguments, context.peer, services_.settings.bound_sessions);
  if (!head || !PlacesItems(*head, arguments)) return {.is_garbage = true};
  head->pads = PadsAmong(*head, arguments);
  context.head.Set(*head);
  const bool remembers = head->dialect && head->dialect->duplicate_policy() == DuplicatePolicy::kReplyCache;
  return {.keep = remembers ? rpc::Keep::kChange : rpc::Keep::kNothing,
          .takes_arriving = true,
          .is_judged = IsBound(*head) && !CreatesOrBinds(*head)};
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

void Program::Preview(rpc::CallContext& context, xdr::Decoder& arguments) const {
  const auto* const head = context.head.Get<CompoundHead>();
  if (head && IsBound(*head) && IsUtf8(head->tag)) JudgeAhead(services_, context, *head, arguments);
}

Task<rpc::AcceptStatus> Program::RunCompound(rpc::CallContext& context, xdr::Decoder& arguments,
                                             xdr::Encoder& results) const {
  const CompoundHead& head = *context.head.Get<CompoundHead>();
  if (head.dialect) context.notes.variant = VariantOf(*head.dialect);
  if (!head.dialect || !IsUtf8(head.tag)) {
    if (!head.dialect) {
      const auto names = services_.names.Get();
      names->refusals().HandleFailure({.call = context,
                                       .operation = "NFSPROC4_COMPOUND",
                                       .status = static_cast<uint32_t>(NFS4ERR_MINOR_VERS_MISMATCH)});
    }
    Reject(head, head.dialect ? NFS4ERR_INVAL : NFS4ERR_MINOR_VERS_MISMATCH, results);
    context.keep = rpc::Keep::kNothing;
    co_return rpc::AcceptStatus::SUCCESS;
  }
  Execution execution(services_, context, head, arguments, results);
  const nfsstat4 status = co_await execution.Run();
  context.keep = execution.keep();
  if (execution.replayed()) co_return rpc::AcceptStatus::SUCCESS;
  execution.results().Finish(status);
  if (execution.must_outlive_server()) {
    co_await execution.Persist();
    context.notes.ended = 0;
  }
  execution.Finish();
  // The arguments must end with the last operation, in the stream and beside it.
  const bool is_garbage = status == NFS4_OK && !arguments.Finish();
  co_return is_garbage ? rpc::AcceptStatus::GARBAGE_ARGS : rpc::AcceptStatus::SUCCESS;
}

}  // namespace penstock::nfs::v4
