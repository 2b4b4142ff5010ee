#include "rpc/gss/secured_channel.h"

#include <memory>
#include <optional>
#include <vector>

#include "rpc/gss/test_secured_channel.h"

namespace penstock::rpc::gss {
namespace {

using rpc::testing::Add;
using rpc::testing::Echo;
using rpc::testing::Fail;
using rpc::testing::Null;
using rpc::testing::Read;
using rpc::testing::SlowAdd;
using rpc::testing::WhoAmI;
using ::testing::HasSubstr;
using enum AuthStatus;

TEST_F(SecuredChannelTest, ExecutesCallsUnderEveryService) {
  for (const GssService service : kServices) {
    EXPECT_EQ(Asked(service), 1000u);
    EXPECT_EQ(program.last.service, service);
    const auto echoed = Call<Echo>("abcde", service);
    ASSERT_TRUE(echoed);
    EXPECT_EQ(std::string_view(echoed->results), "abcde");
  }
  EXPECT_EQ(context->made(), 1u);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_INIT), 1u);
}

TEST_F(SecuredChannelTest, MakesAContextWithSeveralTokens) {
  initiator.legs = mechanism.legs = 3;
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_INIT), 1u);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_CONTINUE_INIT), 2u);
}

// A server that remembers calls would take one for a repetition of the other.
TEST_F(SecuredChannelTest, CallsThatMakeTheContextHaveXidsOfTheirOwn) {
  EXPECT_EQ(Asked(), 1000u);
  const Xid asked(next_xid.value() - 10);
  EXPECT_NE(wire.xid(0), asked);
  EXPECT_EQ(wire.xid(1), asked);
  // The RPC-over-RDMA transport gives its probe the XID that is farthest from the last call.
  EXPECT_NE(wire.xid(0), Xid(asked.value() + (1U << 31)));
}

TEST_F(SecuredChannelTest, PassesCallsWithOtherCredentialsOn) {
  Client client(*channel, pool, Xid(1), ClientCredential({.machine = "m", .uid = 7, .gid = 8, .groups = {}}));
  std::optional<uint32_t> uid;
  Spawn([](Client& c, std::optional<uint32_t>& out) -> Task<void> {
    const auto reply = co_await c.Call<WhoAmI>({});
    if (reply) out = reply->results;
  }(client, uid));
  EXPECT_EQ(uid, 7u);
  EXPECT_FALSE(context->current());
}

TEST_F(SecuredChannelTest, HidesArgumentsAndResultsUnderPrivacy) {
  const std::string secret = "a name that nobody may see";
  std::vector<Message> replies;
  wire.alter = [&](Message reply, size_t) {
    replies.push_back(reply);
    return reply;
  };
  const auto echoed = Call<Echo>(secret, GssService::kPrivacy);
  ASSERT_TRUE(echoed);
  EXPECT_EQ(std::string_view(echoed->results), secret);
  for (const auto& messages : {wire.calls, replies}) {
    for (const Message& message : messages) {
      EXPECT_EQ(AsText(message.stream.bytes()).find("nobody"), std::string_view::npos);
    }
  }
}

// RFC 8166 §8.2.2.3
TEST_F(SecuredChannelTest, PlacesResultsOnlyWithoutASeal) {
  const std::string octets(5000, 'x');
  program.data = Data(Slice::Borrowed(AsBytes(octets)));
  for (const GssService service : kServices) {
    const auto read = Call<Read>(5000, service, {.open = 0, .results = {{.max_length = 5000, .destination = {}}}});
    ASSERT_TRUE(read);
    EXPECT_EQ(AsText(read->results.data().bytes()), octets);
    EXPECT_EQ(wire.shapes.back().results.size(), service == GssService::kNone ? 1u : 0u);
  }
}

TEST_F(SecuredChannelTest, SharesOneContextAmongConnections) {
  EXPECT_EQ(Asked(), 1000u);
  channel = NewChannel();
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_EQ(context->made(), 1u);
}

TEST_F(SecuredChannelTest, MakesAnotherContextIfTheServerHasForgottenIt) {
  for (const AuthStatus why : {RPCSEC_GSS_CREDPROBLEM, RPCSEC_GSS_CTXPROBLEM}) {
    EXPECT_EQ(Asked(), 1000u);
    const uint64_t made = context->made();
    bool denied = false;
    wire.alter = [&](Message reply, size_t) { return std::exchange(denied, true) ? reply : Denial(reply, why); };
    const auto added = Call<Add>(1);
    EXPECT_TRUE(added);
    EXPECT_EQ(context->made(), made + 1);
    wire.alter = nullptr;
  }
  // A forgotten context is not given back.
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_DESTROY), 0u);
}

