// How callbacks are answered, in every dialect: the results of single operations of CB_COMPOUND.
#pragma once

#include <concepts>

#include "protocol/nfs4_callback.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4 {

class CallbackReceiver;

// Encodes the result of an operation that consists of a status. Returns the status.
inline nfs4::nfsstat4 Answer(xdr::Encoder& results, nfs4::nfs_cb_opnum4 operation, nfs4::nfsstat4 status) {
  xdr::Encode(results, operation);
  xdr::Encode(results, status);
  return status;
}

// Decodes the arguments and encodes the status that `handle(arguments)` returns.
template <class Arguments, class Handle>
  requires std::invocable<Handle, const Arguments&>
nfs4::nfsstat4 Answer(xdr::Decoder& decoder, xdr::Encoder& results, nfs4::nfs_cb_opnum4 operation, Handle handle) {
  Arguments arguments;
  return Answer(results, operation, xdr::Decode(decoder, arguments) ? handle(arguments) : nfs4::NFS4ERR_BADXDR);
}
// Decodes the arguments, ignores them and encodes `status`.
template <class Arguments>
nfs4::nfsstat4 Answer(xdr::Decoder& decoder, xdr::Encoder& results, nfs4::nfs_cb_opnum4 operation,
                      nfs4::nfsstat4 status) {
  return Answer<Arguments>(decoder, results, operation, [status](const Arguments&) { return status; });
}

// CB_GETATTR (RFC 8881 §20.1, §10.4.3)
nfs4::nfsstat4 AnswerGetAttributes(CallbackReceiver& receiver, xdr::Decoder& arguments, xdr::Encoder& results);

}  // namespace penstock::client::v4
