#include "client/nfs4/sess01/callbacks.h"

#include "client/nfs4/callback_answers.h"
#include "client/nfs4/dialect.h"

namespace penstock::client::v4::sess01 {

using nfs4::nfs_cb_opnum4;
using nfs4::nfsstat4;

Task<rpc::AcceptStatus> CallbackProgram::Call(rpc::CallContext& context, xdr::Decoder& arguments,
                                              xdr::Encoder& results) {
  switch (context.procedure) {
    case nfs4::CB_NULL::kNumber:
      co_return arguments.Finish() ? rpc::AcceptStatus::SUCCESS : rpc::AcceptStatus::GARBAGE_ARGS;
    case nfs4::CB_COMPOUND::kNumber:
      co_return co_await Compound(context.xid, arguments, results);
    default:
      co_return rpc::AcceptStatus::PROC_UNAVAIL;
  }
}

// §3.3: OPERATION_CONTROL must be the first operation.
Task<rpc::AcceptStatus> CallbackProgram::Compound(rpc::Xid xid, xdr::Decoder& arguments, xdr::Encoder& results) {
  nfs4::CB_COMPOUND4args_head head;
  if (!xdr::Decode(arguments, head)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  const auto start = results.mark();
  const size_t status_at = results.reduced_size();
  xdr::Encode(results, nfs4::CB_COMPOUND4res_head{nfsstat4::NFS4_OK, head.tag, 0});
  const size_t count_at = results.reduced_size() - 4;

  nfsstat4 status = nfsstat4::NFS4_OK;
  if (head.minorversion != kSessionsOf2004.minor_version) {
    status = nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH;
  } else if (head.count == 0) {
    status = nfsstat4::NFS4ERR_SESS01_CONTROL_POS;
  }
  Opened opened;
  uint32_t done = 0;
  for (; done < head.count && status == nfsstat4::NFS4_OK; ++done) {
    nfs_cb_opnum4 operation;
    if (!xdr::Decode(arguments, operation)) {
      if (!opened.runs) co_return rpc::AcceptStatus::GARBAGE_ARGS;
      status = Answer(results, nfs_cb_opnum4::OP_CB_ILLEGAL, nfsstat4::NFS4ERR_BADXDR);
    } else if (done > 0) {
      status = co_await Execute(operation, arguments, results);
    } else if (operation != nfs_cb_opnum4::OP_CB_OPERATION_CONTROL) {
      status = Answer(results, operation, nfsstat4::NFS4ERR_SESS01_CONTROL_POS);
    } else {
      opened = co_await Open(xid, arguments);
      if (opened.replay) {
        results.Rewind(start);
        results.Append(*opened.replay);
        co_return rpc::AcceptStatus::SUCCESS;
      }
      status = opened.status;
      xdr::Encode(results, operation);
      xdr::Encode(results, status == nfsstat4::NFS4_OK ? nfs4::OPERATIONCONTROL4res(status, opened.control.streamid)
                                                       : nfs4::OPERATIONCONTROL4res(status));
    }
  }
  results.PatchU32(status_at, static_cast<uint32_t>(status));
  results.PatchU32(count_at, done);
  if (opened.runs) {
    session_.callbacks().Finish(opened.control.channelid, opened.control.streamid, results.CopySince(start));
    session_.callbacks_changed().Notify();
  }
  co_return rpc::AcceptStatus::SUCCESS;
}

Task<CallbackProgram::Opened> CallbackProgram::Open(rpc::Xid xid, xdr::Decoder& arguments) {
  Opened opened;
  if (!xdr::Decode(arguments, opened.control)) {
    opened.status = nfsstat4::NFS4ERR_BADXDR;
    co_return opened;
  }
  co_await connection_.AwaitBinding();
  for (;;) {
    const auto own = connection_.back_channel();
    if (!own) {
      opened.status = nfsstat4::NFS4ERR_SESS01_NOT_BOUND;
      co_return opened;
    }
    // The draft has no chains on a back channel.
    if (opened.control.chainflags != nfs4::ChainFlags::NOCHAIN) {
      opened.status = nfsstat4::NFS4ERR_SESS01_CHAIN_INVALID;
      co_return opened;
    }
    using Outcome = CallbackTable::Outcome;
    const CallbackTable::Start start =
        session_.callbacks().HandleCall(*own, opened.control.channelid, opened.control.streamid, xid);
    switch (start.outcome) {
      case Outcome::kWait:
        co_await session_.callbacks_changed();
        continue;
      case Outcome::kRun:
        opened.runs = true;
        break;
      case Outcome::kReplay:
        opened.replay = start.results;
        break;
      case Outcome::kRefused:
        opened.status = start.status;
        break;
    }
    co_return opened;
  }
}

Task<nfsstat4> CallbackProgram::Execute(nfs_cb_opnum4 operation, xdr::Decoder& arguments, xdr::Encoder& results) {
  switch (operation) {
    case nfs_cb_opnum4::OP_CB_OPERATION_CONTROL:
      co_return Answer<nfs4::OPERATIONCONTROL4args>(arguments, results, operation,
                                                    nfsstat4::NFS4ERR_SESS01_CONTROL_POS);
    case nfs_cb_opnum4::OP_CB_RECALL:
      co_return Answer<nfs4::CB_RECALL4args>(arguments, results, operation,
                                             [&](const auto& recall) { return state_.HandleRecall(recall); });
    case nfs_cb_opnum4::OP_CB_GETATTR:
      co_return AnswerGetAttributes(state_, arguments, results);
    case nfs_cb_opnum4::OP_CB_CREDITRECALL: {
      nfs4::CB_CREDITRECALLargs recall;
      if (!xdr::Decode(arguments, recall)) co_return Answer(results, operation, nfsstat4::NFS4ERR_BADXDR);
      if (recall.target == 0) co_return Answer(results, operation, nfsstat4::NFS4ERR_INVAL);
      const nfsstat4 status = co_await session_.RecallCredits(recall.target);
      co_return Answer(results, operation, status);
    }
    default:
      co_return Answer(results, nfs_cb_opnum4::OP_CB_ILLEGAL, nfsstat4::NFS4ERR_OP_ILLEGAL);
  }
}

}  // namespace penstock::client::v4::sess01
