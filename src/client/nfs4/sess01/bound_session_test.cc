#include "client/nfs4/sess01/bound_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <optional>
#include <tuple>
#include <vector>

#include "base/test_loop.h"
#include "client/nfs4/sess01/fake_bound_server.h"

namespace penstock::client::v4::sess01 {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Fault = FakeBoundServer::Fault;

class BoundSessionTest : public testing::Test, protected CallbackReceiver {
 protected:
  ~BoundSessionTest() override {
    if (bound && established) Run(bound->Close());
    TurnFor(loop, 1ms);
    bound.reset();
    channel.reset();
    TurnFor(loop, 1ms);
  }

  void Make() {
    channel.emplace(
        loop, [this](Duration limit) { return bound->first().Open(limit); },
        RetryPolicy{.first_delay = 1ms, .longest_delay = 5ms, .give_up_after = 20s});
    client.emplace(*channel, loop.buffers(), rpc::Xid(1));
    const BoundSession::Parts parts{.timers = loop,
                                    .buffers = loop.buffers(),
                                    .credential = {},
                                    .connector = server,
                                    .state = *this,
                                    .retry = {.first_delay = 1ms, .longest_delay = 5ms, .give_up_after = 20s},
                                    .channel = *channel,
                                    .client = *client,
                                    .first_xid = rpc::Xid(1)};
    CallerOptions caller_options{.dialect = &kSessionsOf2004, .owner = "client", .give_up_after = give_up_after};
    caller_options.max_message = 1 << 20;
    bound.emplace(parts, std::move(caller_options), options);
    bound->set_reclaim([this]() -> Task<> {
      ++reclaims;
      co_return;
    });
  }
  Result<void> TryToEstablish() {
    Make();
    std::optional<Result<void>> result;
    Spawn([](BoundSession& s, auto& out) -> Task<> { out = co_await s.Establish("server"); }(*bound, result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    established = result->has_value();
    return *std::move(result);
  }
  void Establish() {
    const Result<void> result = TryToEstablish();
    ASSERT_TRUE(result) << result.error().message;
  }
  void Run(Task<void> task) {
    bool done = false;
    Spawn([](Task<void> inner, bool& flag) -> Task<> {
      co_await std::move(inner);
      flag = true;
    }(std::move(task), done));
    EXPECT_TRUE(TurnUntil(loop, [&] { return done; }));
  }
  using Outcome = std::optional<Result<void>>;
  template <class... Operations>
  void Start(std::tuple<Operations...> operations, Outcome& out) {
    Spawn([](BoundSession& s, std::tuple<Operations...> all, Outcome& result) -> Task<> {
      auto reply = co_await s.Call([&all] { return all; }, "name");
      if (reply) {
        result = Result<void>();
      } else {
        result = std::unexpected(reply.error());
      }
    }(*bound, std::move(operations), out));
  }
  template <class... Operations>
  Result<void> Do(std::tuple<Operations...> operations) {
    Outcome out;
    Start(std::move(operations), out);
    EXPECT_TRUE(TurnUntil(loop, [&] { return out.has_value(); }));
    return *std::move(out);
  }
  Result<void> Remove() { return Do(std::tuple(nfs4::REMOVE4args{"name"})); }
  Result<void> Lookup() { return Do(std::tuple(nfs4::LOOKUP4args{nfs4::component4("name")})); }
  // A COMPOUND that the server's sizes split, if `size` is small.
  Result<void> RemoveLongNames(size_t count_of_lookups = 3) {
    const std::string name(200, 'n');
    const nfs4::LOOKUP4args look{nfs4::component4(name)};
    const nfs4::REMOVE4args remove{name};
    return count_of_lookups == 3 ? Do(std::tuple(look, look, look, remove)) : Do(std::tuple(remove, look, look, look));
  }
  void StartRemoves(size_t count) {
    outcomes = std::vector<Outcome>(count);
    for (Outcome& outcome : outcomes) Start(std::tuple(nfs4::REMOVE4args{"name"}), outcome);
  }
  void ExpectAllToSucceed() {
    ASSERT_TRUE(TurnUntil(
        loop, [&] { return std::ranges::all_of(outcomes, [](const Outcome& each) { return each.has_value(); }); }));
    for (const Outcome& each : outcomes) EXPECT_TRUE(*each) << each->error().message;
  }
  std::shared_ptr<rpc::Message> RecallCredits(uint32_t target) {
    xdr::Encoder encoder(loop.buffers());
    rpc::EncodeCallHeader(encoder,
                          {rpc::Xid(++callback_xid), nfs4::NFS4_CALLBACK, 1, nfs4::CB_COMPOUND::kNumber, {}, {}});
    xdr::Encode(encoder, nfs4::CB_COMPOUND4args_head{"", 1, 0, 2});
    xdr::Encode(encoder, nfs4::nfs_cb_opnum4::OP_CB_OPERATION_CONTROL);
    xdr::Encode(encoder, nfs4::OPERATIONCONTROL4args{*server.back_channel(), 0, nfs4::ChainFlags::NOCHAIN});
    xdr::Encode(encoder, nfs4::nfs_cb_opnum4::OP_CB_CREDITRECALL);
    xdr::Encode(encoder, nfs4::CB_CREDITRECALLargs{target});
    return server.CallBack(encoder.Finish());
  }
  static nfsstat4 StatusOf(const rpc::Message& reply) {
    xdr::Decoder decoder(reply);
    rpc::ReplyHeader header;
    nfs4::CB_COMPOUND4res_head head;
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header) && xdr::Decode(decoder, head));
    return head.status;
  }

