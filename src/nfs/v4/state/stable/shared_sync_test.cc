#include "nfs/v4/state/stable/shared_sync.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>

namespace penstock::nfs::v4 {
namespace {

TEST(SharedSyncTest, ReturnsWhetherTheFileIsSynchronized) {
  int calls = 0;
  SharedSync sync([&] { return ++calls <= 2; });
  EXPECT_TRUE(sync.Run());
  EXPECT_TRUE(sync.Run());
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(sync.failed());
  EXPECT_FALSE(sync.Run());
  EXPECT_TRUE(sync.failed());
}

// Linux reports the error once, so a later success says nothing of the octets that were lost.
TEST(SharedSyncTest, FailsForEverAfterAFailure) {
  int calls = 0;
  SharedSync sync([&] { return ++calls > 1; });
  EXPECT_FALSE(sync.Run());
  EXPECT_FALSE(sync.Run());
  EXPECT_EQ(calls, 1);
}

// The error that the first call gets may be that of the second one's octets.
TEST(SharedSyncTest, AFailureAlsoFailsTheCallsUnderWay) {
  std::latch begun(1), second_waits(1);
  std::atomic<int> calls = 0;
  SharedSync sync([&] {
    if (++calls > 1) return true;
    begun.count_down();
    second_waits.wait();
    return false;
  });
  auto first = std::async(std::launch::async, [&] { return sync.Run(); });
  begun.wait();
  auto second = std::async(std::launch::async, [&] {
    second_waits.count_down();
    return sync.Run();
  });
  EXPECT_FALSE(first.get());
  EXPECT_FALSE(second.get());
  EXPECT_EQ(calls, 1);
}

// A synchronization under way may have begun before the octets were written.
TEST(SharedSyncTest, ACallWaitsForASynchronizationThatBeginsAfterIt) {
  std::latch begun(1), may_end(1);
  std::atomic<int> calls = 0;
  SharedSync sync([&] {
    if (++calls == 1) {
      begun.count_down();
      may_end.wait();
    }
    return true;
  });
  auto first = std::async(std::launch::async, [&] { return sync.Run(); });
  begun.wait();
  auto second = std::async(std::launch::async, [&] {
    may_end.count_down();
    return sync.Run();
  });
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace penstock::nfs::v4
