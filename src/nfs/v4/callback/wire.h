// CB_COMPOUND as we send it, one operation at a time, and what comes back (RFC 8881 §19.2, §20; RFC 7530 §15.2).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "nfs/v4/callback/callbacks.h"
#include "protocol/nfs4_callback.h"
#include "rpc/auth.h"
#include "rpc/transport.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

// Something that the client is asked to do, in memory of its own: it may be asked again.
struct CallbackOperation {
  nfs4::nfs_cb_opnum4 number{};
  std::vector<std::byte> arguments;
  // The request of the client's whose reply it has to see before it understands this.
  std::optional<RequestName> refers_to{};

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

// CB_GETATTR for what the holder of a write delegation knows better.
CallbackOperation MakeGetAttributes(const FileHandle& file);

struct CallbackCall {
  uint32_t program = 0;
  rpc::OpaqueAuth credential{};
  uint32_t minor_version = 0;
  uint32_t identifier = 0;                           // minor version 0
  std::optional<nfs4::CB_SEQUENCE4args> sequence{};  // minor version 1 and later
  const CallbackOperation* operation = nullptr;      // null: CB_NULL
};

rpc::Message EncodeCallback(BufferPool& buffers, rpc::Xid xid, const CallbackCall& call);
// The largest reply.
rpc::ReplyShape ShapeOfCallbackReply();

struct CallbackAnswer {
  // Of CB_SEQUENCE; NFS4_OK where there was none.
  nfs4::nfsstat4 sequence = nfs4::NFS4_OK;
  // Of the operation, or of the whole where the client did not come to it.
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
  HolderAttributes attributes{};  // CB_GETATTR
};

enum class CallbackProblem : uint8_t {
  kRefused,    // denied, or no such program, version or procedure: nothing was executed
  kMalformed,  // or the client has failed: nobody knows what was executed
};
Result<CallbackAnswer, CallbackProblem> DecodeCallbackReply(const rpc::Message& reply, rpc::Xid xid,
                                                            const CallbackCall& call);

}  // namespace penstock::nfs::v4
