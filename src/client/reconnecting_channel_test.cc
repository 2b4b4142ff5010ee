#include "client/reconnecting_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/test_log.h"
#include "base/test_loop.h"

namespace penstock::client {
namespace {

using namespace std::chrono_literals;
using Answer = Result<rpc::Message, rpc::CallError>;

// The behavior of the connections of a test, and a record of their calls.
struct Script {
  std::vector<bool> opens;               // whether each connection attempt succeeds; later attempts succeed
  std::vector<rpc::CallError> failures;  // the errors of the first calls; later calls get their own message back
  size_t attempts = 0;
  std::vector<Duration> limits;  // the time limits of the attempts
  std::vector<std::string> calls;
};

class ScriptedChannel : public rpc::Channel {
 public:
  explicit ScriptedChannel(Script& script) : script_(script) {}
  Task<Answer> Call(rpc::Message call, rpc::ReplyShape) override {
    script_.calls.emplace_back(AsText(call.stream.bytes()));
    if (script_.calls.size() <= script_.failures.size()) {
      co_return std::unexpected(script_.failures[script_.calls.size() - 1]);
    }
    co_return call;
  }

 private:
  Script& script_;
};

class ReconnectingChannelTest : public testing::Test {
 protected:
  ReconnectingChannel::Opener Opener() {
    return [this](Duration time_limit) {
      script_.limits.push_back(time_limit);
      return Open(script_);
    };
  }
  static Task<SetupResult<std::unique_ptr<rpc::Channel>>> Open(Script& script) {
    const size_t attempt = script.attempts++;
    if (attempt < script.opens.size() && !script.opens[attempt])
      co_return std::unexpected(SetupError{"nobody there", EHOSTUNREACH});
    co_return std::make_unique<ScriptedChannel>(script);
  }

  // Makes a call with `text` and returns its result.
  std::optional<Answer> Call(ReconnectingChannel& channel, std::string_view text) {
    std::optional<Answer> answer;
    Spawn([](ReconnectingChannel& c, std::string_view t, Loop& loop, std::optional<Answer>& out) -> Task<void> {
      rpc::Message message{.stream = Slice::Borrowed(AsBytes(t)), .items = {}, .placed = {}};
      out.emplace(co_await c.Call(std::move(message), {}));
      loop.Stop();
    }(channel, text, loop_, answer));
    if (!answer) loop_.Run();
    loop_.context().restart();
    return answer;
  }