  // CallbackReceiver
  nfs4::sessionid4 session() const override { return {}; }
  bool IsUnderWay(SlotUse) const override { return false; }
  void HandleSlotTarget(uint32_t) override {}
  nfsstat4 HandleRecall(const nfs4::CB_RECALL4args&) override { return nfsstat4::NFS4_OK; }
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args&) override {}
  DelegationTable::Pointer DelegationOf(const Handle&) override { return nullptr; }
  void HandleLockAvailable(const Handle&) override {}

  Loop loop;
  FakeBoundServer server{loop};
  BoundSessionOptions options{.back = BackChannelPlace::kOff};
  Duration give_up_after = kTestPatience / 2;
  std::optional<ReconnectingChannel> channel;
  std::optional<rpc::Client> client;
  std::optional<BoundSession> bound;
  std::vector<Outcome> outcomes;
  bool established = false;
  int reclaims = 0;
  uint32_t callback_xid = 0;
};

// ---- set-up ----

TEST_F(BoundSessionTest, CreatesTheSessionThenBindsAndDestroysIt) {
  Establish();
  EXPECT_TRUE(Remove());
  Run(bound->Close());
  established = false;
  EXPECT_THAT(server.events, ElementsAre("create", "bind operations", "destroy"));
}

// §2.6
TEST_F(BoundSessionTest, BindsTheFirstBackChannelBeforeTheFirstOperationsChannel) {
  options = {.channels = 2, .back = BackChannelPlace::kOwn};
  Establish();
  EXPECT_THAT(server.events, ElementsAre("create", "bind back", "bind operations", "bind operations"));
  EXPECT_EQ(server.open(), 3u);
}

TEST_F(BoundSessionTest, ASharedBackChannelHasTheFirstConnection) {
  options = {.channels = 2, .back = BackChannelPlace::kShared};
  Establish();
  EXPECT_THAT(server.events, ElementsAre("create", "bind back", "bind operations", "bind operations"));
  EXPECT_EQ(server.open(), 2u);
}

TEST_F(BoundSessionTest, WaitsWhileTheServerIsBusy) {
  server.create_errors = {nfsstat4::NFS4ERR_DELAY};
  server.bind_errors = {nfsstat4::NFS4ERR_DELAY};
  Establish();
  EXPECT_THAT(server.events, ElementsAre("create", "create", "bind operations", "bind operations"));
}

TEST_F(BoundSessionTest, ReportsARefusal) {
  server.create_errors = {nfsstat4::NFS4ERR_CLID_INUSE};
  EXPECT_THAT(TryToEstablish().error().message, HasSubstr("a client with the same name"));
}

TEST_F(BoundSessionTest, BindsAChannelThatTheServerRefusesOnceOverANewConnection) {
  options.channels = 2;
  server.bind_errors = {nfsstat4::NFS4_OK, nfsstat4::NFS4ERR_SESS01_BADBIND};
  EXPECT_TRUE(TryToEstablish());
  EXPECT_THAT(server.events, ElementsAre("create", "bind operations", "bind operations", "bind operations"));
}

