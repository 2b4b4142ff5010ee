#include "rpc/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>

#include "base/address.h"
#include "base/refusal_log.h"
#include "base/test_log.h"
#include "rpc/call_order.h"
#include "rpc/test_program.h"
#include "rpc/tls/certificate.h"

namespace penstock::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kTestProgram;
using testing::SlowAdd;
using testing::SlowSet;
using W = std::vector<uint32_t>;

// A clock that only the test advances.
struct ManualClock : TimerService {
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return nullptr; }
  TimePoint now{};
};

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() {
    dispatcher.Add(program);
    peer.buffers = &pool;
    peer.address = {asio::ip::make_address("192.0.2.1"), 700};
  }

  Message Words(const W& words) {
    xdr::Encoder encoder(pool);
    for (uint32_t word : words) encoder.U32(word);
    return encoder.Finish();
  }
  // The reply's words arrive in `reply` when the call is done.
  void Start(const W& call, std::optional<W>& reply) { Start(Words(call), reply); }
  void Start(Message call, std::optional<W>& reply) {
    Spawn([](DispatcherTest& self, Message message, std::optional<W>& out) -> Task<void> {
      const Message answer = co_await self.dispatcher.HandleCall(std::move(message), self.peer);
      const ConstBytes bytes = answer.stream.bytes();
      W words;
      for (size_t i = 0; i < bytes.size(); i += 4) words.push_back(LoadBig<uint32_t>(bytes.data() + i));
      out = std::move(words);
    }(*this, std::move(call), reply));
  }
  W Reply(const W& call) { return ReplyTo(Words(call)); }
  W ReplyTo(Message call) {
    std::optional<W> reply;
    Start(std::move(call), reply);
    EXPECT_TRUE(reply);
    return reply.value_or(W{});
  }
  static W Call(uint32_t procedure, std::initializer_list<uint32_t> arguments = {}, uint32_t xid = 5) {
    W words = {xid, 0, 2, kTestProgram, 3, procedure, 0, 0, 0, 0};
    words.insert(words.end(), arguments);
    return words;
  }

  // A call with an AUTH_SYS credential of `uid`. Its machine name is empty.
  static W CallOf(uint32_t uid, uint32_t procedure, std::initializer_list<uint32_t> arguments) {
    W words = {5, 0, 2, kTestProgram, 3, procedure, 1, 20, 0, 0, uid, uid, 0, 0, 0};
    words.insert(words.end(), arguments);
    return words;
  }

  BufferPool pool;
  ManualClock clock;
  ReplyCache cache;
  testing::TestProgram program;
  Dispatcher dispatcher{cache, clock};
  Peer peer;
};

TEST_F(DispatcherTest, ExecutesACall) {
  EXPECT_THAT(Reply(Call(0)), ElementsAre(5, 1, 0, 0, 0, 0));
  EXPECT_THAT(Reply(Call(1, {3, 0x61626300})), ElementsAre(5, 1, 0, 0, 0, 0, 3, 0x61626300));
}

TEST_F(DispatcherTest, AProgramCanLeaveACallWithoutAReply) {
  program.no_reply = true;
  EXPECT_THAT(Reply(Call(2, {3})), IsEmpty());
  // The cache does not keep the call: when it is sent again, it is executed.
  program.no_reply = false;
  EXPECT_THAT(Reply(Call(2, {3})), ElementsAre(5, 1, 0, 0, 0, 0, 6));
}

// A call with a payload of eight octets that are arriving.
struct CallWithPayload {
  std::array<std::byte, 8> octets{};
  std::shared_ptr<Arrival> arrival = std::make_shared<Arrival>();

  Message Of(Message stream) const {
    stream.items.push_back({.offset = stream.stream.size(), .data = Data(Slice::Borrowed(octets), arrival)});
    return stream;
  }
};

TEST_F(DispatcherTest, WaitsForThePayloadsOfACallWhoseProgramDoesNot) {
  const CallWithPayload call;
  std::optional<W> reply;
  Start(call.Of(Words(Call(1, {8}))), reply);
  call.arrival->Advance(7);
  EXPECT_FALSE(reply);
  EXPECT_EQ(program.calls, 0u);
  call.arrival->Advance(8);
  EXPECT_TRUE(reply);
  EXPECT_EQ(program.calls, 1u);
}