TEST_F(SecuredChannelTest, BelievesADenialAfterThreeContexts) {
  wire.alter = [&](Message reply, size_t number) {
    return wire.gss_procedure(number) == 0 ? Denial(reply, RPCSEC_GSS_CREDPROBLEM) : reply;
  };
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().kind, Error::Kind::kAuthentication);
  EXPECT_EQ(context->made(), 3u);
}

// RFC 2203 §5.3.3.3
TEST_F(SecuredChannelTest, KeepsTheContextAfterOtherDenials) {
  wire.alter = [&](Message reply, size_t number) {
    return wire.gss_procedure(number) == 0 ? Denial(reply, AUTH_TOOWEAK) : reply;
  };
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().auth, AUTH_TOOWEAK);
  EXPECT_EQ(context->made(), 1u);
}

TEST_F(SecuredChannelTest, RejectsRepliesThatAreNotAuthentic) {
  EXPECT_EQ(Asked(), 1000u);
  // The last octet of the results' seal, and the verifier: words 3 to 9.
  for (const GssService service : {GssService::kIntegrity, GssService::kPrivacy}) {
    wire.alter = [&](const Message& reply, size_t) { return Changed(reply, 4); };
    const auto asked = Asked(service);
    ASSERT_FALSE(asked);
    EXPECT_TRUE(IsTransport(asked.error(), CallError::kNotAuthentic));
  }
  for (const GssService service : kServices) {
    wire.alter = [&](const Message& reply, size_t) { return Changed(reply, reply.stream.size() - 21); };
    const auto asked = Asked(service);
    ASSERT_FALSE(asked);
    EXPECT_TRUE(IsTransport(asked.error(), CallError::kNotAuthentic));
  }
}

TEST_F(SecuredChannelTest, RejectsAnAcceptedReplyWithoutAVerifier) {
  EXPECT_EQ(Asked(), 1000u);
  wire.alter = [&](const Message& reply, size_t) {
    xdr::Encoder forged(pool);
    EncodeAccepted(forged, Xid(LoadBig<uint32_t>(reply.stream.data())), AcceptStatus::SUCCESS);
    forged.U32(0);
    return forged.Finish();
  };
  for (const GssService service : kServices) {
    const auto asked = Asked(service);
    ASSERT_FALSE(asked);
    EXPECT_TRUE(IsTransport(asked.error(), CallError::kNotAuthentic));
  }
}

TEST_F(SecuredChannelTest, RejectsTheReplyToAnotherCall) {
  std::optional<Message> first;
  wire.alter = [&](Message reply, size_t number) {
    if (wire.gss_procedure(number) != 0) return reply;
    if (!first) {
      first = reply;
      return reply;
    }
    // With the XID of the call.
    const BufferRef buffer = pool.Allocate(first->stream.size());
    CopyBytes(buffer->bytes(), first->stream.bytes());
    CopyBytes(buffer->bytes(), reply.stream.bytes().first(4));
    return Message::Whole(Slice(buffer, buffer->bytes().first(first->stream.size())));
  };
  EXPECT_EQ(Asked(), 1000u);
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_TRUE(IsTransport(asked.error(), CallError::kNotAuthentic));
}

TEST_F(SecuredChannelTest, RejectsAServerThatDoesNotProveTheWindow) {
  wire.alter = [&](const Message& reply, size_t) { return Changed(reply, reply.stream.size() - 21); };
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_TRUE(IsTransport(asked.error(), CallError::kNoContext));
  EXPECT_THAT(context->trouble(), HasSubstr("not authentic"));
}

TEST_F(SecuredChannelTest, TellsWhyTheServerRefusesTheToken) {
  const auto mallory = std::make_shared<testing::ToyInitiatingMechanism>("mallory");
  context = std::make_shared<ClientContext>(
      ClientContext::Parts{.mechanism = mallory, .timers = client_clock, .place = {.buffers = pool}});
  channel = NewChannel();
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_TRUE(IsTransport(asked.error(), CallError::kNoContext));
  EXPECT_EQ(context->trouble(), "toy@server refuses mallory: it does not like the token");
}

