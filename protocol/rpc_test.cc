// Tests the encoding of RPC messages (RFC 5531 §9).
#include "protocol/rpc.h"

#include <gtest/gtest.h>

#include "encoding_test.h"
#include "xdr/testing.h"
#include "xdr/xdr.h"

namespace penstock::rpcmsg {
namespace {

using xdr::testing::EncodedHex;
using xdr::testing::Octets;

class RpcMessage : public EncodingTest {};

TEST_F(RpcMessage, EncodesACall) {
  rpc_msg call{.xid = 0x11223344, .body = message_body(CALL)};
  call.body.cbody() = {.rpcvers = RPC_VERSION, .prog = 100003, .vers = 3, .proc = 6};
  ExpectEncoding(call,
                 "11223344 00000000 00000002 000186a3 00000003 00000006 "
                 "00000000 00000000 "   // credential: AUTH_NONE
                 "00000000 00000000");  // verifier
}

TEST_F(RpcMessage, EncodesAcceptedReplies) {
  rpc_msg reply{.xid = 1, .body = message_body(REPLY)};
  ExpectEncoding(reply, "00000001 00000001 00000000 00000000 00000000 00000000");
  reply.body.rbody().areply().reply_data = accepted_data(PROG_MISMATCH, version_range{.low = 2, .high = 4});
  ExpectEncoding(reply, "00000001 00000001 00000000 00000000 00000000 00000002 00000002 00000004");
  reply.body.rbody().areply().reply_data = accepted_data(GARBAGE_ARGS);
  ExpectEncoding(reply, "00000001 00000001 00000000 00000000 00000000 00000004");
}

TEST_F(RpcMessage, EncodesRejectedReplies) {
  rpc_msg reply{.xid = 1, .body = message_body(REPLY, reply_body(MSG_DENIED))};
  reply.body.rbody().rreply() = rejected_reply(RPC_MISMATCH, version_range{.low = 2, .high = 2});
  ExpectEncoding(reply, "00000001 00000001 00000001 00000000 00000002 00000002");
  reply.body.rbody().rreply() = rejected_reply(AUTH_ERROR, AUTH_TOOWEAK);
  ExpectEncoding(reply, "00000001 00000001 00000001 00000001 00000005");
}

TEST_F(RpcMessage, DecodesUnknownFlavors) {
  const auto flavor = xdr::DecodeWhole<opaque_auth>(xdr::Message::Whole(Octets(pool_, "0005f3ff 00000000")));
  ASSERT_TRUE(flavor);
  EXPECT_EQ(static_cast<uint32_t>(flavor->flavor), 0x5f3ffu);
}

TEST_F(RpcMessage, RejectsAnAuthenticatorAbove400Octets) {
  std::string hex = "00000000 00000191";
  for (int i = 0; i < 101; ++i) hex += "00000000";
  const auto auth = xdr::DecodeWhole<opaque_auth>(xdr::Message::Whole(Octets(pool_, hex)));
  ASSERT_FALSE(auth);
  EXPECT_EQ(auth.error(), xdr::Error::kTooLong);
}

// RFC 5531 appendix A
TEST_F(RpcMessage, EncodesTheAuthSysCredential) {
  authsys_parms parms{.stamp = 7, .machinename = "krypton", .uid = 1000, .gid = 100};
  parms.gids = {4, 24};
  EXPECT_EQ(EncodedHex(pool_, parms),
            "00000007 00000007 6b727970 746f6e00 000003e8 00000064 00000002 00000004 00000018");
}

}  // namespace
}  // namespace penstock::rpcmsg
