#include "client/nfs4/callback_compound.h"

#include "client/nfs4/callback_answers.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4 {

using nfs4::nfs_cb_opnum4;
using nfs4::nfsstat4;

Task<rpc::AcceptStatus> CallbackCompounds::Call(rpc::CallContext& context, xdr::Decoder& arguments,
                                                xdr::Encoder& results) {
  if (context.credential.flavor == rpc::AuthFlavor::RPCSEC_GSS) is_protected_ = true;
  switch (context.procedure) {
    case nfs4::CB_NULL::kNumber:
      co_return arguments.Finish() ? rpc::AcceptStatus::SUCCESS : rpc::AcceptStatus::GARBAGE_ARGS;
    case nfs4::CB_COMPOUND::kNumber:
      co_return co_await Compound(context.xid, arguments, results);
    default:
      co_return rpc::AcceptStatus::PROC_UNAVAIL;
  }
}

Task<rpc::AcceptStatus> CallbackCompounds::Compound(rpc::Xid xid, xdr::Decoder& arguments, xdr::Encoder& results) {
  nfs4::CB_COMPOUND4args_head head;
  if (!xdr::Decode(arguments, head)) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  const auto start = results.mark();
  const size_t status_at = results.reduced_size();
  xdr::Encode(results, nfs4::CB_COMPOUND4res_head{nfsstat4::NFS4_OK, head.tag, 0});
  const size_t count_at = results.reduced_size() - 4;

  nfsstat4 status = nfsstat4::NFS4_OK;
  if (!Speaks(head.minorversion)) {
    status = nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH;
  } else if (head.count == 0) {
    status = status_of_none();
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
    } else {
      opened = co_await Open(xid, operation, arguments, results);
      if (opened.replay) {
        results.Rewind(start);
        results.Append(*opened.replay);
        co_return rpc::AcceptStatus::SUCCESS;
      }
      status = opened.status;
    }
  }
  results.PatchU32(status_at, static_cast<uint32_t>(status));
  results.PatchU32(count_at, done);
  if (opened.runs) HandleEnd(opened, results.CopySince(start));
  co_return rpc::AcceptStatus::SUCCESS;
}

}  // namespace penstock::client::v4
