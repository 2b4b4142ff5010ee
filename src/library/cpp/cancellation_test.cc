// Deadlines and stop tokens.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "library/cpp/test_support.h"
#include "penstock/penstock.hpp"

namespace penstock_test {
namespace {

using penstock::kNoLimit;
using penstock::Start;

class CancellationTest : public MountedTest {
 protected:
  ~CancellationTest() override { server.ReleaseReads(); }

  File file = Create("file", "text");
  std::string text = std::string(4, ' ');
};

INSTANTIATE_TEST_SUITE_P(Runtimes, CancellationTest, testing::Values(0, 1), KindOfRuntime);

TEST_P(CancellationTest, ADeadlineEndsAnOperation) {
  server.HoldReads(3);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(NumberOf(file.Read(0, text).Within(milliseconds(50)).Get()), ETIMEDOUT);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(50));
  EXPECT_EQ(NumberOf(Await(file.Read(0, text).Within(milliseconds(20)).Future())), ETIMEDOUT);
  Operation<size_t> read = file.Read(0, text);
  read.Within(std::chrono::duration<double>(0.02));
  EXPECT_EQ(NumberOf(read.Get()), ETIMEDOUT);
}

TEST_P(CancellationTest, ADeadlineThatIsNotReachedChangesNothing) {
  EXPECT_EQ(file.Read(0, text).Within(seconds(kPatience)).Get().value(), 4u);
  EXPECT_EQ(text, "text");
  EXPECT_EQ(file.Read(0, text).Within(kNoLimit).Get().value(), 4u);
  EXPECT_EQ(file.Read(0, text).Within(std::chrono::hours::max()).Get().value(), 4u);
}

TEST_P(CancellationTest, ADeadlineThatIsOverEndsAnOperationAtOnce) {
  server.HoldReads(2);
  EXPECT_EQ(NumberOf(file.Read(0, text).Within(seconds(0)).Get()), ETIMEDOUT);
  EXPECT_EQ(NumberOf(Await(file.Read(0, text).Within(seconds(-5)).Future())), ETIMEDOUT);
}

TEST_P(CancellationTest, AStopBeforeTheBeginningCancels) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(NumberOf(file.Read(0, text).CancelledBy(stop.get_token()).Get()), ECANCELED);
  EXPECT_EQ(NumberOf(Await(file.Read(0, text).CancelledBy(stop.get_token()).Future())), ECANCELED);
  Operation<> operation = mount.Ping();
  operation.CancelledBy(stop.get_token());
  EXPECT_EQ(NumberOf(operation.Get()), ECANCELED);
}

TEST_P(CancellationTest, AStopCancelsAnOperationThatBlocks) {
  server.HoldReads(1);
  std::stop_source stop;
  std::thread other([&] {
    while (server.CountReads() == 0) std::this_thread::sleep_for(milliseconds(1));
    stop.request_stop();
  });
  EXPECT_EQ(NumberOf(file.Read(0, text).CancelledBy(stop.get_token()).Get()), ECANCELED);
  other.join();
}

TEST_P(CancellationTest, AStopCancelsAllOperationsWithItsToken) {
  server.HoldReads(20);
  std::stop_source stop;
  std::vector<std::future<Result<size_t>>> reads;
  for (int i = 0; i < 20; ++i) {
    reads.push_back(file.Read(0, text).CancelledBy(stop.get_token()).Within(seconds(kPatience)).Future());
  }
  EXPECT_TRUE(TurnUntil([&] { return server.CountReads() == 20; }));
  stop.request_stop();
  for (auto& each : reads) EXPECT_EQ(NumberOf(Await(std::move(each))), ECANCELED);
}

TEST_P(CancellationTest, AStopCancelsAnOperationOfACoroutine) {
  server.HoldReads(1);
  std::stop_source stop;
  const auto run = [](File& f, std::string& into, std::stop_token token) -> Task<int> {
    const Result<size_t> read = co_await f.Read(0, into).CancelledBy(token);
    co_return NumberOf(read);
  };
  std::future<int> number = Start(run(file, text, stop.get_token()));
  EXPECT_TRUE(TurnUntil([&] { return server.CountReads() == 1; }));
  stop.request_stop();
  EXPECT_EQ(Await(std::move(number)), ECANCELED);
}

TEST_P(CancellationTest, AStopAfterTheEndChangesNothing) {
  std::stop_source stop;
  EXPECT_EQ(file.Read(0, text).CancelledBy(stop.get_token()).Get().value(), 4u);
  EXPECT_EQ(Await(file.Read(0, text).CancelledBy(stop.get_token()).Future()).value(), 4u);
  stop.request_stop();
  EXPECT_EQ(text, "text");
}

TEST_P(CancellationTest, ACallbackRequestsTheStopOfAnother) {
  server.HoldReads(1);
  std::stop_source stop;
  auto read = file.Read(0, text).CancelledBy(stop.get_token()).Future();
  mount.Ping().Then([&](const Result<>&) { stop.request_stop(); });
  EXPECT_EQ(NumberOf(Await(std::move(read))), ECANCELED);
}

TEST_P(CancellationTest, ATokenWithoutASourceNeverCancels) {
  EXPECT_EQ(file.Read(0, text).CancelledBy(std::stop_token()).Get().value(), 4u);
}

// The stop comes before, while and after the operations end.
TEST_P(CancellationTest, AStopRacesWithTheEnd) {
  std::minstd_rand random(1);
  for (int i = 0; i < 300; ++i) {
    std::stop_source stop;
    std::vector<std::future<Result<>>> pings;
    const auto ping = [&] { pings.push_back(mount.Ping().CancelledBy(stop.get_token()).Future()); };
    std::thread other;
    for (int j = 0; j < 4; ++j) ping();
    other = std::thread([&stop, spin = random() % 20000] {
      for (std::atomic<unsigned> k = 0; k < spin; ++k) {
      }
      stop.request_stop();
    });
    for (int j = 0; j < 4; ++j) ping();
    for (auto& each : pings) {
      const Result<> result = Await(std::move(each));
      EXPECT_TRUE(result || result.error().number == ECANCELED) << result.error().message;
    }
    other.join();
  }
}

}  // namespace
}  // namespace penstock_test