TEST_F(DispatcherTest, ACallWhosePayloadIsLostBeforeItBeginsIsNotExecuted) {
  const CallWithPayload call;
  std::optional<W> reply;
  Start(call.Of(Words(Call(1, {8}))), reply);
  call.arrival->End();
  ASSERT_TRUE(reply);
  EXPECT_THAT(*reply, IsEmpty());
  EXPECT_EQ(program.calls, 0u);
}

TEST_F(DispatcherTest, AProgramMayBeginBeforeThePayloadHasArrived) {
  const CallWithPayload call;
  EXPECT_THAT(ReplyTo(call.Of(Words(Call(8, {8})))), ElementsAre(5, 1, 0, 0, 0, 0, 8));
}

// What a program has done counts, whatever becomes of the connection: the client that asks again gets its reply.
TEST_F(DispatcherTest, KeepsTheReplyOfACallWhosePayloadIsLostMeanwhile) {
  const CallWithPayload lost;
  lost.arrival->End();
  EXPECT_THAT(ReplyTo(lost.Of(Words(Call(8, {8})))), ElementsAre(5, 1, 0, 0, 0, 0, 8));
  const CallWithPayload again;
  again.arrival->Advance(8);
  EXPECT_THAT(ReplyTo(again.Of(Words(Call(8, {8})))), ElementsAre(5, 1, 0, 0, 0, 0, 8));
  EXPECT_EQ(program.calls, 1u);
}

TEST_F(DispatcherTest, AnswersEveryErrorOfTheSpecification) {
  EXPECT_THAT(Reply({5, 0, 3, kTestProgram, 3, 0, 0, 0, 0, 0}), ElementsAre(5, 1, 1, 0, 2, 2));
  EXPECT_THAT(Reply({5, 0, 2, 99, 3, 0, 0, 0, 0, 0}), ElementsAre(5, 1, 0, 0, 0, 1));
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 1, 0, 0, 0, 0, 0}), ElementsAre(5, 1, 0, 0, 0, 2, 2, 3));
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 4, 0, 0, 0, 0, 0}), ElementsAre(5, 1, 0, 0, 0, 2, 2, 3));
  EXPECT_THAT(Reply(Call(77)), ElementsAre(5, 1, 0, 0, 0, 3));
  EXPECT_THAT(Reply(Call(1, {3})), ElementsAre(5, 1, 0, 0, 0, 4));
  EXPECT_THAT(Reply(Call(0, {1})), ElementsAre(5, 1, 0, 0, 0, 4)) << "trailing octets";
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram}), ElementsAre(5, 1, 0, 0, 0, 4));
  EXPECT_THAT(Reply(Call(5)), ElementsAre(5, 1, 0, 0, 0, 5));
}

TEST_F(DispatcherTest, DeniesUnauthenticatedCalls) {
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 3, 0, 1, 4, 0, 0, 0}), ElementsAre(5, 1, 1, 1, 1)) << "AUTH_BADCRED";
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 3, 0, 2, 0, 0, 0}), ElementsAre(5, 1, 1, 1, 2)) << "AUTH_REJECTEDCRED";
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 3, 0, 0, 0, 1, 0}), ElementsAre(5, 1, 1, 1, 3)) << "AUTH_BADVERF";
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 3, 0, 0, 0, 0, 404}), ElementsAre(5, 1, 1, 1, 3)) << "AUTH_BADVERF";
  EXPECT_THAT(Reply(Call(6)), ElementsAre(5, 1, 1, 1, 5)) << "AUTH_TOOWEAK";
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 3, 6, 1, 20, 0, 0, 1000, 100, 0, 0, 0}),
              ElementsAre(5, 1, 0, 0, 0, 0, 1000));
}

