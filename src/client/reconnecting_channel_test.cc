#include "client/reconnecting_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <cerrno>
#include <vector>

#include "base/loop.h"

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

}  // namespace
}  // namespace penstock::client