TEST_F(SecuredChannelTest, TellsThatTheServerDoesNotOfferTheFlavor) {
  wire.alter = [&](const Message& reply, size_t) { return Denial(reply, AUTH_REJECTEDCRED); };
  ASSERT_FALSE(Asked());
  EXPECT_THAT(context->trouble(), HasSubstr("does not offer RPCSEC_GSS"));
  EXPECT_THAT(context->trouble(), HasSubstr("AUTH_REJECTEDCRED"));
}

TEST_F(SecuredChannelTest, ReportsALostConnectionWhileItMakesAContext) {
  wire.failures = {CallError::kDisconnected};
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_TRUE(IsTransport(asked.error(), CallError::kDisconnected));
  EXPECT_EQ(Asked(), 1000u);
}

TEST_F(SecuredChannelTest, TakesANewSequenceNumberForARepeatedCall) {
  EXPECT_EQ(Asked(), 1000u);
  wire.failures.assign(wire.calls.size() + 1, CallError::kDisconnected);
  EXPECT_FALSE(Call<Add>(1));
  EXPECT_TRUE(Call<Add>(1));
  const auto number = [&](size_t n) { return LoadBig<uint32_t>(wire.calls.at(n).stream.data() + 40); };
  EXPECT_LT(number(wire.calls.size() - 2), number(wire.calls.size() - 1));
}

TEST_F(SecuredChannelTest, RenewsTheContextBeforeItsEndAndGivesTheOldOneBack) {
  initiator.lifetime = mechanism.lifetime = 1h;
  EXPECT_EQ(Asked(), 1000u);
  Advance(54min);
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_EQ(context->made(), 1u);
  Advance(2min);
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_EQ(context->made(), 2u);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_DESTROY), 1u);
  EXPECT_EQ(acceptor.contexts().established(), 1u);
}

TEST_F(SecuredChannelTest, UsesTheContextToItsEndIfItCannotBeRenewed) {
  initiator.lifetime = mechanism.lifetime = 1h;
  EXPECT_EQ(Asked(), 1000u);
  Advance(56min);
  const Failure expired{.text = "the ticket has expired"};
  initiator.failures.assign(3, expired);
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_EQ(initiator.begun, 2) << "every call tries to renew the context";
  Advance(5min);
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_TRUE(IsTransport(asked.error(), CallError::kNoContext));
  EXPECT_EQ(context->trouble(), "the ticket has expired");
  // The user gets another ticket.
  initiator.failures.clear();
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_EQ(context->trouble(), "");
}

TEST_F(SecuredChannelTest, RefusesATicketThatEndsNow) {
  initiator.lifetime = 0s;
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_TRUE(IsTransport(asked.error(), CallError::kNoContext));
  EXPECT_EQ(initiator.begun, 1);
  EXPECT_THAT(context->trouble(), HasSubstr("the ticket ends now"));
}

// The files that are open belong to the first user.
TEST_F(SecuredChannelTest, RefusesTheTicketsOfAnotherUser) {
  EXPECT_EQ(Asked(), 1000u);
  wire.alter = [&](Message reply, size_t number) {
    return wire.gss_procedure(number) == 0 ? Denial(reply, RPCSEC_GSS_CREDPROBLEM) : reply;
  };
  initiator.other_user = "bob";
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_TRUE(IsTransport(asked.error(), CallError::kNoContext));
  EXPECT_THAT(context->trouble(), HasSubstr("the tickets are of bob, and the mount is of alice"));
}

TEST_F(SecuredChannelTest, GivesEveryOldContextBack) {
  initiator.lifetime = mechanism.lifetime = 1h;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Asked(), 1000u);
    Advance(56min);
  }
  EXPECT_EQ(context->made(), 4u);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_DESTROY), 3u);
}