TEST_F(DispatcherTest, LogsTheVersionsAndCredentialsThatItRefuses) {
  CapturedLog captured;
  RefusalLog refusals;
  dispatcher.LogRefusals(refusals, [](uint32_t number, uint32_t version) {
    return number == kTestProgram && version == 1 ? std::string("option one serves it") : std::string();
  });
  Reply({5, 0, 2, kTestProgram, 1, 0, 0, 0, 0, 0});
  Reply({5, 0, 2, 99, 3, 0, 0, 0, 0, 0});  // has the same host and reason
  EXPECT_EQ(captured.TakeOne(),
            "warning: 192.0.2.1 is refused a call of program 536870913, version 1: the server has versions 2 to 3 "
            "(option one serves it)\n");
  Reply({5, 0, 2, kTestProgram, 3, 0, 6, 0, 0, 0});
  EXPECT_EQ(
      captured.TakeOne(),
      "warning: 192.0.2.1 is refused a call of program 536870913: it uses RPCSEC_GSS (Kerberos), which the server "
      "does not offer (option keytab)\n");
  peer.address = {asio::ip::make_address("192.0.2.2"), 700};
  Reply({5, 0, 2, 99, 3, 0, 0, 0, 0, 0});
  EXPECT_EQ(captured.TakeOne(),
            "warning: 192.0.2.2 is refused a call of program 99, version 3: the server does not have it\n");
  Reply(Call(0));
  Reply({5, 0, 2, kTestProgram});  // malformed
  EXPECT_EQ(captured.Take(), "");
}

TEST_F(DispatcherTest, DropsMessagesThatAreNotCalls) {
  EXPECT_THAT(Reply({}), IsEmpty());
  EXPECT_THAT(Reply({5}), IsEmpty());
  EXPECT_THAT(Reply({5, 1, 0, 0, 0, 0}), IsEmpty());
}

TEST_F(DispatcherTest, ShowsItsProgramACallWhosePayloadsAreOnTheirWay) {
  dispatcher.PreviewCall(Words(Call(2, {7})), peer);
  EXPECT_EQ(program.previews, (std::vector<uint32_t>{5}));
  EXPECT_EQ(program.sum, 0u) << "the call must not be executed";
  EXPECT_EQ(Reply(Call(2, {7})).back(), 7u) << "and the reply cache must not know it";
}

TEST_F(DispatcherTest, ShowsNoCallThatCannotBeExecutedOrIsNotAuthenticated) {
  W other_program = Call(2, {7}), malformed_credential = Call(2, {7}), secured = Call(2, {7});
  other_program[3] = 1;
  malformed_credential[6] = 1;
  secured[6] = 6;  // RPCSEC_GSS
  for (const W& call : {other_program, malformed_credential, secured, W{5, 0, 3}, W{5}}) {
    dispatcher.PreviewCall(Words(call), peer);
  }
  dispatcher.PreviewCall(Words(Call(6)), peer);  // the program does not accept AUTH_NONE for it
  EXPECT_TRUE(program.previews.empty());
}

TEST_F(DispatcherTest, LaterCallsNeedNotWaitForCallsThatTheirProgramDoesNotJudge) {
  CallOrder order;
  peer.order = &order;
  const CallOrder::Place place = order.Enter(Xid(5));
  std::optional<W> reply;
  Start(Call(3, {7}), reply);
  EXPECT_FALSE(reply) << "the call is being executed";
  EXPECT_FALSE(order.MayJudge(Xid(5))) << "it counts as judged";
  program.Release();
  EXPECT_TRUE(reply);
}

TEST_F(DispatcherTest, AProgramThatJudgesItsCallsSaysWhenItHas) {
  program.judges = true;
  CallOrder order;
  peer.order = &order;
  const CallOrder::Place place = order.Enter(Xid(5));
  std::optional<W> reply;
  Start(Call(3, {7}), reply);
  EXPECT_TRUE(order.MayJudge(Xid(5)));
  program.Release();
}

TEST_F(DispatcherTest, ExecutesARetransmittedCallOnce) {
  const W first = Reply(Call(2, {10}));
  EXPECT_THAT(first, ElementsAre(5, 1, 0, 0, 0, 0, 10));
  EXPECT_EQ(Reply(Call(2, {10})), first);
  peer.address = {peer.address.address(), 701};  // on another connection
  EXPECT_EQ(Reply(Call(2, {10})), first);
  EXPECT_EQ(program.sum, 10u);
}

// A retransmission may use another transport: a payload is in the stream over TCP, and in a Read chunk over RDMA.
TEST_F(DispatcherTest, RecognizesARetransmissionWithItsPayloadElsewhere) {
  const W first = Reply(Call(2, {10}));
  Message again = Words(Call(2));
  again.items.push_back({.offset = again.stream.size(), .data = Words({10}).stream});
  EXPECT_EQ(ReplyTo(std::move(again)), first);
  Message other = Words(Call(2));
  other.items.push_back({.offset = other.stream.size(), .data = Words({11}).stream});
  EXPECT_NE(ReplyTo(std::move(other)), first);
}