  Loop loop_;
  Script script_;
  // `policy_` gives a call up after ten minutes, `short_policy_` after 50 ms.
  const RetryPolicy policy_{.first_delay = 1ms, .longest_delay = 2ms};
  const RetryPolicy short_policy_{.first_delay = 1ms, .longest_delay = 2ms, .give_up_after = 50ms};
};

TEST_F(ReconnectingChannelTest, SendsACallWithoutReplyAgain) {
  script_.failures = {rpc::CallError::kDisconnected, rpc::CallError::kTimedOut};
  ReconnectingChannel channel(loop_, Opener(), policy_);
  const auto answer = Call(channel, "once");
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ(AsText((*answer)->stream.bytes()), "once");
  EXPECT_EQ(script_.calls, (std::vector<std::string>{"once", "once", "once"}));
  EXPECT_EQ(script_.attempts, 3u);
}

TEST_F(ReconnectingChannelTest, WaitsForTheServerToComeBack) {
  script_.opens = {true, false, false, true};
  script_.failures = {rpc::CallError::kDisconnected};
  ReconnectingChannel channel(loop_, Opener(), policy_);
  EXPECT_TRUE(Call(channel, "patience")->has_value());
  EXPECT_EQ(script_.attempts, 4u);
}

TEST_F(ReconnectingChannelTest, DelaysConnectionsToAServerThatLosesThemAtOnce) {
  script_.failures = std::vector<rpc::CallError>(10000, rpc::CallError::kDisconnected);
  ReconnectingChannel channel(loop_, Opener(), short_policy_);
  EXPECT_EQ(Call(channel, "again")->error(), rpc::CallError::kDisconnected);
  EXPECT_LE(script_.attempts, 50u / 2 + 3) << "one attempt every 2 ms for 50 ms";
}

TEST_F(ReconnectingChannelTest, GivesUpACallAfterItsTimeLimit) {
  script_.opens = std::vector<bool>(10000, false);
  ReconnectingChannel channel(loop_, Opener(), short_policy_);
  const auto answer = Call(channel, "hopeless");
  ASSERT_FALSE(answer->has_value());
  EXPECT_EQ(answer->error(), rpc::CallError::kDisconnected);
  EXPECT_TRUE(script_.calls.empty());
}

TEST_F(ReconnectingChannelTest, EndsTheCallsThatWaitIfTheServerRefusesConnections) {
  bool refuses = true;
  std::optional<ReconnectingChannel> channel;
  const auto open = [&](Duration) {
    if (refuses) channel->HandleRefusal();
    return Open(script_);
  };
  channel.emplace(loop_, open, policy_);
  script_.opens = {false};
  EXPECT_EQ(Call(*channel, "refused")->error(), rpc::CallError::kRefused);
  EXPECT_EQ(script_.attempts, 1u);
  EXPECT_EQ(channel->trouble().message, "nobody there");
  refuses = false;
  EXPECT_TRUE(Call(*channel, "later")->has_value());
  EXPECT_EQ(script_.calls, std::vector<std::string>{"later"});
  EXPECT_EQ(channel->trouble().message, "");
}

TEST_F(ReconnectingChannelTest, LimitsAConnectionAttemptToTheTimeThatTheCallHasLeft) {
  script_.opens = {false, false, true};
  ReconnectingChannel channel(loop_, Opener(), policy_);
  EXPECT_TRUE(Call(channel, "call")->has_value());
  ASSERT_EQ(script_.limits.size(), 3u);
  EXPECT_LE(script_.limits[0], policy_.give_up_after);
  EXPECT_LE(script_.limits[1], script_.limits[0] - policy_.first_delay);
  EXPECT_LE(script_.limits[2], script_.limits[1] - policy_.longest_delay);
}

TEST_F(ReconnectingChannelTest, LeavesOtherErrorsToTheCaller) {
  script_.failures = {rpc::CallError::kRefused};
  ReconnectingChannel channel(loop_, Opener(), policy_);
  EXPECT_EQ(Call(channel, "refused")->error(), rpc::CallError::kRefused);
  EXPECT_EQ(script_.calls.size(), 1u);
}

TEST_F(ReconnectingChannelTest, ConnectTriesOnceAndReportsTheReason) {
  script_.opens = {false};
  ReconnectingChannel channel(loop_, Opener(), policy_);
  SetupError error;
  Spawn([](ReconnectingChannel& c, SetupError& out) -> Task<void> {
    const auto connected = co_await c.Connect();
    if (!connected) out = connected.error();
  }(channel, error));
  EXPECT_EQ(error.message, "nobody there");
  EXPECT_EQ(error.number, EHOSTUNREACH);
  EXPECT_EQ(script_.attempts, 1u);
}

// A server that has reached its limit of connections does that.
TEST_F(ReconnectingChannelTest, ReportsAServerThatClosesConnectionsBeforeItAnswers) {
  script_.failures = std::vector<rpc::CallError>(10000, rpc::CallError::kDisconnected);
  ReconnectingChannel channel(loop_, Opener(), short_policy_);
  EXPECT_FALSE(*Call(channel, "first"));
  EXPECT_THAT(channel.trouble().message, testing::HasSubstr("full"));
  EXPECT_EQ(channel.trouble().number, ECONNRESET);
  script_.failures.clear();
  EXPECT_TRUE(*Call(channel, "second"));
  EXPECT_EQ(channel.trouble().message, "");
}

TEST_F(ReconnectingChannelTest, ReportsWhyItCannotConnectAgain) {
  script_.failures = {rpc::CallError::kDisconnected};
  script_.opens = std::vector<bool>(10000, false);
  script_.opens[0] = true;
  ReconnectingChannel channel(loop_, Opener(), short_policy_);
  EXPECT_FALSE(*Call(channel, "call"));
  EXPECT_EQ(channel.trouble().message, "nobody there");
  EXPECT_EQ(channel.trouble().number, EHOSTUNREACH);
}

TEST_F(ReconnectingChannelTest, ReportsAServerThatDoesNotAnswer) {
  script_.failures = std::vector<rpc::CallError>(10000, rpc::CallError::kTimedOut);
  ReconnectingChannel channel(loop_, Opener(), short_policy_);
  EXPECT_FALSE(*Call(channel, "call"));
  EXPECT_EQ(channel.trouble().message, "the server does not answer");
  EXPECT_EQ(channel.trouble().number, ETIMEDOUT);
}

TEST_F(ReconnectingChannelTest, MakesOneAttemptOnlyWhileItIsClosing) {
  script_.failures = {rpc::CallError::kDisconnected, rpc::CallError::kDisconnected};
  script_.opens = {true, true, false};
  ReconnectingChannel channel(loop_, Opener(), policy_);
  channel.HandleClosing();
  const auto answer = Call(channel, "last");
  ASSERT_FALSE(answer->has_value());
  EXPECT_EQ(answer->error(), rpc::CallError::kRefused);
  EXPECT_THAT(script_.calls, testing::ElementsAre("last", "last"));
  EXPECT_EQ(script_.attempts, 3u);
}

TEST_F(ReconnectingChannelTest, SendsNoCallAgainAndAgainWhileItIsClosing) {
  script_.failures = std::vector<rpc::CallError>(10000, rpc::CallError::kDisconnected);
  ReconnectingChannel channel(loop_, Opener(), policy_);
  channel.HandleClosing();
  EXPECT_EQ(Call(channel, "last")->error(), rpc::CallError::kDisconnected);
  EXPECT_EQ(script_.calls.size(), 3u);
}

TEST_F(ReconnectingChannelTest, WaitsForOneOverdueReplyOnlyWhileItIsClosing) {
  script_.failures = std::vector<rpc::CallError>(10000, rpc::CallError::kTimedOut);
  ReconnectingChannel channel(loop_, Opener(), policy_);
  channel.HandleClosing();
  EXPECT_EQ(Call(channel, "last")->error(), rpc::CallError::kTimedOut);
  EXPECT_EQ(Call(channel, "later")->error(), rpc::CallError::kTimedOut);
  EXPECT_THAT(script_.calls, testing::ElementsAre("last"));
}

TEST_F(ReconnectingChannelTest, SendsNoLastCallToAServerThatOwesAReply) {
  script_.failures = std::vector<rpc::CallError>(10000, rpc::CallError::kTimedOut);
  ReconnectingChannel channel(loop_, Opener(), short_policy_);
  EXPECT_FALSE(*Call(channel, "call"));
  channel.HandleClosing();
  const size_t before = script_.calls.size();
  EXPECT_EQ(Call(channel, "last")->error(), rpc::CallError::kTimedOut);
  EXPECT_EQ(script_.calls.size(), before);
}

TEST_F(ReconnectingChannelTest, FailsAtOnceAfterItsEnd) {
  Cancellation ending;
  ReconnectingChannel channel(loop_, Opener(), policy_, &ending);
  EXPECT_TRUE(*Call(channel, "first"));
  ending.Cancel();
  const auto answer = Call(channel, "second");
  ASSERT_FALSE(answer->has_value());
  EXPECT_EQ(answer->error(), rpc::CallError::kCancelled);
  EXPECT_EQ(channel.trouble().message, "the mount is closing");
  EXPECT_EQ(channel.trouble().number, ECANCELED);
  EXPECT_THAT(script_.calls, testing::ElementsAre("first"));
  EXPECT_EQ(script_.attempts, 1u);
}

TEST_F(ReconnectingChannelTest, MakesNoFirstConnectionAfterItsEnd) {
  Cancellation ending;
  ending.Cancel();
  ReconnectingChannel channel(loop_, Opener(), policy_, &ending);
  const auto answer = Call(channel, "first");
  ASSERT_FALSE(answer->has_value());
  EXPECT_EQ(answer->error(), rpc::CallError::kCancelled);
  EXPECT_EQ(script_.attempts, 0u);
}

// ---- several connections ----

// A test answers and loses the calls one by one.
class SharedCallsTest : public testing::Test {
 protected:
  struct Held {
    uint64_t connection;  // they are counted from one
    std::string text;
    OneShot<Answer>* answer;
  };
  struct Outcome {
    std::optional<Answer> answer;
  };
  // A server that loses connections that are closed.
  class HoldingChannel : public rpc::Channel {
   public:
    HoldingChannel(SharedCallsTest& test, uint64_t number) : test_(test), number_(number) {}
    Task<Answer> Call(rpc::Message call, rpc::ReplyShape) override {
      OneShot<Answer> answer;
      test_.held_.push_back({number_, std::string(AsText(call.stream.bytes())), &answer});
      Answer given = co_await answer;
      co_return given;
    }
    void Close() override { test_.Fail(number_, rpc::CallError::kDisconnected); }

