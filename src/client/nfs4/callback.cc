#include "client/nfs4/callback.h"

#include <optional>
#include <vector>

#include "client/nfs4/attributes.h"
#include "client/nfs4/callback_answers.h"
#include "client/nfs4/dialect.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4 {
using nfs4::nfs_cb_opnum4;
using nfs4::nfsstat4;

Task<rpc::AcceptStatus> CallbackProgram::Call(rpc::CallContext& context, xdr::Decoder& arguments,
                                              xdr::Encoder& results) {
  switch (context.procedure) {
    case nfs4::CB_NULL::kNumber:
      co_return arguments.Finish() ? rpc::AcceptStatus::SUCCESS : rpc::AcceptStatus::GARBAGE_ARGS;
    case nfs4::CB_COMPOUND::kNumber:
      co_return Compound(arguments, results);
    default:
      co_return rpc::AcceptStatus::PROC_UNAVAIL;
  }
}

// RFC 8881 §19.2, §2.10.6: CB_SEQUENCE must be the first operation.
rpc::AcceptStatus CallbackProgram::Compound(xdr::Decoder& arguments, xdr::Encoder& results) {
  nfs4::CB_COMPOUND4args_head head;
  if (!xdr::Decode(arguments, head)) return rpc::AcceptStatus::GARBAGE_ARGS;
  const auto start = results.mark();
  const size_t status_at = results.reduced_size();
  xdr::Encode(results, nfs4::CB_COMPOUND4res_head{nfsstat4::NFS4_OK, head.tag, 0});
  const size_t count_at = results.reduced_size() - 4;

  nfsstat4 status = nfsstat4::NFS4_OK;
  if (const Dialect* const dialect = FindDialect(head.minorversion); !dialect || !dialect->has_sessions()) {
    status = nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH;
    head.count = 0;
  }
  std::optional<uint32_t> slot;
  uint32_t done = 0;
  for (; done < head.count && status == nfsstat4::NFS4_OK; ++done) {
    nfs_cb_opnum4 operation;
    if (!xdr::Decode(arguments, operation)) return rpc::AcceptStatus::GARBAGE_ARGS;
    if (done == 0 && operation == nfs_cb_opnum4::OP_CB_SEQUENCE) {
      const xdr::Message* replay = nullptr;
      status = Sequence(arguments, results, slot, replay);
      if (replay) {
        results.Rewind(start);
        results.Append(*replay);
        return rpc::AcceptStatus::SUCCESS;
      }
    } else if (done == 0) {
      status = Answer(results, operation, nfsstat4::NFS4ERR_OP_NOT_IN_SESSION);
    } else {
      status = Execute(operation, arguments, results);
    }
  }
  results.PatchU32(status_at, static_cast<uint32_t>(status));
  results.PatchU32(count_at, done);
  if (slot) slots_.Finish(*slot, results.CopySince(start));
  return rpc::AcceptStatus::SUCCESS;
}

nfsstat4 CallbackProgram::Sequence(xdr::Decoder& arguments, xdr::Encoder& results, std::optional<uint32_t>& slot,
                                   const xdr::Message*& replay) {
  constexpr auto kOperation = nfs_cb_opnum4::OP_CB_SEQUENCE;
  nfs4::CB_SEQUENCE4args sequence;
  if (!xdr::Decode(arguments, sequence)) return Answer(results, kOperation, nfsstat4::NFS4ERR_BADXDR);
  if (sequence.csa_sessionid != receiver_.session()) return Answer(results, kOperation, nfsstat4::NFS4ERR_BADSESSION);
  if (current_ != sequence.csa_sessionid) {
    current_ = sequence.csa_sessionid;
    slots_ = CallbackSlots(slot_count_);
  }
  if (RefersToACallUnderWay(sequence)) return Answer(results, kOperation, nfsstat4::NFS4ERR_DELAY);
  const CallbackSlots::Start start = slots_.HandleSequence(sequence.csa_slotid, sequence.csa_sequenceid);
  if (start.status != nfsstat4::NFS4_OK) return Answer(results, kOperation, start.status);
  replay = start.replay;
  if (replay) return nfsstat4::NFS4_OK;
  slot = sequence.csa_slotid;
  xdr::Encode(results, kOperation);
  const nfs4::CB_SEQUENCE4resok said{sequence.csa_sessionid, sequence.csa_sequenceid, sequence.csa_slotid,
                                     slots_.highest(), slots_.highest()};
  xdr::Encode(results, nfs4::CB_SEQUENCE4res(nfsstat4::NFS4_OK, said));
  return nfsstat4::NFS4_OK;
}