TEST_F(BoundSessionTest, SaysThatTheServerDoesNotKnowTheDraft) {
  server.is_unknown = true;
  const Result<void> result = TryToEstablish();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "server: the server does not offer the sessions of 2004");
  EXPECT_EQ(result.error().status, Status::kVersionMismatch);
}

TEST_F(BoundSessionTest, RefusesLimitsWithWhichNoClientCanWork) {
  using Granted = nfs4::SESSIONBIND4resok;
  const std::vector<std::pair<std::function<void(Granted&)>, std::string>> cases{
      {[](Granted& given) { given.maxrequests = 0; }, "no requests"},
      {[](Granted& given) { given.maxrequestsize = 100; }, "only 100 octets"},
      {[](Granted& given) { given.maxresponsesize = 3; }, "only 3 octets"},
      {[](Granted& given) { given.headerpadsize = 64; }, "padding"},
      {[](Granted& given) { given.transportattrs = AsBytes(std::string_view("\0\0\0\x09", 4)); }, "malformed"},
      {[](Granted& given) { given.transportattrs = AsBytes(std::string_view("\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\1", 16)); },
       "RDMA mode"},
      {[](Granted& given) { given.transportattrs = AsBytes(std::string_view("\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\7", 16)); },
       "no known mode"}};
  for (const auto& [grant, text] : cases) {
    server.grant = grant;
    const Result<void> result = TryToEstablish();
    ASSERT_FALSE(result) << text;
    EXPECT_THAT(result.error().message, HasSubstr(text));
    TurnFor(loop, 1ms);
    bound.reset();
    channel.reset();
    TurnFor(loop, 1ms);
  }
}

// §2.2.4: a size of zero means no limit.
TEST_F(BoundSessionTest, ASizeOfZeroKeepsTheSizeThatWasAskedFor) {
  server.grant = [](nfs4::SESSIONBIND4resok& given) { given.maxrequestsize = given.maxresponsesize = 0; };
  Establish();
  EXPECT_EQ(bound->max_request(), 1u << 20);
  EXPECT_EQ(bound->max_response(), 1u << 20);
}

// ---- requests ----

TEST_F(BoundSessionTest, KeepsToTheRequestsOfTheSessionAndTheCreditsOfItsChannels) {
  options.channels = 3;
  server.latency = 2ms;
  Establish();
  StartRemoves(60);
  ExpectAllToSucceed();
  EXPECT_EQ(server.removes, 60);
  EXPECT_EQ(server.most_streams, 8u);
  for (uint32_t stream : server.streams_seen) EXPECT_LT(stream, 8u);
  for (const auto& [number, most] : server.most_on_channel) {
    EXPECT_LE(most, 4u) << "channel " << number;
    EXPECT_GE(most, 1u) << "channel " << number;
  }
}

TEST_F(BoundSessionTest, RefusesAReplyForAnotherStreamid) {
  Establish();
  server.wrong_streamid = 1;
  EXPECT_THAT(Remove().error().message, HasSubstr("malformed"));
  server.wrong_streamid = 0;
}

TEST_F(BoundSessionTest, AnEmptyRequestRenewsTheLease) {
  Establish();
  bound->set_lease_time(2s);
  const int before = server.controls;
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.controls > before; }));
  EXPECT_TRUE(bound->holds_lease());
}

// ---- lost connections ----

TEST_F(BoundSessionTest, SendsARequestWithoutReplyAgainOverANewConnection) {
  Establish();
  EXPECT_EQ(bound->reconnections(), 0u);
  server.faults = {Fault::kReplyLost};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1) << "the server has recognized the retry";
  EXPECT_EQ(server.replays, 1);
  server.faults = {Fault::kCallLost};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 2);
  EXPECT_THAT(server.events, ElementsAre("create", "bind operations", "bind operations", "bind operations"));
  EXPECT_EQ(bound->reconnections(), 2u);
}

TEST_F(BoundSessionTest, BindsALostBackChannelAgainAtOnce) {
  options.back = BackChannelPlace::kOwn;
  Establish();
  const auto before = server.back_channel();
  server.LoseConnections();
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.back_channel() > before; }));
}

TEST_F(BoundSessionTest, ASharedBackChannelThatTheServerStillBelievesInIsBoundLater) {
  options.back = BackChannelPlace::kShared;
  Establish();
  server.bind_errors = {nfsstat4::NFS4ERR_SESS01_BADBIND};
  server.LoseConnections();
  EXPECT_TRUE(Remove());
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.back_channel().has_value(); }));
}