   private:
    SharedCallsTest& test_;
    const uint64_t number_;
  };

  // By default no attempt ends by its time limit, so that a test sees what else ends it.
  explicit SharedCallsTest(Duration longest_attempt = 1h)
      : channel_(loop_, Opener(), {.first_delay = 1ms, .longest_delay = 2ms, .longest_attempt = longest_attempt},
                 &ending_) {}
  ~SharedCallsTest() override {
    while (!held_.empty()) Reply(held_.front());
    TurnFor(loop_, 0ms);
  }

  ReconnectingChannel::Opener Opener() {
    return [this](Duration) { return Open(); };
  }
  Task<SetupResult<std::unique_ptr<rpc::Channel>>> Open() {
    ++attempts_;
    limits_.push_back(channel_.reply_limit());
    const ConnectionKind kind = channel_.next_kind();
    if (refuses_ || refused_kind_ == kind) co_return std::unexpected(SetupError{"nobody there", EHOSTUNREACH});
    channel_.LimitAttempt();
    if (silent_kind_ == kind) {
      OneShot<> ended;
      const Cancellation::Entry entry(channel_.attempt(), [&] { ended.Set(); });
      ++silent_attempts_;
      silent_attempt_ = &ended;
      co_await ended;
      silent_attempt_ = nullptr;
      if (IsCancelled(channel_.attempt())) co_return std::unexpected(SetupError{"ended", ECANCELED});
    }
    co_await Sleep(loop_, opening_takes_);
    kinds_ += kind == ConnectionKind::kMain ? 'm' : 'o';
    co_return std::make_unique<HoldingChannel>(*this, ++connections_);
  }

