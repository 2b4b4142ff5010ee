#include "client/nfs4/sess01/connection.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace penstock::client::v4::sess01 {
namespace {

// A transport that keeps its calls until the test answers them.
class HeldCalls final : public rpc::Channel {
 public:
  struct Held {
    std::string text;
    OneShot<Connection::Answer> answer;
  };
  // `ends` is set while the transport exists.
  explicit HeldCalls(std::deque<Held>& calls) : calls_(calls) {}
  ~HeldCalls() override {
    for (Held& each : calls_) {
      if (!each.answer.is_set()) each.answer.Set(std::unexpected(rpc::CallError::kDisconnected));
    }
  }
  Task<Connection::Answer> Call(rpc::Message call, rpc::ReplyShape) override {
    Held& held = calls_.emplace_back();
    held.text = AsText(call.stream.bytes());
    co_return co_await held.answer;
  }

 private:
  std::deque<Held>& calls_;
};

class ConnectionTest : public testing::Test {
 protected:
  void Start(std::string_view text) {
    Spawn([](ConnectionTest& test, std::string_view octets) -> Task<> {
      rpc::Message message{.stream = Slice::Borrowed(AsBytes(octets)), .items = {}, .placed = {}};
      const auto answer = co_await Connection::Call(test.connection, std::move(message), {});
      test.done.push_back(std::string(octets) + (answer ? " answered" : " lost"));
    }(*this, text));
  }
  void Answer(size_t index) { calls[index].answer.Set(rpc::Message()); }
  void Lose(size_t index) { calls[index].answer.Set(std::unexpected(rpc::CallError::kDisconnected)); }

  std::deque<HeldCalls::Held> calls;
  std::shared_ptr<Connection> connection = std::make_shared<Connection>(std::make_unique<HeldCalls>(calls));
  std::vector<std::string> done;
};

using Texts = std::vector<std::string>;

TEST_F(ConnectionTest, CallsAboveTheCreditsWaitAndLeaveInTheirOrder) {
  connection->set_credits(2);
  for (const char* text : {"a", "b", "c", "d"}) Start(text);
  ASSERT_EQ(calls.size(), 2u);
  Answer(1);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[2].text, "c");
  Start("e");
  Answer(0);
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[3].text, "d");
  Answer(2);
  Answer(3);
  Answer(4);
  EXPECT_EQ(done, (Texts{"b answered", "a answered", "c answered", "d answered", "e answered"}));
}

TEST_F(ConnectionTest, MoreCreditsLetWaitingCallsLeave) {
  connection->set_credits(1);
  for (const char* text : {"a", "b", "c"}) Start(text);
  EXPECT_EQ(calls.size(), 1u);
  connection->set_credits(3);
  EXPECT_EQ(calls.size(), 3u);
  connection->Close();
}

TEST_F(ConnectionTest, ALossEndsTheCallsThatWait) {
  connection->set_credits(1);
  for (const char* text : {"a", "b"}) Start(text);
  Lose(0);
  EXPECT_TRUE(connection->ended());
  EXPECT_EQ(done, (Texts{"b lost", "a lost"}));
  Start("c");
  EXPECT_EQ(done.back(), "c lost");
  EXPECT_EQ(calls.size(), 1u);
}

TEST_F(ConnectionTest, ClosingEndsAllCalls) {
  connection->set_credits(1);
  for (const char* text : {"a", "b"}) Start(text);
  connection->Close();
  EXPECT_EQ(done.size(), 2u);
  EXPECT_TRUE(connection->ended());
}

}  // namespace
}  // namespace penstock::client::v4::sess01
