#include "rpc/header.h"

#include <cassert>

#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::rpc {
namespace {

bool DecodeAuth(xdr::Decoder& decoder, OpaqueAuth& auth, HeaderProblem& problem, HeaderProblem if_too_long) {
  if (xdr::Decode(decoder, auth)) return true;
  problem = decoder.error() == xdr::Error::kTooLong ? if_too_long : HeaderProblem::kTruncated;
  return false;
}

void EncodeReplyStart(xdr::Encoder& encoder, Xid xid, rpcmsg::reply_stat status) {
  encoder.U32(xid.value());
  xdr::Encode(encoder, rpcmsg::REPLY);
  xdr::Encode(encoder, status);
}

}  // namespace

Direction DirectionOf(ConstBytes stream) {
  if (stream.size() < 8) return Direction::kUnknown;
  switch (static_cast<rpcmsg::msg_type>(LoadBig<uint32_t>(stream.data() + 4))) {
    case rpcmsg::msg_type::CALL:
      return Direction::kCall;
    case rpcmsg::msg_type::REPLY:
      return Direction::kReply;
  }
  return Direction::kUnknown;
}

HeaderProblem DecodeCallHeader(xdr::Decoder& decoder, CallHeader& header) {
  uint32_t xid;
  uint32_t type;
  if (!decoder.U32(xid) || !decoder.U32(type) || type != static_cast<uint32_t>(rpcmsg::CALL)) {
    return HeaderProblem::kNotACall;
  }
  header.xid = Xid(xid);
  uint32_t rpc_version;
  if (!decoder.U32(rpc_version)) return HeaderProblem::kTruncated;
  // RFC 5531 §9: rpcvers must be 2. The format of other versions is unknown.
  if (rpc_version != rpcmsg::RPC_VERSION) return HeaderProblem::kRpcVersion;
  if (!decoder.U32(header.program) || !decoder.U32(header.version) || !decoder.U32(header.procedure)) {
    return HeaderProblem::kTruncated;
  }
  HeaderProblem problem = HeaderProblem::kNone;
  if (DecodeAuth(decoder, header.credential, problem, HeaderProblem::kBadCredential)) {
    DecodeAuth(decoder, header.verifier, problem, HeaderProblem::kBadVerifier);
  }
  return problem;
}

void EncodeCallHeader(xdr::Encoder& encoder, const CallHeader& header) {
  encoder.U32(header.xid.value());
  xdr::Encode(encoder, rpcmsg::CALL);
  encoder.U32(rpcmsg::RPC_VERSION);
  encoder.U32(header.program);
  encoder.U32(header.version);
  encoder.U32(header.procedure);
  xdr::Encode(encoder, header.credential);
  xdr::Encode(encoder, header.verifier);
}

void EncodeAccepted(xdr::Encoder& encoder, Xid xid, AcceptStatus status, const OpaqueAuth& verifier) {
  assert(status != AcceptStatus::PROG_MISMATCH);
  EncodeReplyStart(encoder, xid, rpcmsg::MSG_ACCEPTED);
  xdr::Encode(encoder, verifier);
  xdr::Encode(encoder, status);
}

void EncodeProgramMismatch(xdr::Encoder& encoder, Xid xid, VersionRange versions) {
  EncodeReplyStart(encoder, xid, rpcmsg::MSG_ACCEPTED);
  xdr::Encode(encoder, OpaqueAuth{});
  xdr::Encode(encoder, rpcmsg::PROG_MISMATCH);
  xdr::Encode(encoder, versions);
}

void EncodeRpcMismatch(xdr::Encoder& encoder, Xid xid) {
  EncodeReplyStart(encoder, xid, rpcmsg::MSG_DENIED);
  xdr::Encode(encoder, rpcmsg::RPC_MISMATCH);
  xdr::Encode(encoder, VersionRange{rpcmsg::RPC_VERSION, rpcmsg::RPC_VERSION});
}

void EncodeAuthError(xdr::Encoder& encoder, Xid xid, AuthStatus why) {
  EncodeReplyStart(encoder, xid, rpcmsg::MSG_DENIED);
  xdr::Encode(encoder, rpcmsg::AUTH_ERROR);
  xdr::Encode(encoder, why);
}

bool DecodeReplyHeader(xdr::Decoder& decoder, ReplyHeader& header) {
  uint32_t xid;
  uint32_t type;
  if (!decoder.U32(xid) || !decoder.U32(type) || type != static_cast<uint32_t>(rpcmsg::REPLY)) return false;
  header.xid = Xid(xid);
  return xdr::Decode(decoder, header.body);
}

}  // namespace penstock::rpc