  std::shared_ptr<Outcome> Start(std::string_view text) {
    auto outcome = std::make_shared<Outcome>();
    Spawn([](ReconnectingChannel& c, std::string_view t, std::shared_ptr<Outcome> out) -> Task<void> {
      rpc::Message message{.stream = Slice::Borrowed(AsBytes(t)), .items = {}, .placed = {}};
      out->answer.emplace(co_await c.Call(std::move(message), {}));
    }(channel_, text, outcome));
    Settle();
    return outcome;
  }
  void Settle() { TurnFor(loop_, 2ms); }
  // Waits until so many calls are at the server.
  void AwaitHeld(size_t count) {
    ASSERT_TRUE(TurnUntil(loop_, [&] { return held_.size() >= count; }));
  }

  void End(const Held& call, Answer answer) {
    OneShot<Answer>* const waiting = call.answer;
    std::erase_if(held_, [&](const Held& each) { return each.answer == waiting; });
    waiting->Set(std::move(answer));
  }
  void Reply(const Held& call) { End(call, rpc::Message()); }
  // Ends all calls over the connection.
  void Fail(uint64_t connection, rpc::CallError error) {
    for (;;) {
      const auto call = std::ranges::find(held_, connection, &Held::connection);
      if (call == held_.end()) return;
      End(*call, std::unexpected(error));
    }
  }
  std::vector<std::string> HeldTexts() const {
    std::vector<std::string> texts;
    for (const Held& each : held_) texts.push_back(std::to_string(each.connection) + each.text);
    return texts;
  }