// RFC 8881 §2.10.6.3: the callback has overtaken a reply on which it depends.
bool CallbackProgram::RefersToACallUnderWay(const nfs4::CB_SEQUENCE4args& sequence) const {
  for (const nfs4::referring_call_list4& list : sequence.csa_referring_call_lists) {
    if (list.rcl_sessionid != sequence.csa_sessionid) continue;
    for (const nfs4::referring_call4& call : list.rcl_referring_calls) {
      if (receiver_.IsUnderWay({call.rc_slotid, call.rc_sequenceid})) return true;
    }
  }
  return false;
}

nfsstat4 AnswerGetAttributes(CallbackReceiver& receiver, xdr::Decoder& arguments, xdr::Encoder& results) {
  constexpr auto kOperation = nfs_cb_opnum4::OP_CB_GETATTR;
  nfs4::CB_GETATTR4args asked;
  if (!xdr::Decode(arguments, asked)) return Answer(results, kOperation, nfsstat4::NFS4ERR_BADXDR);
  const auto delegation = receiver.DelegationOf(asked.fh);
  if (!delegation) return Answer(results, kOperation, nfsstat4::NFS4ERR_BADHANDLE);
  std::vector<std::byte> octets;
  const nfs4::fattr4 known = EncodeChange(asked.attr_request, delegation->change(), delegation->size(), octets);
  xdr::Encode(results, kOperation);
  xdr::Encode(results, nfs4::CB_GETATTR4res(nfsstat4::NFS4_OK, nfs4::CB_GETATTR4resok{known}));
  return nfsstat4::NFS4_OK;
}

nfsstat4 CallbackProgram::Execute(nfs_cb_opnum4 operation, xdr::Decoder& arguments, xdr::Encoder& results) {
  switch (operation) {
    case nfs_cb_opnum4::OP_CB_SEQUENCE:
      return Answer<nfs4::CB_SEQUENCE4args>(arguments, results, operation, nfsstat4::NFS4ERR_SEQUENCE_POS);
    case nfs_cb_opnum4::OP_CB_RECALL_SLOT:
      return Answer<nfs4::CB_RECALL_SLOT4args>(arguments, results, operation, [&](const auto& recall) {
        receiver_.HandleSlotTarget(recall.rsa_target_highest_slotid);
        return nfsstat4::NFS4_OK;
      });
    case nfs_cb_opnum4::OP_CB_RECALL:
      return Answer<nfs4::CB_RECALL4args>(arguments, results, operation,
                                          [&](const auto& recall) { return receiver_.HandleRecall(recall); });
    case nfs_cb_opnum4::OP_CB_GETATTR:
      return AnswerGetAttributes(receiver_, arguments, results);
    case nfs_cb_opnum4::OP_CB_RECALL_ANY:
      return Answer<nfs4::CB_RECALL_ANY4args>(arguments, results, operation, [&](const auto& recall) {
        receiver_.HandleRecallAny(recall);
        return nfsstat4::NFS4_OK;
      });
    case nfs_cb_opnum4::OP_CB_NOTIFY_LOCK:
      return Answer<nfs4::CB_NOTIFY_LOCK4args>(arguments, results, operation, [&](const auto& notice) {
        receiver_.HandleLockAvailable(notice.cnla_fh);
        return nfsstat4::NFS4_OK;
      });
    // The client never waits for these events.
    case nfs_cb_opnum4::OP_CB_RECALLABLE_OBJ_AVAIL:
      return Answer<nfs4::CB_RECALLABLE_OBJ_AVAIL4args>(arguments, results, operation, nfsstat4::NFS4_OK);
    case nfs_cb_opnum4::OP_CB_WANTS_CANCELLED:
      return Answer<nfs4::CB_WANTS_CANCELLED4args>(arguments, results, operation, nfsstat4::NFS4_OK);
    // These concern layouts, directory notifications and copies, which the client never requests (RFC 8881 §20.3 to
    // §20.5, §20.12, RFC 7862 §16.1).
    case nfs_cb_opnum4::OP_CB_LAYOUTRECALL:
    case nfs_cb_opnum4::OP_CB_NOTIFY:
    case nfs_cb_opnum4::OP_CB_PUSH_DELEG:
    case nfs_cb_opnum4::OP_CB_NOTIFY_DEVICEID:
    case nfs_cb_opnum4::OP_CB_OFFLOAD:
      return Answer(results, operation, nfsstat4::NFS4ERR_NOTSUPP);
    default:
      return Answer(results, nfs_cb_opnum4::OP_CB_ILLEGAL, nfsstat4::NFS4ERR_OP_ILLEGAL);
  }
}

}  // namespace penstock::client::v4
