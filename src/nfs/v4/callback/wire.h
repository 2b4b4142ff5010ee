// The encoding of calls to a client's callback program, and the decoding of the replies (RFC 8881 §19.2, §20; RFC 7530
// §15.2). The server sends one operation in each CB_COMPOUND.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/dialect/dialect.h"
#include "protocol/nfs4_callback.h"
#include "protocol/nfs4_sess01.h"
#include "rpc/auth.h"
#include "rpc/transport.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

// An operation for the client to execute. It owns its encoded arguments, since the server may send it more than once.
struct CallbackOperation {
  nfs4::nfs_cb_opnum4 number{};
  std::vector<std::byte> arguments;
  // The client's request whose reply the client must have seen to understand this operation.
  std::optional<RequestName> refers_to{};
  bool with_times = false;  // CB_GETATTR asks for the times

  template <class Arguments>
  static CallbackOperation Of(nfs4::nfs_cb_opnum4 number, const Arguments& arguments) {
    BufferPool pool;
    xdr::Encoder encoder(pool);
    xdr::Encode(encoder, arguments);
    const xdr::Message message = encoder.Finish();
    const ConstBytes bytes = message.stream.bytes();
    return {.number = number, .arguments = {bytes.begin(), bytes.end()}};
  }
};

// CB_GETATTR for the attributes that the holder of a write delegation may have changed; `with_times`: also for the
// times that it is the authority for.
CallbackOperation MakeGetAttributes(const FileHandle& file, bool with_times);

struct CallbackCall {
  uint32_t program = 0;
  rpc::OpaqueAuth credential{};
  // Makes the call, if it is not null: see rpc::ClientCredential::protection(). It outlives the call.
  rpc::ReverseProtection* protection = nullptr;
  MinorVersion minor_version{};
  uint32_t identifier = 0;                               // callback_ident, for clients without sessions
  std::optional<nfs4::CB_SEQUENCE4args> sequence{};      // for clients with sessions of RFC 8881
  std::optional<nfs4::OPERATIONCONTROL4args> control{};  // for clients with sessions of 2004
  const CallbackOperation* operation = nullptr;          // null for CB_NULL
};

rpc::Message EncodeCallback(BufferPool& buffers, rpc::Xid xid, const CallbackCall& call);
// The largest reply that the server expects.
rpc::ReplyShape ShapeOfCallbackReply();

struct CallbackAnswer {
  // The status of CB_SEQUENCE or OPERATION_CONTROL; NFS4_OK if the call had neither.
  nfs4::nfsstat4 opener = nfs4::NFS4_OK;
  // The status of the operation, or of the CB_COMPOUND if the client did not execute the operation.
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
  HolderAttributes attributes{};  // CB_GETATTR
};

enum class CallbackProblem : uint8_t {
  kRefused,    // the client denied the call, or lacks the program, version or procedure: it executed nothing
  kMalformed,  // the reply is malformed, or the client has failed: it may have executed the call
};
Result<CallbackAnswer, CallbackProblem> DecodeCallbackReply(const rpc::Message& reply, rpc::Xid xid,
                                                            const CallbackCall& call);

}  // namespace penstock::nfs::v4
