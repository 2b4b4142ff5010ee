#include "client/nfs4/sess01/callbacks.h"

#include <utility>

#include "client/nfs4/callback_answers.h"
#include "client/nfs4/dialect.h"

namespace penstock::client::v4::sess01 {

using nfs4::nfs_cb_opnum4;
using nfs4::nfsstat4;

bool CallbackProgram::Speaks(uint32_t minor_version) const { return minor_version == kSessionsOf2004.minor_version; }

// §3.3: OPERATION_CONTROL must be the first operation.
Task<CallbackProgram::Opened> CallbackProgram::Open(rpc::Xid xid, nfs_cb_opnum4 operation, xdr::Decoder& arguments,
                                                    xdr::Encoder& results) {
  if (operation != nfs_cb_opnum4::OP_CB_OPERATION_CONTROL) {
    co_return Opened{.status = Answer(results, operation, nfsstat4::NFS4ERR_SESS01_CONTROL_POS)};
  }
  nfs4::OPERATIONCONTROL4args control;
  Opened opened{.status = nfsstat4::NFS4ERR_BADXDR};
  if (xdr::Decode(arguments, control)) opened = co_await Find(xid, control);
  if (opened.replay) co_return opened;
  xdr::Encode(results, operation);
  xdr::Encode(results, opened.status == nfsstat4::NFS4_OK ? nfs4::OPERATIONCONTROL4res(opened.status, control.streamid)
                                                          : nfs4::OPERATIONCONTROL4res(opened.status));
  co_return opened;
}

Task<CallbackProgram::Opened> CallbackProgram::Find(rpc::Xid xid, const nfs4::OPERATIONCONTROL4args& control) {
  co_await connection_.AwaitBinding();
  for (;;) {
    const auto own = connection_.back_channel();
    if (!own) co_return Opened{.status = nfsstat4::NFS4ERR_SESS01_NOT_BOUND};
    // The draft has no chains on a back channel.
    if (control.chainflags != nfs4::ChainFlags::NOCHAIN) {
      co_return Opened{.status = nfsstat4::NFS4ERR_SESS01_CHAIN_INVALID};
    }
    using Outcome = CallbackTable::Outcome;
    const CallbackTable::Start start = session_.callbacks().HandleCall(*own, control.channelid, control.streamid, xid);
    switch (start.outcome) {
      case Outcome::kWait:
        co_await session_.callbacks_changed();
        continue;
      case Outcome::kRun:
        co_return Opened{.runs = true, .channel = control.channelid, .stream = control.streamid};
      case Outcome::kReplay:
        co_return Opened{.replay = start.results};
      case Outcome::kRefused:
        co_return Opened{.status = start.status};
    }
  }
}

void CallbackProgram::HandleEnd(const Opened& opened, xdr::Message results) {
  session_.callbacks().Finish(opened.channel, opened.stream, std::move(results));
  session_.callbacks_changed().Notify();
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