TEST_F(DispatcherTest, RefusesPadsInCallsWhoseRepliesAreCached) {
  Message padded = Words(Call(2, {7}));
  padded.padding = {.boundary = 512, .threshold = 512, .offset = 36};
  EXPECT_EQ(ReplyTo(std::move(padded)), (W{5, 1, 0, 0, 0, 4})) << "GARBAGE_ARGS";
  EXPECT_EQ(program.sum, 0u);
}

TEST_F(DispatcherTest, DistinguishesCallsByXidArgumentsClientAndAge) {
  Reply(Call(2, {10}));
  EXPECT_EQ(Reply(Call(2, {10}, 6)).back(), 20u) << "another XID";
  EXPECT_EQ(Reply(Call(2, {11})).back(), 31u) << "other arguments";
  peer.address = {asio::ip::make_address("192.0.2.2"), peer.address.port()};
  EXPECT_EQ(Reply(Call(2, {10})).back(), 41u) << "another client";
  clock.now += std::chrono::hours(1);
  EXPECT_EQ(Reply(Call(2, {10})).back(), 51u) << "the cached reply has expired";
}

TEST_F(DispatcherTest, DoesNotReplayAReplyOverAConnectionWithOtherProtection) {
  tls::Certificate one, other;
  one.names_key = std::string(32, 'a');
  other.names_key = std::string(32, 'b');
  const auto execute = [&](Protection protection, const tls::Certificate* certificate = nullptr) {
    peer.protection = protection;
    peer.certificate = certificate ? std::make_shared<const tls::Certificate>(*certificate) : nullptr;
    return Reply(Call(2, {1})).back();
  };
  EXPECT_EQ(execute(Protection::kNone), 1u);
  EXPECT_EQ(execute(Protection::kTls), 2u);
  EXPECT_EQ(execute(Protection::kMutualTls, &one), 3u);
  EXPECT_EQ(execute(Protection::kMutualTls, &other), 4u);
  EXPECT_EQ(execute(Protection::kMutualTls, &one), 3u) << "a repeated call of the same client";
  EXPECT_EQ(execute(Protection::kTls), 2u);
  EXPECT_EQ(execute(Protection::kNone), 1u);
}

TEST_F(DispatcherTest, DoesNotReplayAReplyToAnotherUser) {
  EXPECT_EQ(Reply(CallOf(1000, 2, {10})).back(), 10u);
  EXPECT_EQ(Reply(CallOf(1000, 2, {10})).back(), 10u) << "a retransmission";
  EXPECT_EQ(Reply(CallOf(1001, 2, {10})).back(), 20u) << "the same call and XID, by another user";
}

TEST_F(DispatcherTest, DuplicateWaitsForTheReplyToACallInProgress) {
  std::optional<W> first;
  std::optional<W> second;
  std::optional<W> third;
  Start(Call(SlowAdd::kNumber, {1}), first);
  Start(Call(SlowAdd::kNumber, {1}), second);
  Start(Call(SlowAdd::kNumber, {1}), third);
  EXPECT_EQ(program.waiting.size(), 1u);
  EXPECT_FALSE(first || second || third);
  program.Release();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->back(), 1u);
  EXPECT_EQ(second, first);
  EXPECT_EQ(third, first);
}

// A former bug: a client lost its connection during a WRITE and retransmitted it. The first execution ended last, after
// the client had written again.
TEST_F(DispatcherTest, DuplicateOfAWriteInProgressGetsTheReplyToTheFirstOne) {
  std::optional<W> first;
  std::optional<W> second;
  Start(Call(SlowSet::kNumber, {1}), first);
  Start(Call(SlowSet::kNumber, {1}), second);
  EXPECT_EQ(program.waiting.size(), 1u);
  program.Release();
  ASSERT_TRUE(first);
  EXPECT_EQ(second, first);
  EXPECT_EQ(Reply(Call(SlowSet::kNumber, {1})), *first) << "from the cache";
}