TEST_F(BoundSessionTest, OffersTheSameSizesAgainAndRefusesSmallerOnes) {
  Establish();
  server.size = 4096;
  server.LoseConnections();
  Outcome outcome;
  Start(std::tuple(nfs4::REMOVE4args{"name"}), outcome);
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.binds.size() >= 4; }));
  EXPECT_FALSE(outcome);
  EXPECT_THAT(bound->trouble(), HasSubstr("smaller messages"));
  server.size = 1 << 20;
  EXPECT_TRUE(TurnUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_TRUE(*outcome);
  for (const auto& each : server.binds) EXPECT_EQ(each.maxrequestsize, 1u << 20);
}

// ---- lost sessions ----

TEST_F(BoundSessionTest, MakesANewSessionIfTheServerHasForgottenIt) {
  options = {.channels = 2, .back = BackChannelPlace::kOwn};
  Establish();
  const uint64_t epoch = bound->epoch();
  for (const bool closes : {true, false}) {
    server.events.clear();
    server.LoseSession(closes);
    EXPECT_TRUE(Remove());
    EXPECT_EQ(std::ranges::count(server.events, "create"), 1);
    EXPECT_EQ(server.open(), 3u);
  }
  EXPECT_EQ(server.removes, 2);
  EXPECT_GT(bound->epoch(), epoch);
  EXPECT_EQ(reclaims, 3);
}

TEST_F(BoundSessionTest, ManyRequestsSurviveTheLossOfTheSession) {
  options.channels = 3;
  server.latency = 1ms;
  Establish();
  StartRemoves(40);
  TurnFor(loop, 1ms);
  server.LoseSession(true);
  ASSERT_TRUE(TurnUntil(
      loop, [&] { return std::ranges::all_of(outcomes, [](const Outcome& each) { return each.has_value(); }); }));
  // The requests that were under way may have been executed. The other ones are executed once.
  const auto succeeded = std::ranges::count_if(outcomes, [](const Outcome& each) { return each->has_value(); });
  EXPECT_GE(succeeded, 40 - 8);
  EXPECT_GE(server.removes, succeeded);
  EXPECT_LE(server.removes, 40);
}

TEST_F(BoundSessionTest, ReclaimsInTheSameSessionIfTheServerHasRestarted) {
  Establish();
  server.instance = 2;
  server.LoseConnections();
  EXPECT_TRUE(TurnUntil(loop, [&] { return reclaims == 2; }));
  EXPECT_TRUE(Remove());
  EXPECT_EQ(std::ranges::count(server.events, "create"), 1);
}

// ---- errors of OPERATION_CONTROL ----

TEST_F(BoundSessionTest, ReportsARequestWhoseFateIsUnknown) {
  Establish();
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE};
  EXPECT_THAT(Remove().error().message, HasSubstr("cannot tell whether it has executed it"));
  server.faults = {Fault::kCallLost};
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_STREAM_INUSE};
  EXPECT_THAT(Remove().error().message, HasSubstr("cannot tell whether it has executed the request"));
  EXPECT_EQ(server.removes, 0);
  EXPECT_TRUE(Remove());
}

TEST_F(BoundSessionTest, RepeatsAHarmlessRequestWhoseFateIsUnknown) {
  Establish();
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_UNKNOWN_FATE};
  EXPECT_TRUE(Lookup());
  EXPECT_EQ(server.lookups, 1);
}

TEST_F(BoundSessionTest, UsesAnotherStreamidIfAnotherRequestHasIt) {
  Establish();
  server.streams_seen.clear();
  server.control_errors = {nfsstat4::NFS4ERR_SESS01_STREAM_INUSE};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
  EXPECT_EQ(server.streams_seen, (std::set<uint32_t>{0, 1}));
}

TEST_F(BoundSessionTest, TriesAgainAfterADelay) {
  Establish();
  server.control_errors = {nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_DELAY};
  EXPECT_TRUE(Remove());
  EXPECT_EQ(server.removes, 1);
}

// ---- chains ----

class BoundChainTest : public BoundSessionTest {
 protected:
  BoundChainTest() { server.size = 900; }
};

