// CCM contexts of an acceptor, over the toy mechanism.
#include "rpc/gss/test_acceptor.h"
#include "rpc/gss/test_conjunction.h"

namespace penstock::rpc::gss {
namespace {

using rpc::testing::Add;
using rpc::testing::Echo;
using rpc::testing::Null;
using rpc::testing::WhoAmI;
using testing::Claimed;
using testing::ConjunctionInitiator;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Octets;
using testing::OctetsOf;
using enum AuthStatus;

class ConjoinTest : public AcceptorTest {
 protected:
  ConjoinTest() {
    peer.local = {asio::ip::make_address("192.0.2.9"), 2049};
    protected_host = peer.address.address();
    Establish();
  }

  Claimed Claim(uint32_t number = 500) const {
    return {.cookie = alice.handle(),
            .number = number,
            .client = OctetsOf(peer.address.address()),
            .server = OctetsOf(peer.local.address())};
  }
  // A client with a CCM context over the context of alice, or without one if the acceptor refuses it.
  struct Conjoined {
    Conjoined(testing::InitiatorMechanism& inner, Claimed claimed, BufferPool& pool)
        : mechanism(inner, std::move(claimed)), client(mechanism, pool) {}
    ConjunctionInitiator mechanism;
    testing::Initiator client;
    uint32_t major = kFailure;
  };
  std::unique_ptr<Conjoined> Conjoin(const Claimed& claimed) {
    auto made = std::make_unique<Conjoined>(toy_alice, claimed, pool);
    const Message reply = Reply(made->client.Create(Xid(5), To(0)));
    const auto results = made->client.HandleCreated(reply);
    EXPECT_TRUE(results);
    if (results) made->major = results->gss_major;
    EXPECT_EQ(made->client.established(), made->major == kComplete);
    EXPECT_EQ(acceptor.contexts().begun(), 0u);
    return made;
  }
  std::unique_ptr<Conjoined> Conjoin() { return Conjoin(Claim()); }
  uint32_t MajorOf(const Claimed& claimed) { return Conjoin(claimed)->major; }
  W NullCall(testing::Initiator& client, uint32_t number) {
    return Words(client.Call(Xid(5), To(0), GssService::kNone, number, Message()));
  }
};

TEST_F(ConjoinTest, ExecutesCallsUnderEveryService) {
  const auto made = Conjoin();
  ASSERT_EQ(made->major, kComplete);
  for (const GssService service : kServices) {
    EXPECT_EQ(Results(made->client, service, Null::kNumber, {}), W{});
    EXPECT_EQ(Results(made->client, service, Echo::kNumber, {3, 0x61626300}), (W{3, 0x61626300}));
  }
}

TEST_F(ConjoinTest, TellsProgramsTheInitiatorOfTheInnerContext) {
  const auto made = Conjoin();
  EXPECT_EQ(Results(made->client, GssService::kNone, WhoAmI::kNumber, {}), W{1000});
  EXPECT_EQ(program.last.flavor, AuthFlavor::RPCSEC_GSS);
  EXPECT_EQ(program.last.mechanism, GssMechanism::kConjunction);
  EXPECT_EQ(program.last.gid, 100u);
  ASSERT_TRUE(program.last.initiator);
  EXPECT_EQ(program.last.initiator->name, "toy:alice");
  EXPECT_EQ(Results(GssService::kNone, WhoAmI::kNumber, {}), W{1000});
  EXPECT_EQ(program.last.mechanism, GssMechanism::kKerberos);
}

TEST_F(ConjoinTest, SealsNothing) {
  const auto made = Conjoin();
  EXPECT_THAT(NullCall(made->client, 1), ElementsAre(5, 1, 0, /* RPCSEC_GSS */ 6, 0, 0));
  EXPECT_EQ(program.last_reply_overhead, 0u);
}

TEST_F(ConjoinTest, ConfirmsTheNewHandleUnderTheInnerContext) {
  const auto made = Conjoin();
  EXPECT_TRUE(made->mechanism.IsConfirmed(made->client.handle()));
  EXPECT_FALSE(made->mechanism.IsConfirmed(alice.handle()));
  EXPECT_NE(made->client.handle(), alice.handle());
}

// ---- refusals ----

TEST_F(ConjoinTest, RefusesHostsOutsideOfTheProtectedNetworks) {
  protected_host = asio::ip::make_address("192.0.2.2");
  EXPECT_EQ(MajorOf(Claim()), kBadMechanism);
  protected_host.reset();
  EXPECT_EQ(MajorOf(Claim()), kBadMechanism);
  EXPECT_EQ(acceptor.contexts().established(), 1u);
}

TEST_F(ConjoinTest, RefusesMalformedTokens) {
  Claimed claimed = Claim();
  claimed.version = 2;
  EXPECT_EQ(MajorOf(claimed), kDefectiveToken);
}

TEST_F(ConjoinTest, RefusesUnknownCookies) {
  for (const Octets& cookie : {Octets(), Octets(16), Octets(15, alice.handle()[0]), Octets(400)}) {
    Claimed claimed = Claim();
    claimed.cookie = cookie;
    EXPECT_EQ(MajorOf(claimed), kNoContext);
  }
}

TEST_F(ConjoinTest, RefusesTheCookieOfAPendingContext) {
  mechanism.legs = 2;
  testing::ToyInitiator toy("bob");
  testing::Initiator bob(toy, pool);
  bob.HandleCreated(Reply(bob.Create(Xid(5), To(0))));
  Claimed claimed = Claim();
  claimed.cookie = bob.handle();
  ConjunctionInitiator ccm(toy, claimed);
  testing::Initiator client(ccm, pool);
  const Message reply = Reply(client.Create(Xid(5), To(0)));
  const auto results = client.HandleCreated(reply);
  ASSERT_TRUE(results);
  EXPECT_EQ(results->gss_major, kNoContext);
}

TEST_F(ConjoinTest, RefusesTheCookieOfACcmContext) {
  const auto made = Conjoin();
  Claimed claimed = Claim(501);
  claimed.cookie = made->client.handle();
  EXPECT_EQ(MajorOf(claimed), kDefectiveCredential);
}

TEST_F(ConjoinTest, RefusesAClaimOfOtherAddresses) {
  for (const auto part : {&Claimed::client, &Claimed::server}) {
    Claimed claimed = Claim();
    claimed.*part = OctetsOf(asio::ip::make_address("10.0.0.1"));
    EXPECT_EQ(MajorOf(claimed), kBadBindings);
  }
}

TEST_F(ConjoinTest, RefusesAClaimThatAnotherClientSigned) {
  testing::ToyInitiator mallet("mallet");
  ConjunctionInitiator ccm(mallet, Claim());
  testing::Initiator client(ccm, pool);
  const Message reply = Reply(client.Create(Xid(5), To(0)));
  const auto results = client.HandleCreated(reply);
  ASSERT_TRUE(results);
  EXPECT_EQ(results->gss_major, kBadMic);
  EXPECT_EQ(Conjoin()->major, kComplete) << "the forged claim did not use up its number";
}

TEST_F(ConjoinTest, RefusesAReplayedToken) {
  EXPECT_EQ(MajorOf(Claim(7)), kComplete);
  EXPECT_EQ(MajorOf(Claim(7)), kFailure | kDuplicateToken);
  EXPECT_EQ(MajorOf(Claim(8)), kComplete);
  EXPECT_EQ(MajorOf(Claim(7 + SequenceWindow::kSize)), kComplete);
  EXPECT_EQ(MajorOf(Claim(7)), kFailure | kDuplicateToken) << "below the window";
}

TEST_F(ConjoinTest, CallsAndClaimsShareTheNumbersOfTheInnerContext) {
  EXPECT_FALSE(NullCall(alice, 9).empty());
  EXPECT_EQ(MajorOf(Claim(9)), kFailure | kDuplicateToken);
  EXPECT_EQ(MajorOf(Claim(10)), kComplete);
  EXPECT_THAT(NullCall(alice, 10), IsEmpty());
}

TEST_F(ConjoinTest, RefusesNumbersFromTheMaximumOn) {
  EXPECT_EQ(MajorOf(Claim(rpcsecgss::MAXSEQ)), kContextExpired);
  EXPECT_EQ(MajorOf(Claim(rpcsecgss::MAXSEQ - 1)), kComplete);
}

TEST_F(ConjoinTest, FailsIfTheInnerContextCannotSign) {
  mechanism.mics_to_give = 0;
  EXPECT_EQ(MajorOf(Claim()), kFailure);
  EXPECT_EQ(acceptor.contexts().established(), 1u);
}

// ---- calls ----

TEST_F(ConjoinTest, ServesAllConnectionsOfTheTwoHosts) {
  const auto made = Conjoin();
  peer.address = {peer.address.address(), 701};
  EXPECT_EQ(Results(made->client, GssService::kNone, Null::kNumber, {}), W{});
}

TEST_F(ConjoinTest, RefusesCallsOverConnectionsOfOtherHosts) {
  const auto made = Conjoin();
  const SocketAddress address = peer.address;
  peer.address = {asio::ip::make_address("192.0.2.2"), 700};
  EXPECT_EQ(NullCall(made->client, 1), Denied(RPCSEC_GSS_CREDPROBLEM));
  peer.address = address;
  peer.local = {asio::ip::make_address("192.0.2.8"), 2049};
  EXPECT_EQ(NullCall(made->client, 1), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_FALSE(NullCall(alice, 1).size() == 5) << "the inner context serves every connection";
}

TEST_F(ConjoinTest, HasSequenceNumbersOfItsOwn) {
  const auto made = Conjoin();
  EXPECT_FALSE(NullCall(alice, 1).empty());
  EXPECT_FALSE(NullCall(made->client, 1).empty());
  EXPECT_THAT(NullCall(made->client, 1), IsEmpty());
}

TEST_F(ConjoinTest, RefusesChecksumsThatAreNotEmpty) {
  const auto made = Conjoin();
  const auto call = [&](GssService service, const testing::Spoil& spoil) {
    return Reply(made->client.Call(Xid(5), To(Add::kNumber), service, ++sequence, Encoded({5}), spoil));
  };
  EXPECT_EQ(WordsOf(call(GssService::kNone, {.verifier = true})), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(StatusOf(call(GssService::kIntegrity, {.seal = true})), AcceptStatus::GARBAGE_ARGS);
  EXPECT_EQ(StatusOf(call(GssService::kPrivacy, {.sequence_within = 999})), AcceptStatus::GARBAGE_ARGS);
  EXPECT_EQ(program.sum, 0u);
}

TEST_F(ConjoinTest, RecognizesARetransmissionOfACallUnderTheInnerContext) {
  EXPECT_EQ(Results(GssService::kPrivacy, Add::kNumber, {10}), W{10});
  const auto made = Conjoin();
  EXPECT_EQ(Results(made->client, GssService::kNone, Add::kNumber, {10}), W{10});
  EXPECT_EQ(program.sum, 10u);
}

// ---- the end of contexts ----

TEST_F(ConjoinTest, EndsWithItsInnerContext) {
  const auto made = Conjoin();
  EXPECT_EQ(acceptor.contexts().established(), 2u);
  EXPECT_FALSE(Reply(alice.Destroy(Xid(6), To(0), GssService::kNone, 3)).empty());
  EXPECT_EQ(NullCall(made->client, 1), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(acceptor.contexts().established(), 0u);
  EXPECT_EQ(MajorOf(Claim(501)), kNoContext);
}

TEST_F(ConjoinTest, DestroyingItKeepsTheInnerContext) {
  const auto made = Conjoin();
  EXPECT_FALSE(Reply(made->client.Destroy(Xid(6), To(0), GssService::kNone, 3)).empty());
  EXPECT_EQ(NullCall(made->client, 4), Denied(RPCSEC_GSS_CREDPROBLEM));
  EXPECT_EQ(Results(GssService::kPrivacy, Null::kNumber, {}), W{});
}

TEST_F(ConjoinTest, ExpiresWithTheInnerContext) {
  mechanism.lifetime = std::chrono::hours(10);
  testing::ToyInitiator toy("bob");
  testing::Initiator bob(toy, pool);
  Establish(bob);
  Claimed claimed = Claim();
  claimed.cookie = bob.handle();
  Conjoined made(toy, claimed, pool);
  clock.now += std::chrono::hours(9);
  Establish(made.client);
  EXPECT_FALSE(NullCall(made.client, 1).empty());
  clock.now += std::chrono::hours(1);
  EXPECT_EQ(NullCall(made.client, 2), Denied(RPCSEC_GSS_CTXPROBLEM));
  claimed.number = 501;
  Conjoined again(toy, claimed, pool);
  const Message reply = Reply(again.client.Create(Xid(5), To(0)));
  const auto results = again.client.HandleCreated(reply);
  ASSERT_TRUE(results);
  EXPECT_EQ(results->gss_major, kContextExpired);
}

}  // namespace
}  // namespace penstock::rpc::gss