  Loop loop_;
  std::vector<Held> held_;  // calls that have no reply yet
  uint64_t connections_ = 0;
  size_t attempts_ = 0;
  std::vector<Duration> limits_;  // the reply limits of the attempts
  bool refuses_ = false;
  std::optional<ConnectionKind> refused_kind_;
  std::optional<ConnectionKind> silent_kind_;  // attempts for it take until they are ended
  size_t silent_attempts_ = 0;
  OneShot<>* silent_attempt_ = nullptr;  // the one under way: Set() makes it succeed
  std::string kinds_;                    // of the connections: m or o
  Duration opening_takes_{};
  Cancellation ending_;
  ReconnectingChannel channel_;
};

using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST_F(SharedCallsTest, SpreadsItsCallsOverItsConnections) {
  channel_.Widen(3, Repetition::kOverAnyConnection);
  for (const char* const text : {"a", "b", "c", "d", "e", "f"}) Start(text);
  EXPECT_THAT(HeldTexts(), ElementsAre("1a", "1b", "2c", "3d", "2e", "3f"));
  EXPECT_EQ(channel_.connections().size(), 3u);
  EXPECT_EQ(channel_.reconnections(), 0u);
}

TEST_F(SharedCallsTest, MakesNoFurtherConnectionForOneCallAtATime) {
  channel_.Widen(3, Repetition::kOverAnyConnection);
  for (const char* const text : {"a", "b", "c"}) {
    Start(text);
    Reply(held_.front());
    Settle();
  }
  EXPECT_EQ(attempts_, 1u);
}

TEST_F(SharedCallsTest, LosesOnlyTheCallsOfOneConnection) {
  channel_.Widen(3, Repetition::kOverNewerConnection);
  const auto first = Start("a");
  Start("b");
  Start("c");
  const auto second = Start("d");
  ASSERT_THAT(HeldTexts(), ElementsAre("1a", "1b", "2c", "3d"));
  Fail(3, rpc::CallError::kDisconnected);
  AwaitHeld(4);
  EXPECT_THAT(HeldTexts(), ElementsAre("1a", "1b", "2c", "4d")) << "the call goes over a newer connection";
  Reply(held_.front());
  Reply(held_.back());
  Settle();
  EXPECT_TRUE(first->answer && *first->answer);
  EXPECT_TRUE(second->answer && *second->answer);
  EXPECT_EQ(channel_.reconnections(), 1u);
}

// RFC 8881 §2.9.2: a request must not be sent again while the connection is up over which it was sent.
TEST_F(SharedCallsTest, ClosesAConnectionThatOwesAReplyBeforeItRepeatsTheCall) {
  channel_.Widen(2, Repetition::kOverAnyConnection);
  Start("a");
  Start("b");
  Start("c");
  ASSERT_THAT(HeldTexts(), ElementsAre("1a", "1b", "2c"));
  End(held_.front(), std::unexpected(rpc::CallError::kTimedOut));
  Settle();
  EXPECT_THAT(HeldTexts(), UnorderedElementsAre("2a", "2b", "2c"));
}

TEST_F(SharedCallsTest, UsesEachConnectionNowAndThen) {
  channel_.Widen(2, Repetition::kOverAnyConnection);
  for (const char* const text : {"a", "b", "c"}) Start(text);
  while (!held_.empty()) Reply(held_.front());
  Settle();
  ASSERT_EQ(channel_.connections().size(), 2u);
  std::set<uint64_t> used;
  for (const char* const text : {"d", "e", "f"}) {
    Start(text);
    used.insert(held_.front().connection);
    Reply(held_.front());
    Settle();
  }
  EXPECT_EQ(used.size(), 2u) << "one call at a time";
}

TEST_F(SharedCallsTest, OthersGoOnWhileACallWaitsForANewerConnection) {
  channel_.Widen(2, Repetition::kOverNewerConnection);
  Start("a");
  Start("b");
  const auto lost = Start("c");
  ASSERT_THAT(HeldTexts(), ElementsAre("1a", "1b", "2c"));
  refuses_ = true;
  Fail(2, rpc::CallError::kDisconnected);
  const auto later = Start("d");
  ASSERT_THAT(HeldTexts(), ElementsAre("1a", "1b", "1d"));
  Reply(held_.back());
  Settle();
  EXPECT_TRUE(later->answer && *later->answer);
  EXPECT_FALSE(lost->answer);
  EXPECT_EQ(channel_.trouble().message, "");
  refuses_ = false;
  AwaitHeld(3);
  EXPECT_THAT(HeldTexts(), ElementsAre("1a", "1b", "3c"));
}

TEST_F(SharedCallsTest, InASessionACallGoesOverAnyOtherConnectionAtOnce) {
  channel_.Widen(2, Repetition::kOverAnyConnection);
  Start("a");
  Start("b");
  Start("c");
  ASSERT_THAT(HeldTexts(), ElementsAre("1a", "1b", "2c"));
  refuses_ = true;
  Fail(2, rpc::CallError::kDisconnected);
  EXPECT_THAT(HeldTexts(), ElementsAre("1a", "1b", "1c"));
  Settle();
}

TEST_F(SharedCallsTest, ALostConnectionIsReplacedWhenTheOthersAreBusy) {
  channel_.Widen(2, Repetition::kOverAnyConnection);
  Start("a");
  Start("b");
  Fail(2, rpc::CallError::kDisconnected);
  Fail(1, rpc::CallError::kDisconnected);
  AwaitHeld(2);
  Start("c");
  Start("d");
  EXPECT_EQ(channel_.connections().size(), 2u);
  EXPECT_EQ(channel_.reconnections(), attempts_ - 2);
}

TEST_F(SharedCallsTest, WorksWithFewerConnectionsIfTheServerRefusesMore) {
  channel_.Widen(4, Repetition::kOverNewerConnection);
  Start("a");
  refuses_ = true;
  std::vector<std::shared_ptr<Outcome>> more;
  for (int i = 0; i < 20; ++i) more.push_back(Start("b"));
  EXPECT_EQ(held_.size(), 21u);
  EXPECT_EQ(channel_.connections().size(), 1u);
  EXPECT_EQ(channel_.trouble().message, "");
  EXPECT_GE(attempts_, 3u) << "it tries again";
  while (!held_.empty()) Reply(held_.front());
  Settle();
  for (const auto& each : more) EXPECT_TRUE(each->answer && *each->answer);
}

// Otherwise it would soon wait for minutes for a server that was silent once.
TEST_F(SharedCallsTest, RepliesThatAreOverdueTogetherRaiseTheLimitOnce) {
  channel_.Widen(3, Repetition::kOverNewerConnection);
  for (const char* const text : {"a", "b", "c", "d"}) Start(text);
  ASSERT_THAT(HeldTexts(), ElementsAre("1a", "1b", "2c", "3d"));
  for (const uint64_t each : {1, 2, 3}) Fail(each, rpc::CallError::kTimedOut);
  AwaitHeld(4);
  EXPECT_EQ(limits_.back(), 2 * RetryPolicy().reply_limit);
  Fail(held_.front().connection, rpc::CallError::kTimedOut);
  EXPECT_EQ(channel_.reply_limit(), 3 * RetryPolicy().reply_limit);
  AwaitHeld(4);
  Reply(held_.back());
  Settle();
  EXPECT_EQ(channel_.reply_limit(), RetryPolicy().reply_limit);
}

TEST_F(SharedCallsTest, EndsAllItsConnections) {
  channel_.Widen(3, Repetition::kOverAnyConnection);
  std::vector<std::shared_ptr<Outcome>> outcomes;
  for (const char* const text : {"a", "b", "c", "d"}) outcomes.push_back(Start(text));
  ASSERT_EQ(channel_.connections().size(), 3u);
  ending_.Cancel();
  for (const auto& each : outcomes) {
    ASSERT_TRUE(each->answer);
    EXPECT_EQ(each->answer->error(), rpc::CallError::kCancelled);
  }
}

TEST_F(SharedCallsTest, WaitsForTheFurtherConnectionThatIsBeingMade) {
  channel_.Widen(2, Repetition::kOverAnyConnection);
  Start("a");
  opening_takes_ = 50ms;
  Start("b");
  ASSERT_TRUE(channel_.connects_further());
  while (!held_.empty()) Reply(held_.front());
  channel_.HandleClosing();
  bool is_over = false;
  Spawn([](ReconnectingChannel& c, bool& over) -> Task<void> {
    co_await c.EndConnecting();
    over = true;
  }(channel_, is_over));
  EXPECT_FALSE(is_over);
  ASSERT_TRUE(TurnUntil(loop_, [&] { return is_over; }));
  EXPECT_EQ(connections_, 2u);
  EXPECT_FALSE(channel_.connects_further());
}

// ---- connections of two kinds ----

class TwoKindsTest : public SharedCallsTest {
 protected:
  using SharedCallsTest::SharedCallsTest;

