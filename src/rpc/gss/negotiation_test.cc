#include "rpc/gss/test_acceptor.h"

namespace penstock::rpc::gss {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class NegotiationTest : public AcceptorTest {};

TEST_F(NegotiationTest, EstablishesAContext) {
  EXPECT_EQ(Establish(alice), 1);
  EXPECT_THAT(alice.handle(), SizeIs(16));
  EXPECT_EQ(acceptor.contexts().established(), 1u);
}

TEST_F(NegotiationTest, ReplyMatchesTheSpecification) {
  const Message reply = Reply(alice.Create(Xid(5), To(0)));
  const auto results = alice.HandleCreated(reply);
  ASSERT_TRUE(results);
  EXPECT_EQ(results->gss_major, 0u);
  EXPECT_EQ(results->seq_window, SequenceWindow::kSize);
  EXPECT_EQ(AsText(results->gss_token.bytes()), "welcome");
  EXPECT_TRUE(alice.IsVerified(reply, SequenceWindow::kSize));
}

TEST_F(NegotiationTest, EstablishesAContextWithSeveralTokens) {
  mechanism.legs = 3;
  const Message reply = Reply(alice.Create(Xid(5), To(0)));
  const auto results = alice.HandleCreated(reply);
  ASSERT_TRUE(results);
  EXPECT_EQ(results->gss_major, 1u) << "GSS_S_CONTINUE_NEEDED";
  EXPECT_THAT(WordsOf(reply)[3], 0u) << "a pending context has no verifier";
  EXPECT_EQ(acceptor.contexts().begun(), 1u);
  EXPECT_EQ(acceptor.contexts().established(), 0u);
  const testing::Octets handle = alice.handle();
  EXPECT_EQ(Establish(alice), 2);
  EXPECT_EQ(alice.handle(), handle);
  EXPECT_EQ(acceptor.contexts().begun(), 0u);
  EXPECT_EQ(Results(GssService::kPrivacy, rpc::testing::Add::kNumber, {7}), W{7});
}

TEST_F(NegotiationTest, ReportsFailuresOfTheMechanismInTheResults) {
  testing::ToyInitiator toy("mallory");
  testing::Initiator mallory(toy, pool);
  EXPECT_THAT(Words(mallory.Create(Xid(5), To(0))),
              ElementsAre(5, 1, 0, 0, 0, 0, /* handle */ 0, 0x9'0000, 7, 0, /* token */ 0));
  EXPECT_EQ(acceptor.contexts().begun(), 0u);
}

TEST_F(NegotiationTest, FailsIfTheMechanismCannotSign) {
  mechanism.mics_to_give = 0;
  EXPECT_THAT(Words(alice.Create(Xid(5), To(0))), ElementsAre(5, 1, 0, 0, 0, 0, 0, kFailure, 0, 0, 0));
  EXPECT_EQ(acceptor.contexts().established(), 0u);
  EXPECT_EQ(acceptor.contexts().begun(), 0u);
}

TEST_F(NegotiationTest, RejectsContinuationOfAnUnknownContext) {
  mechanism.legs = 2;
  const auto continued = [this](testing::Octets handle) {
    return Words(alice.Create(Xid(5), To(0), {.gss_procedure = 2, .handle = std::move(handle)}));
  };
  const W unknown = {5, 1, 0, 0, 0, 0, 0, kNoContext, 0, 0, 0};
  EXPECT_EQ(continued(testing::Octets(16, std::byte{77})), unknown);
  EXPECT_EQ(continued({}), unknown);
  EXPECT_EQ(continued(testing::Octets(200)), unknown);
  Establish();
  EXPECT_EQ(continued(alice.handle()), unknown) << "the context is complete";
}

TEST_F(NegotiationTest, IgnoresServiceAndSequenceNumber) {
  alice.HandleCreated(Reply(alice.Create(Xid(5), To(0), {.service = 99})));
  EXPECT_TRUE(alice.established());
}

TEST_F(NegotiationTest, RejectsMalformedControlMessages) {
  using enum AuthStatus;
  EXPECT_EQ(Words(alice.Create(Xid(5), To(1))), Denied(AUTH_BADCRED)) << "not for NULLPROC";
  EXPECT_EQ(Words(alice.Create(Xid(5), To(0), {.handle = testing::Octets(4)})), Denied(AUTH_BADCRED));
  EXPECT_EQ(Words(alice.Create(Xid(5), To(0), {.verifier_flavor = AuthFlavor::AUTH_SYS})), Denied(AUTH_BADVERF));
  EXPECT_EQ(Words(alice.Create(Xid(5), To(0), {.gss_procedure = 9})), Denied(AUTH_BADCRED));
  EXPECT_EQ(acceptor.contexts().begun(), 0u);
}

// RFC 2203 §5.1, RFC 5403 §4: a client of a later version tries that version, and falls back to version 1.
TEST_F(NegotiationTest, RejectsOtherVersions) {
  for (const uint32_t version : {0u, 2u, 3u}) {
    EXPECT_EQ(Words(alice.Create(Xid(5), To(0), {.version = version})), Denied(AuthStatus::AUTH_REJECTEDCRED));
  }
}

TEST_F(NegotiationTest, AnswersGarbageArgsToAMalformedToken) {
  const W garbage = {5, 1, 0, 0, 0, 4};
  Message call = alice.Create(Xid(5), To(0));
  call.stream = call.stream.Sub(0, call.stream.size() - 4);
  EXPECT_EQ(Words(std::move(call)), garbage);
  call = alice.Create(Xid(5), To(0));
  call.items.push_back({.offset = call.stream.size(), .data = Encoded({1}).stream});
  EXPECT_EQ(Words(std::move(call)), garbage) << "RFC 8166 §8.2.2: control messages are not reduced";
}

TEST_F(NegotiationTest, AnswersBadCredToAMalformedCredential) {
  const auto reply = [this](const W& credential) {
    W words = {5, 0, 2, rpc::testing::kTestProgram, 3, 0, 6, static_cast<uint32_t>(4 * credential.size())};
    words.insert(words.end(), credential.begin(), credential.end());
    words.insert(words.end(), {0, 0});
    return Words(Encoded(words));
  };
  EXPECT_EQ(reply({}), Denied(AuthStatus::AUTH_BADCRED));
  EXPECT_EQ(reply({1}), Denied(AuthStatus::AUTH_BADCRED));
  EXPECT_EQ(reply({2}), Denied(AuthStatus::AUTH_BADCRED));
  EXPECT_EQ(reply({1, 0, 1, 1}), Denied(AuthStatus::AUTH_BADCRED));
  EXPECT_EQ(reply({1, 0, 1, 1, 8, 0}), Denied(AuthStatus::AUTH_BADCRED));
  EXPECT_EQ(reply({1, 0, 1, 1, 0, 0}), Denied(AuthStatus::AUTH_BADCRED)) << "octets left over";
  EXPECT_EQ(reply({2, 0, 1, 1, 0}), Denied(AuthStatus::AUTH_BADCRED)) << "data of a version without contexts";
}

TEST_F(NegotiationTest, LimitsThePendingContextsOfAnAddress) {
  mechanism.legs = 2;
  std::vector<testing::Initiator> clients(100, alice);
  for (testing::Initiator& client : clients) client.HandleCreated(Reply(client.Create(Xid(5), To(0))));
  EXPECT_EQ(acceptor.contexts().begun(), ContextTable::Limits().begun_by_one_address);
  Establish(clients.back());
}

TEST_F(NegotiationTest, RejectsTheFlavorWithoutAMechanism) {
  Dispatcher without;
  without.Add(program);
  std::optional<W> reply;
  Spawn([](Dispatcher& d, Message call, const Peer& p, std::optional<W>& out) -> Task<void> {
    out = WordsOf(co_await d.HandleCall(std::move(call), p));
  }(without, alice.Create(Xid(5), To(0)), peer, reply));
  EXPECT_EQ(reply, Denied(AuthStatus::AUTH_BADCRED));
}

}  // namespace
}  // namespace penstock::rpc::gss