// The client retransmitted its first WRITE over another connection, and then wrote again. Only then does the server
// read the first WRITE.
TEST_F(DispatcherTest, LateWriteDoesNotUndoLaterWritesOfItsClient) {
  const auto set = [&](uint32_t value, uint32_t xid, uint64_t connection) {
    peer.connection = connection;
    std::optional<W> reply;
    Start(Call(SlowSet::kNumber, {value}, xid), reply);
    program.Release();
    EXPECT_TRUE(reply);
    return reply.value_or(W{});
  };
  EXPECT_FALSE(set(1, 5, 11).empty());
  EXPECT_FALSE(set(2, 6, 11).empty());
  EXPECT_TRUE(set(1, 5, 10).empty()) << "over the abandoned connection";
  EXPECT_TRUE(set(0, 4, 10).empty()) << "another call over the abandoned connection";
  EXPECT_EQ(program.sum, 2u);
  EXPECT_FALSE(set(3, 7, 11).empty());
  EXPECT_EQ(program.sum, 3u);
}

TEST_F(DispatcherTest, CachesRepliesThatReportErrors) {
  const W garbage = Call(2, {});
  EXPECT_THAT(Reply(garbage), ElementsAre(5, 1, 0, 0, 0, 4));
  EXPECT_THAT(Reply(garbage), ElementsAre(5, 1, 0, 0, 0, 4));
  EXPECT_EQ(cache.entries(), 1u);
}

TEST_F(DispatcherTest, DoesNotCacheRepliesToIdempotentCalls) {
  Reply(Call(0));
  Reply(Call(1, {0}));
  EXPECT_EQ(cache.entries(), 0u);
}

// Another version of the same program. It counts the calls that it executes. The argument decides whether a duplicate
// is executed.
class LaterVersion : public Program {
 public:
  uint32_t number() const override { return kTestProgram; }
  VersionRange versions() const override { return {5, 5}; }
  // Decodes the argument and stores it for Call().
  Classification Classify(CallContext& context, xdr::Decoder& arguments) const override {
    uint32_t argument;
    if (!arguments.U32(argument)) return {.is_garbage = true};
    context.head.Set(argument);
    return {.keep = argument == kMeets ? Keep::kNothing : Keep::kChange};
  }
  Task<AcceptStatus> Call(CallContext& context, xdr::Decoder& /*arguments*/, xdr::Encoder& results) override {
    const uint32_t argument = *context.head.Get<uint32_t>();
    if (argument == kHarmless) context.keep = Keep::kNothing;
    results.U32(++calls);
    co_return AcceptStatus::SUCCESS;
  }

  static constexpr uint32_t kHarmless = 1;
  static constexpr uint32_t kMeets = 2;  // the program itself recognises the duplicate
  static constexpr uint32_t kOther = 3;
  uint32_t calls = 0;
};

TEST_F(DispatcherTest, DifferentProgramsMayServeVersionsOfOneProgramNumber) {
  LaterVersion later;
  dispatcher.Add(later);
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 5, 1, 0, 0, 0, 0, LaterVersion::kOther}), ElementsAre(5, 1, 0, 0, 0, 0, 1));
  EXPECT_THAT(Reply(Call(0)), ElementsAre(5, 1, 0, 0, 0, 0));
  EXPECT_THAT(Reply({5, 0, 2, kTestProgram, 4, 0, 0, 0, 0, 0}), ElementsAre(5, 1, 0, 0, 0, 2, 2, 5));
}

TEST_F(DispatcherTest, ProgramDecidesWhichRepliesAreCached) {
  LaterVersion later;
  dispatcher.Add(later);
  const auto last_word = [&](uint32_t xid, uint32_t argument) {
    return Reply({xid, 0, 2, kTestProgram, 5, 1, 0, 0, 0, 0, argument}).back();
  };
  EXPECT_EQ(last_word(1, LaterVersion::kOther), last_word(1, LaterVersion::kOther));
  EXPECT_NE(last_word(2, LaterVersion::kHarmless), last_word(2, LaterVersion::kHarmless));
  EXPECT_NE(last_word(3, LaterVersion::kMeets), last_word(3, LaterVersion::kMeets));
}

TEST_F(DispatcherTest, ReleasesTheMemoryOfReplies) {
  {
    Reply(Call(0));
  }
  EXPECT_EQ(pool.outstanding(), 0u);
}

}  // namespace
}  // namespace penstock::rpc