  // Starts calls until done() is true.
  template <class Done>
  void StartUntil(const Done& done) {
    ASSERT_TRUE(TurnUntil(loop_, [&] {
      Start("more");
      return done();
    }));
  }
  // Starts a call and answers it.
  void CallOnce() {
    const size_t before = held_.size();
    const auto outcome = Start("once");
    AwaitHeld(before + 1);
    Reply(held_.back());
    Settle();
    EXPECT_TRUE(outcome->answer && *outcome->answer);
  }
};

TEST_F(TwoKindsTest, TheLastConnectionIsOfTheOtherKind) {
  channel_.Widen(3, Repetition::kOverAnyConnection, 1);
  for (const char* const text : {"a", "b", "c", "d", "e", "f"}) Start(text);
  EXPECT_EQ(kinds_, "mmo");
  EXPECT_THAT(HeldTexts(), ElementsAre("1a", "1b", "2c", "3d", "2e", "3f"));
}

TEST_F(TwoKindsTest, ALostConnectionIsReplacedByOneOfItsKind) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  for (const char* const text : {"a", "b", "c"}) Start(text);
  ASSERT_EQ(kinds_, "mo");
  const auto lose = [&](uint64_t connection) {
    const size_t before = kinds_.size();
    Fail(connection, rpc::CallError::kDisconnected);
    StartUntil([&] { return kinds_.size() > before; });
  };
  lose(2);
  EXPECT_EQ(kinds_, "moo");
  lose(1);
  EXPECT_EQ(kinds_, "moom");
}

TEST_F(TwoKindsTest, AConnectionThatIsLostBeforeItsFirstReplyIsReplacedAfterAPause) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  for (const char* const text : {"a", "b", "c"}) Start(text);
  for (int i = 0; i < 3; ++i) {
    Start("over the newest connection");
    const TimePoint before = loop_.Now();
    const size_t connections = kinds_.size();
    Fail(connections_, rpc::CallError::kDisconnected);
    StartUntil([&] { return kinds_.size() > connections; });
    EXPECT_GE(loop_.Now() - before, 1ms);
  }
}

