#include "rpc/header.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "rpc/auth.h"
#include "rpc/client.h"
#include "xdr/encode.h"

namespace penstock::rpc {
namespace {

Message Words(std::initializer_list<uint32_t> words) {
  BufferPool pool;
  xdr::Encoder encoder(pool);
  for (uint32_t word : words) encoder.U32(word);
  return encoder.Finish();
}

std::vector<uint32_t> WordsOf(const Message& message) {
  std::vector<uint32_t> words;
  const ConstBytes bytes = message.stream.bytes();
  for (size_t i = 0; i < bytes.size(); i += 4) words.push_back(LoadBig<uint32_t>(bytes.data() + i));
  return words;
}

template <class Function>
std::vector<uint32_t> Written(Function write) {
  BufferPool pool;
  xdr::Encoder encoder(pool);
  write(encoder);
  return WordsOf(encoder.Finish());
}

using W = std::vector<uint32_t>;

TEST(CallHeader, DecodesUpToTheArguments) {
  // xid, CALL, rpcvers, prog, vers, proc, cred {flavor, length}, verf {flavor, length}, arguments
  const Message call = Words({7, 0, 2, 100003, 3, 1, 6, 4, 0xabcd0000, 0, 0, 42});
  xdr::Decoder decoder(call);
  CallHeader header;
  ASSERT_EQ(DecodeCallHeader(decoder, header), HeaderProblem::kNone);
  EXPECT_EQ(header.xid, Xid(7));
  EXPECT_EQ(header.program, 100003u);
  EXPECT_EQ(header.version, 3u);
  EXPECT_EQ(header.procedure, 1u);
  EXPECT_EQ(header.credential.flavor, AuthFlavor::RPCSEC_GSS);
  EXPECT_EQ(header.credential.body.size(), 4u);
  EXPECT_EQ(header.verifier.flavor, AuthFlavor::AUTH_NONE);
  EXPECT_EQ(decoder.remaining(), 4u);

  EXPECT_EQ(Written([&](auto& encoder) { EncodeCallHeader(encoder, header); }),
            (W{7, 0, 2, 100003, 3, 1, 6, 4, 0xabcd0000, 0, 0}));
}

TEST(CallHeader, ReportsEachProblem) {
  const auto problem = [](const Message& message) {
    xdr::Decoder decoder(message);
    CallHeader header;
    return DecodeCallHeader(decoder, header);
  };
  EXPECT_EQ(problem({}), HeaderProblem::kNotACall);
  EXPECT_EQ(problem(Words({7})), HeaderProblem::kNotACall);
  EXPECT_EQ(problem(Words({7, 1, 2, 100003, 3, 1, 0, 0, 0, 0})), HeaderProblem::kNotACall);
  EXPECT_EQ(problem(Words({7, 2, 2, 100003, 3, 1, 0, 0, 0, 0})), HeaderProblem::kNotACall);
  EXPECT_EQ(problem(Words({7, 0, 3})), HeaderProblem::kRpcVersion);
  EXPECT_EQ(problem(Words({7, 0, 2, 100003, 3, 1, 0, 0, 0, 0})), HeaderProblem::kNone);
  EXPECT_EQ(problem(Words({7, 0, 2, 100003, 3, 1, 0, 401})), HeaderProblem::kBadCredential);
  EXPECT_EQ(problem(Words({7, 0, 2, 100003, 3, 1, 0, 0, 0, 401})), HeaderProblem::kBadVerifier);
  const W whole = {7, 0, 2, 100003, 3, 1, 0, 4, 0, 0, 0};
  for (size_t words = 2; words < whole.size(); ++words) {
    EXPECT_EQ(problem(Words({7, 0})), HeaderProblem::kTruncated);
    BufferPool pool;
    xdr::Encoder encoder(pool);
    for (size_t i = 0; i < words; ++i) encoder.U32(whole[i]);
    EXPECT_EQ(problem(encoder.Finish()), HeaderProblem::kTruncated) << words;
  }
}

TEST(ReplyHeader, MatchesTheLayoutOfTheSpecification) {
  const Xid xid(9);
  EXPECT_EQ(Written([&](auto& e) { EncodeAccepted(e, xid, AcceptStatus::SUCCESS); }), (W{9, 1, 0, 0, 0, 0}));
  EXPECT_EQ(Written([&](auto& e) { EncodeAccepted(e, xid, AcceptStatus::PROG_UNAVAIL); }), (W{9, 1, 0, 0, 0, 1}));
  EXPECT_EQ(Written([&](auto& e) { EncodeProgramMismatch(e, xid, {2, 4}); }), (W{9, 1, 0, 0, 0, 2, 2, 4}));
  EXPECT_EQ(Written([&](auto& e) { EncodeAccepted(e, xid, AcceptStatus::PROC_UNAVAIL); }), (W{9, 1, 0, 0, 0, 3}));
  EXPECT_EQ(Written([&](auto& e) { EncodeAccepted(e, xid, AcceptStatus::GARBAGE_ARGS); }), (W{9, 1, 0, 0, 0, 4}));
  EXPECT_EQ(Written([&](auto& e) { EncodeAccepted(e, xid, AcceptStatus::SYSTEM_ERR); }), (W{9, 1, 0, 0, 0, 5}));
  EXPECT_EQ(Written([&](auto& e) { EncodeRpcMismatch(e, xid); }), (W{9, 1, 1, 0, 2, 2}));
  EXPECT_EQ(Written([&](auto& e) { EncodeAuthError(e, xid, AuthStatus::AUTH_TOOWEAK); }), (W{9, 1, 1, 1, 5}));
  EXPECT_EQ(Written([&](auto& e) { EncodeProgramMismatch(e, xid, {2, 4}); }).size() * 4, kMaxReplyHeader);
}

TEST(ReplyHeader, RoundTrips) {
  const auto read = [](const Message& message) {
    xdr::Decoder decoder(message);
    ReplyHeader header;
    EXPECT_TRUE(DecodeReplyHeader(decoder, header));
    EXPECT_EQ(header.xid, Xid(9));
    EXPECT_TRUE(decoder.Finish());
    return header.body;
  };
  EXPECT_EQ(read(Words({9, 1, 0, 0, 0, 0})).areply().reply_data.discriminant(), AcceptStatus::SUCCESS);
  EXPECT_EQ(read(Words({9, 1, 0, 0, 0, 2, 2, 4})).areply().reply_data.mismatch_info(), (VersionRange{2, 4}));
  EXPECT_EQ(read(Words({9, 1, 1, 0, 2, 2})).rreply().mismatch_info(), (VersionRange{2, 2}));
  EXPECT_EQ(read(Words({9, 1, 1, 1, 5})).rreply().why(), AuthStatus::AUTH_TOOWEAK);
  EXPECT_EQ(static_cast<int>(read(Words({9, 1, 1, 1, 99})).rreply().why()), 99);

  for (const Message& bad :
       {Words({9}), Words({9, 0}), Words({9, 1, 2}), Words({9, 1, 0, 0, 0, 6}), Words({9, 1, 1, 2})}) {
    xdr::Decoder decoder(bad);
    ReplyHeader header;
    EXPECT_FALSE(DecodeReplyHeader(decoder, header));
  }
}

struct Authenticated {
  AuthStatus status;
  Credential credential;
};
Authenticated AuthenticateSys(const Message& body, AuthFlavor verifier = AuthFlavor::AUTH_NONE) {
  CallHeader header;
  header.credential = {AuthFlavor::AUTH_SYS, body.stream.bytes()};
  header.verifier.flavor = verifier;
  Authenticated result;
  result.status = Authenticate(header, result.credential);
  return result;
}

TEST(AuthSys, DecodesUserAndGroups) {
  // stamp, machinename "abc", uid, gid, gids
  const auto result = AuthenticateSys(Words({1, 3, 0x61626300, 1000, 100, 2, 4, 24}));
  ASSERT_EQ(result.status, AuthStatus::AUTH_OK);
  EXPECT_EQ(result.credential.flavor, AuthFlavor::AUTH_SYS);
  EXPECT_EQ(result.credential.uid, 1000u);
  EXPECT_EQ(result.credential.gid, 100u);
  ASSERT_EQ(result.credential.groups().size(), 2u);
  EXPECT_EQ(result.credential.groups()[1], 24u);
}

TEST(AuthSys, RejectsABodyBeyondItsLimits) {
  EXPECT_EQ(AuthenticateSys({}).status, AuthStatus::AUTH_BADCRED);
  EXPECT_EQ(AuthenticateSys(Words({1, 0, 1000, 100})).status, AuthStatus::AUTH_BADCRED);
  EXPECT_EQ(AuthenticateSys(Words({1, 256})).status, AuthStatus::AUTH_BADCRED);
  EXPECT_EQ(AuthenticateSys(Words({1, 0, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})).status,
            AuthStatus::AUTH_OK);
  EXPECT_EQ(AuthenticateSys(Words({1, 0, 0, 0, 17, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17})).status,
            AuthStatus::AUTH_BADCRED);
  EXPECT_EQ(AuthenticateSys(Words({1, 0, 0, 0, 2, 1})).status, AuthStatus::AUTH_BADCRED);
  EXPECT_EQ(AuthenticateSys(Words({1, 0, 0, 0, 0, 77})).status, AuthStatus::AUTH_BADCRED);
  EXPECT_EQ(AuthenticateSys(Words({1, 0, 0, 0, 0}), AuthFlavor::AUTH_SYS).status, AuthStatus::AUTH_BADVERF);
}

TEST(Authenticate, AcceptsSupportedFlavorsOnly) {
  Credential credential;
  CallHeader header;
  EXPECT_EQ(Authenticate(header, credential), AuthStatus::AUTH_OK);
  EXPECT_EQ(credential.uid, kNobody);
  header.credential.flavor = AuthFlavor::AUTH_SHORT;
  EXPECT_EQ(Authenticate(header, credential), AuthStatus::AUTH_REJECTEDCRED);
  header.credential.flavor = static_cast<AuthFlavor>(7);  // AUTH_TLS
  EXPECT_EQ(Authenticate(header, credential), AuthStatus::AUTH_BADCRED);
}

TEST(ClientCredential, ServersDecodeIt) {
  SystemIdentity identity{std::string(300, 'h'), 12, 34, {}};
  for (uint32_t i = 0; i < 20; ++i) identity.groups.push_back(i);
  const ClientCredential credential(identity);
  CallHeader header;
  header.credential = credential.auth();
  Credential read;
  ASSERT_EQ(Authenticate(header, read), AuthStatus::AUTH_OK);
  EXPECT_EQ(read.uid, 12u);
  EXPECT_EQ(read.gid, 34u);
  EXPECT_EQ(read.groups().size(), 16u);
  EXPECT_EQ(ClientCredential().auth().flavor, AuthFlavor::AUTH_NONE);
}

}  // namespace
}  // namespace penstock::rpc
