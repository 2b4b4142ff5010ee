#include "client/nfs4/callback.h"

#include <vector>

#include "client/nfs4/attributes.h"
#include "client/nfs4/callback_answers.h"
#include "client/nfs4/dialect.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4 {
using nfs4::nfs_cb_opnum4;
using nfs4::nfsstat4;

bool CallbackProgram::Speaks(uint32_t minor_version) const {
  const Dialect* const dialect = FindDialect(minor_version);
  return dialect && dialect->has_sessions();
}

// RFC 8881 §19.2, §2.10.6: CB_SEQUENCE must be the first operation.
Task<CallbackProgram::Opened> CallbackProgram::Open(rpc::Xid /*xid*/, nfs_cb_opnum4 operation, xdr::Decoder& arguments,
                                                    xdr::Encoder& results) {
  if (operation == nfs_cb_opnum4::OP_CB_SEQUENCE) co_return Sequence(arguments, results);
  co_return Opened{.status = Answer(results, operation, nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)};
}

CallbackProgram::Opened CallbackProgram::Sequence(xdr::Decoder& arguments, xdr::Encoder& results) {
  const auto refuse = [&results](nfsstat4 status) {
    return Opened{.status = Answer(results, nfs_cb_opnum4::OP_CB_SEQUENCE, status)};
  };
  nfs4::CB_SEQUENCE4args sequence;
  if (!xdr::Decode(arguments, sequence)) return refuse(nfsstat4::NFS4ERR_BADXDR);
  if (sequence.csa_sessionid != receiver_.session()) return refuse(nfsstat4::NFS4ERR_BADSESSION);
  if (current_ != sequence.csa_sessionid) {
    current_ = sequence.csa_sessionid;
    slots_ = CallbackSlots(slot_count_);
  }
  if (RefersToACallUnderWay(sequence)) return refuse(nfsstat4::NFS4ERR_DELAY);
  const CallbackSlots::Start start = slots_.HandleSequence(sequence.csa_slotid, sequence.csa_sequenceid);
  if (start.status != nfsstat4::NFS4_OK) return refuse(start.status);
  if (start.replay) return {.replay = start.replay};
  xdr::Encode(results, nfs_cb_opnum4::OP_CB_SEQUENCE);
  const nfs4::CB_SEQUENCE4resok said{sequence.csa_sessionid, sequence.csa_sequenceid, sequence.csa_slotid,
                                     slots_.highest(), slots_.highest()};
  xdr::Encode(results, nfs4::CB_SEQUENCE4res(nfsstat4::NFS4_OK, said));
  return {.runs = true, .stream = sequence.csa_slotid};
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
  if (!delegation->knows_size()) return Answer(results, kOperation, nfsstat4::NFS4ERR_DELAY);
  std::vector<std::byte> octets;
  const nfs4::fattr4 known = EncodeChange(asked.attr_request, delegation->change(), delegation->size(), octets);
  xdr::Encode(results, kOperation);
  xdr::Encode(results, nfs4::CB_GETATTR4res(nfsstat4::NFS4_OK, nfs4::CB_GETATTR4resok{known}));
  return nfsstat4::NFS4_OK;
}

namespace {

// Whether a document defines all of these types of recallable objects (RFC 8881 §20.6.1; 16 and 17 are layouts of
// flexible files, RFC 8435 §13.1). A client without such objects must not refuse them (RFC 8881 §20.6.3).
bool AreDefinedTypes(const nfs4::bitmap4& mask) {
  const auto range = [](uint32_t first, uint32_t last) { return (uint32_t{2} << last) - (uint32_t{1} << first); };
  constexpr uint32_t kFlexibleFileLayoutMin = 16, kFlexibleFileLayoutMax = 17;
  const uint32_t defined = range(nfs4::RCA4_TYPE_MASK_RDATA_DLG, nfs4::RCA4_TYPE_MASK_BLK_LAYOUT) |
                           range(nfs4::RCA4_TYPE_MASK_OBJ_LAYOUT_MIN, nfs4::RCA4_TYPE_MASK_OBJ_LAYOUT_MAX) |
                           range(nfs4::RCA4_TYPE_MASK_OTHER_LAYOUT_MIN, nfs4::RCA4_TYPE_MASK_OTHER_LAYOUT_MAX) |
                           range(kFlexibleFileLayoutMin, kFlexibleFileLayoutMax);
  for (size_t word = 0; word < mask.size(); ++word) {
    if (mask[word] & ~(word == 0 ? defined : 0)) return false;
  }
  return true;
}

}  // namespace