TEST_F(TwoKindsTest, CallsGoOverTheOtherKindWhileOneIsRefused) {
  channel_.Widen(3, Repetition::kOverAnyConnection, 1);
  refused_kind_ = ConnectionKind::kMain;
  Start("a");
  // The first connection was refused, so the channel tries the other kind before the call has waited in vain.
  AwaitHeld(1);
  EXPECT_EQ(kinds_, "o");
  for (const char* const text : {"b", "c", "d"}) Start(text);
  EXPECT_THAT(HeldTexts(), ElementsAre("1a", "1b", "1c", "1d")) << "one connection at most is of the other kind";
  refused_kind_ = ConnectionKind::kOther;
  StartUntil([&] { return kinds_.size() == 3; });
  EXPECT_EQ(kinds_, "omm");
}

// Otherwise a program that waits for each of its calls would use the other kind for ever.
TEST_F(TwoKindsTest, OneCallAtATimeMakesTheFirstConnectionOfTheMainKind) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  refused_kind_ = ConnectionKind::kMain;
  CallOnce();
  ASSERT_EQ(kinds_, "o");
  refused_kind_.reset();
  ASSERT_TRUE(TurnUntil(loop_, [&] {
    CallOnce();
    return kinds_ != "o";
  }));
  EXPECT_EQ(kinds_, "om");
}

TEST_F(TwoKindsTest, WarnsOnceWhileOneKindIsRefused) {
  CapturedLog log;
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  refused_kind_ = ConnectionKind::kOther;
  Start("a");
  StartUntil([&] { return attempts_ >= 4; });
  const std::string said = log.Take();
  const std::string warning = "nobody there; the calls go over the other transport\n";
  EXPECT_NE(said.find(warning), said.npos) << said;
  EXPECT_EQ(said.find(warning), said.rfind(warning)) << said;
  refused_kind_.reset();
  StartUntil([&] { return kinds_ == "mo"; });
  EXPECT_THAT(log.Take(), testing::HasSubstr("a connection over TCP is up again\n"));
}

TEST_F(TwoKindsTest, WarnsOfEachKindThatIsRefused) {
  CapturedLog log;
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  refused_kind_ = ConnectionKind::kOther;
  Start("a");
  StartUntil([&] { return attempts_ >= 3; });
  refused_kind_ = ConnectionKind::kMain;
  Fail(1, rpc::CallError::kDisconnected);
  StartUntil([&] { return kinds_ == "mo" && attempts_ >= 6; });
  const std::string warning = "nobody there; the calls go over the other transport\n";
  const std::string said = log.Take();
  EXPECT_NE(said.find(warning), said.rfind(warning)) << said;
  EXPECT_THAT(said, testing::HasSubstr("a connection over TCP is up again\n"));
}

