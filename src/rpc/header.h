// The headers of RPC calls and replies, RFC 5531 §9.
#pragma once

#include <cstdint>

#include "protocol/rpc.h"
#include "rpc/transport.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::rpc {

using AcceptStatus = rpcmsg::accept_stat;
using AuthStatus = rpcmsg::auth_stat;
using AuthFlavor = rpcmsg::auth_flavor;
// A credential or verifier. The body of a decoded one refers to the message.
using OpaqueAuth = rpcmsg::opaque_auth;
using VersionRange = rpcmsg::version_range;

// The direction of a message, from its second word.
enum class Direction : uint8_t { kCall, kReply, kUnknown };
Direction DirectionOf(ConstBytes stream);

// The place of the credential's flavor in a call: behind XID, direction, RPC version, program, version and procedure.
constexpr size_t kCredentialFlavorAt = 24;

struct CallHeader {
  Xid xid;
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  OpaqueAuth credential;
  OpaqueAuth verifier;
};

// The problem of a call's header, which decides the reply. The header's XID is valid unless the problem is kNotACall.
enum class HeaderProblem : uint8_t {
  kNone,
  kNotACall,       // a reply, or too short for an XID: there is no reply to it
  kRpcVersion,     // RPC_MISMATCH
  kTruncated,      // GARBAGE_ARGS
  kBadCredential,  // longer than RFC 5531 §8.2 allows
  kBadVerifier,
};

// Leaves the decoder at the arguments.
HeaderProblem DecodeCallHeader(xdr::Decoder& decoder, CallHeader& header);
void EncodeCallHeader(xdr::Encoder& encoder, const CallHeader& header);

// Encodes the header of a reply to an accepted call. The results follow if `status` is SUCCESS. Not for PROG_MISMATCH.
void EncodeAccepted(xdr::Encoder& encoder, Xid xid, AcceptStatus status, const OpaqueAuth& verifier = {});
void EncodeProgramMismatch(xdr::Encoder& encoder, Xid xid, VersionRange versions);
// Encode the reply to a call that is denied.
void EncodeRpcMismatch(xdr::Encoder& encoder, Xid xid);
void EncodeAuthError(xdr::Encoder& encoder, Xid xid, AuthStatus why);

struct ReplyHeader {
  Xid xid;
  rpcmsg::reply_body body;
};
// Leaves the decoder at the results. Returns false if the message is not a reply.
bool DecodeReplyHeader(xdr::Decoder& decoder, ReplyHeader& header);

// The length of the longest reply header with an empty verifier, which is the one of PROG_MISMATCH.
inline constexpr size_t kMaxReplyHeader = 32;

}  // namespace penstock::rpc