Task<nfsstat4> CallbackProgram::Execute(nfs_cb_opnum4 operation, xdr::Decoder& arguments, xdr::Encoder& results) {
  switch (operation) {
    case nfs_cb_opnum4::OP_CB_SEQUENCE:
      co_return Answer<nfs4::CB_SEQUENCE4args>(arguments, results, operation, nfsstat4::NFS4ERR_SEQUENCE_POS);
    case nfs_cb_opnum4::OP_CB_RECALL_SLOT:
      co_return Answer<nfs4::CB_RECALL_SLOT4args>(arguments, results, operation, [&](const auto& recall) {
        receiver_.HandleSlotTarget(recall.rsa_target_highest_slotid);
        return nfsstat4::NFS4_OK;
      });
    case nfs_cb_opnum4::OP_CB_RECALL:
      co_return Answer<nfs4::CB_RECALL4args>(arguments, results, operation,
                                             [&](const auto& recall) { return receiver_.HandleRecall(recall); });
    case nfs_cb_opnum4::OP_CB_GETATTR:
      co_return AnswerGetAttributes(receiver_, arguments, results);
    case nfs_cb_opnum4::OP_CB_RECALL_ANY:
      co_return Answer<nfs4::CB_RECALL_ANY4args>(arguments, results, operation, [&](const auto& recall) {
        if (!AreDefinedTypes(recall.craa_type_mask)) return nfsstat4::NFS4ERR_INVAL;
        receiver_.HandleRecallAny(recall);
        return nfsstat4::NFS4_OK;
      });
    case nfs_cb_opnum4::OP_CB_NOTIFY_LOCK:
      co_return Answer<nfs4::CB_NOTIFY_LOCK4args>(arguments, results, operation, [&](const auto& notice) {
        receiver_.HandleLockAvailable(notice.cnla_fh);
        return nfsstat4::NFS4_OK;
      });
    // The client never waits for these events.
    case nfs_cb_opnum4::OP_CB_RECALLABLE_OBJ_AVAIL:
      co_return Answer<nfs4::CB_RECALLABLE_OBJ_AVAIL4args>(arguments, results, operation, nfsstat4::NFS4_OK);
    case nfs_cb_opnum4::OP_CB_WANTS_CANCELLED:
      co_return Answer<nfs4::CB_WANTS_CANCELLED4args>(arguments, results, operation, nfsstat4::NFS4_OK);
    // These concern layouts, directory notifications and copies, which the client never requests (RFC 8881 §20.3 to
    // §20.5, §20.12, RFC 7862 §16.1).
    case nfs_cb_opnum4::OP_CB_LAYOUTRECALL:
    case nfs_cb_opnum4::OP_CB_NOTIFY:
    case nfs_cb_opnum4::OP_CB_PUSH_DELEG:
    case nfs_cb_opnum4::OP_CB_NOTIFY_DEVICEID:
    case nfs_cb_opnum4::OP_CB_OFFLOAD:
      co_return Answer(results, operation, nfsstat4::NFS4ERR_NOTSUPP);
    default:
      co_return Answer(results, nfs_cb_opnum4::OP_CB_ILLEGAL, nfsstat4::NFS4ERR_OP_ILLEGAL);
  }
}

}  // namespace penstock::client::v4