// The lost kind has worked, and the other one takes its time.
TEST_F(TwoKindsTest, AnAttemptForOneKindEndsWhenTheLastConnectionOfTheOtherIsLost) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  CallOnce();
  silent_kind_ = ConnectionKind::kOther;
  for (const char* const text : {"a", "b"}) Start(text);
  ASSERT_TRUE(TurnUntil(loop_, [&] { return silent_attempts_ == 1; }));
  Fail(1, rpc::CallError::kDisconnected);
  AwaitHeld(2);
  EXPECT_EQ(kinds_, "mm");
  EXPECT_THAT(HeldTexts(), UnorderedElementsAre("2a", "2b"));
  // The calls that wait make another attempt, which is not ended early again: else a kind that carries a reply now and
  // then would keep the calls from the other one for ever.
  ASSERT_TRUE(TurnUntil(loop_, [&] {
    Start("more");
    return silent_attempts_ == 2;
  }));
  Reply(held_.front());
  Fail(2, rpc::CallError::kDisconnected);
  Settle();
  EXPECT_EQ(kinds_, "mm");
  ASSERT_TRUE(silent_attempt_);
  silent_attempt_->Set();
  AwaitHeld(1);
  EXPECT_EQ(kinds_, "mmo");
  silent_kind_.reset();
}

TEST_F(TwoKindsTest, ALossBeforeAReplyDoesNotEndAnAttemptForTheOtherKind) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  silent_kind_ = ConnectionKind::kOther;
  for (const char* const text : {"a", "b"}) Start(text);
  ASSERT_TRUE(TurnUntil(loop_, [&] { return silent_attempts_ == 1; }));
  Fail(1, rpc::CallError::kDisconnected);
  Settle();
  EXPECT_EQ(kinds_, "m");
  ASSERT_TRUE(silent_attempt_);
  silent_attempt_->Set();
  AwaitHeld(2);
  EXPECT_EQ(kinds_, "mo");
  EXPECT_THAT(HeldTexts(), UnorderedElementsAre("2a", "2b"));
  silent_kind_.reset();
}

TEST_F(TwoKindsTest, ALostConnectionThatHasRepliedIsReplacedByOneOfItsKind) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  CallOnce();
  Start("a");
  Fail(1, rpc::CallError::kDisconnected);
  AwaitHeld(1);
  EXPECT_THAT(HeldTexts(), ElementsAre("2a"));
  EXPECT_EQ(kinds_, "mm");
}

// Such a transport would otherwise be tried for ever: it connects, and then does not work.
TEST_F(TwoKindsTest, AConnectionThatIsLostBeforeItsFirstReplyGivesWayToTheOtherKind) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  CallOnce();
  Start("a");
  Fail(1, rpc::CallError::kDisconnected);
  AwaitHeld(1);
  Fail(2, rpc::CallError::kDisconnected);
  AwaitHeld(1);
  EXPECT_THAT(HeldTexts(), ElementsAre("3a"));
  EXPECT_EQ(kinds_, "mmo");
}

class ShortAttemptsTest : public TwoKindsTest {
 protected:
  ShortAttemptsTest() : TwoKindsTest(5ms) {}
};

TEST_F(ShortAttemptsTest, AnAttemptThatTakesTooLongGivesWayToTheOtherKind) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  silent_kind_ = ConnectionKind::kMain;
  Start("a");
  AwaitHeld(1);
  EXPECT_EQ(kinds_, "o");
  silent_kind_.reset();
  StartUntil([&] { return kinds_ == "om"; });
}

// With one kind, a slow server is waited for.
TEST_F(ShortAttemptsTest, AnAttemptMayTakeLongIfThereIsOneKind) {
  channel_.Widen(2, Repetition::kOverAnyConnection);
  opening_takes_ = 30ms;
  Start("a");
  AwaitHeld(1);
  EXPECT_EQ(attempts_, 1u);
}

TEST_F(TwoKindsTest, OneCallAtATimeMakesNoConnectionOfTheOtherKind) {
  channel_.Widen(2, Repetition::kOverAnyConnection, 1);
  for (int i = 0; i < 3; ++i) CallOnce();
  EXPECT_EQ(kinds_, "m");
}

TEST_F(TwoKindsTest, TheFirstConnectionIsAlwaysOfTheMainKind) {
  refused_kind_ = ConnectionKind::kMain;
  std::optional<bool> connected;
  Spawn([](ReconnectingChannel& c, std::optional<bool>& out) -> Task<void> {
    const auto result = co_await c.Connect();
    out = result.has_value();
  }(channel_, connected));
  ASSERT_TRUE(TurnUntil(loop_, [&] { return connected.has_value(); }));
  EXPECT_FALSE(*connected);
  EXPECT_EQ(kinds_, "");
}

}  // namespace
}  // namespace penstock::client