TEST_F(BoundChainTest, SplitsALargeCompound) {
  Establish();
  server.flags.clear();
  EXPECT_TRUE(RemoveLongNames());
  EXPECT_EQ(server.lookups, 3);
  EXPECT_EQ(server.removes, 1);
  using enum nfs4::ChainFlags;
  ASSERT_GE(server.flags.size(), 2u);
  EXPECT_EQ(server.flags.front(), CHAINBEGIN);
  EXPECT_EQ(server.flags.back(), CHAINEND);
  EXPECT_TRUE(Lookup());
  EXPECT_EQ(server.flags.back(), NOCHAIN);
}

TEST_F(BoundChainTest, SendsALargeCompoundWholeIfItMayNotChain) {
  options.chain = false;
  Establish();
  EXPECT_TRUE(RemoveLongNames());
  EXPECT_EQ(std::ranges::count(server.flags, nfs4::ChainFlags::NOCHAIN), std::ssize(server.flags));
}

TEST_F(BoundChainTest, ManyChainsAndOtherRequestsGetTheirTurns) {
  options.channels = 2;
  server.total_requests = 3;
  server.latency = 1ms;
  Establish();
  const std::string name(200, 'n');
  const nfs4::LOOKUP4args look{nfs4::component4(name)};
  outcomes = std::vector<Outcome>(30);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (i % 2 == 0) {
      Start(std::tuple(look, look, look, look), outcomes[i]);
    } else {
      Start(std::tuple(nfs4::REMOVE4args{"name"}), outcomes[i]);
    }
  }
  ExpectAllToSucceed();
  EXPECT_EQ(server.lookups, 60);
  EXPECT_EQ(server.removes, 15);
}

TEST_F(BoundChainTest, RepeatsABrokenChainThatHasChangedNothing) {
  Establish();
  server.breaks_chains = true;
  Outcome outcome;
  const std::string name(200, 'n');
  const nfs4::LOOKUP4args look{nfs4::component4(name)};
  Start(std::tuple(look, look, look, nfs4::REMOVE4args{name}), outcome);
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.lookups > 0; }));
  server.breaks_chains = false;
  EXPECT_TRUE(TurnUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_TRUE(*outcome);
  EXPECT_EQ(server.removes, 1);
}

TEST_F(BoundChainTest, ReportsABrokenChainThatHasChangedSomething) {
  Establish();
  server.breaks_chains = true;
  EXPECT_THAT(RemoveLongNames(0).error().message, HasSubstr("in the middle of a chain"));
  EXPECT_EQ(server.removes, 1);
  server.breaks_chains = false;
}

TEST_F(BoundChainTest, ALostConnectionInTheMiddleOfAChain) {
  for (const Fault fault : {Fault::kCallLost, Fault::kReplyLost}) {
    SCOPED_TRACE(static_cast<int>(fault));
    if (!bound) Establish();
    server.removes = 0;
    server.faults = {Fault::kNone, fault};
    const Result<void> result = RemoveLongNames();
    // The last request has the REMOVE. If it was executed, its reply comes with the retry.
    EXPECT_TRUE(result) << result.error().message;
    EXPECT_EQ(server.removes, 1);
  }
}

// ---- CB_CREDITRECALL ----

TEST_F(BoundSessionTest, ACreditRecallLowersTheStreamidsInUse) {
  options.back = BackChannelPlace::kOwn;
  Establish();
  EXPECT_EQ(StatusOf(*RecallCredits(0)), nfsstat4::NFS4ERR_INVAL);
  EXPECT_EQ(bound->streams().limit(), 8u);
  EXPECT_EQ(StatusOf(*RecallCredits(2)), nfsstat4::NFS4_OK);
  server.latency = 1ms;
  server.streams_seen.clear();
  StartRemoves(10);
  ExpectAllToSucceed();
  EXPECT_EQ(server.streams_seen, (std::set<uint32_t>{0, 1}));
}

TEST_F(BoundSessionTest, ACreditRecallWaitsForRequestsAboveItsTarget) {
  options.back = BackChannelPlace::kOwn;
  Establish();
  server.latency = 20ms;
  StartRemoves(4);
  TurnFor(loop, 1ms);
  const auto reply = RecallCredits(1);
  EXPECT_TRUE(reply->empty());
  ExpectAllToSucceed();
  EXPECT_FALSE(reply->empty());
  EXPECT_EQ(StatusOf(*reply), nfsstat4::NFS4_OK);
  EXPECT_EQ(bound->streams().limit(), 1u);
}

}  // namespace
}  // namespace penstock::client::v4::sess01