TEST_F(SecuredChannelTest, RejectsAnAnswerToATokenThatIsTooLong) {
  wire.alter = [&](const Message& reply, size_t) {
    const BufferRef buffer = pool.Allocate(20'000);
    std::ranges::fill(buffer->bytes(), std::byte{0});
    CopyBytes(buffer->bytes(), reply.stream.bytes());
    return Message::Whole(Slice(buffer, buffer->bytes().first(20'000)));
  };
  EXPECT_FALSE(Asked());
  EXPECT_THAT(context->trouble(), HasSubstr("malformed"));
}

TEST_F(SecuredChannelTest, WaitsForAServiceThatDoesNotAnswer) {
  const Failure silent{.text = "no KDC answers", .may_pass = true};
  initiator.failures = {silent};
  EXPECT_FALSE(Asked()) << "the first context is not waited for";
  initiator.lifetime = mechanism.lifetime = 1h;
  EXPECT_EQ(Asked(), 1000u);
  Advance(2h);
  initiator.failures = {silent, silent, silent};
  EXPECT_EQ(Asked(), 1000u);
  Advance(2h);
  initiator.failures.assign(100, silent);
  EXPECT_FALSE(Asked()) << "it waits for ever";
}

TEST_F(SecuredChannelTest, MakesAnotherContextIfTheMechanismRefusesToSign) {
  EXPECT_EQ(Asked(), 1000u);
  initiator.mics_to_give = 0;
  const auto asked = Asked();
  ASSERT_FALSE(asked);
  EXPECT_TRUE(IsTransport(asked.error(), CallError::kNoContext));
  initiator.mics_to_give = 1000;
  EXPECT_EQ(Asked(), 1000u);
}

TEST_F(SecuredChannelTest, GivesTheContextBackAtTheEnd) {
  EXPECT_EQ(Asked(), 1000u);
  Client client(*channel, pool, Xid(1), ClientCredential::EndOfContext());
  int ends = 0;
  for (int i = 0; i < 2; ++i) {
    Spawn([](Client& c, int& out) -> Task<void> {
      const auto reply = co_await c.Call<Null>({});
      if (reply) ++out;
    }(client, ends));
  }
  EXPECT_EQ(ends, 2);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_DESTROY), 1u);
  EXPECT_EQ(acceptor.contexts().established(), 0u);
}

// Calls at the same time.
class ConcurrentCallsTest : public SecuredChannelTest {
 protected:
  void Start(Channel& over) {
    auto client = std::make_shared<Client>(over, pool, next_xid, ClientCredential(GssService::kIntegrity));
    next_xid = Xid(next_xid.value() + 10);
    Spawn([](std::shared_ptr<Client> c, size_t& out) -> Task<void> {
      const auto reply = co_await c->Call<SlowAdd>(1);
      if (reply) ++out;
    }(std::move(client), ended));
  }
  size_t ended = 0;
};

TEST_F(ConcurrentCallsTest, WaitForTheSameContext) {
  const auto second = NewChannel();
  for (int i = 0; i < 3; ++i) Start(i == 1 ? *second : *channel);
  program.Release();
  EXPECT_EQ(ended, 3u);
  EXPECT_EQ(context->made(), 1u);
}

TEST_F(ConcurrentCallsTest, GiveTheContextBackWithTheLastOne) {
  initiator.lifetime = mechanism.lifetime = 1h;
  Start(*channel);
  Start(*channel);
  Advance(56min);
  EXPECT_EQ(Asked(), 1000u);
  EXPECT_EQ(context->made(), 2u);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_DESTROY), 0u) << "given back while calls are under way";
  program.Release();
  EXPECT_EQ(ended, 2u);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_DESTROY), 1u);
  EXPECT_EQ(acceptor.contexts().established(), 1u);
}

// RFC 2203 §5.2.3.1
TEST_F(ConcurrentCallsTest, AreNoMoreThanTheWindow) {
  const testing::ToySeal seal("alice");
  wire.alter = [&](Message reply, size_t number) {
    if (wire.gss_procedure(number) != static_cast<uint32_t>(rpcsecgss::RPCSEC_GSS_INIT)) return reply;
    xdr::Decoder decoder(reply);
    ReplyHeader header;
    rpcsecgss::rpc_gss_init_res results;
    EXPECT_TRUE(DecodeReplyHeader(decoder, header) && xdr::Decode(decoder, results));
    results.seq_window = 2;
    const testing::Octets mic = seal.Sum(AsBytes(std::string_view("\0\0\0\2", 4)));
    xdr::Encoder encoder(pool);
    EncodeAccepted(encoder, header.xid, AcceptStatus::SUCCESS,
                   {.flavor = AuthFlavor::RPCSEC_GSS, .body = ConstBytes(mic)});
    xdr::Encode(encoder, results);
    return encoder.Finish();
  };
  for (int i = 0; i < 5; ++i) Start(*channel);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_DATA), 2u);
  program.Release();
  EXPECT_EQ(ended, 2u);
  EXPECT_EQ(wire.Count(rpcsecgss::RPCSEC_GSS_DATA), 4u);
  program.Release();
  program.Release();
  EXPECT_EQ(ended, 5u);
}

}  // namespace
}  // namespace penstock::rpc::gss
