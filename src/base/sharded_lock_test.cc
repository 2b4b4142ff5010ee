#include "base/sharded_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace penstock {
namespace {

using std::chrono::nanoseconds;

TEST(ShardedLockTest, CountsHowOftenItIsTaken) {
  ShardedLock lock(4);
  for (const size_t part : {0, 3, 3}) {
    lock.Lock(part);
    lock.Unlock(part);
  }
  lock.LockAll();
  lock.UnlockAll();
  const ShardedLock::Counts counts = lock.counts();
  EXPECT_EQ(counts.one.taken, 3u);
  EXPECT_EQ(counts.all.taken, 1u);
  EXPECT_EQ(counts.one.waited + counts.all.waited, 0u);
  EXPECT_EQ(counts.one.time + counts.all.time, nanoseconds(0));
}

TEST(ShardedLockTest, PartsDoNotWaitForEachOther) {
  ShardedLock lock(2);
  lock.Lock(0);
  std::thread([&] {
    lock.Lock(1);
    lock.Unlock(1);
  }).join();  // would not end otherwise
  lock.Unlock(0);
  EXPECT_EQ(lock.counts().one.waited, 0u);
}

// Takes the lock by `hold` and lets another thread take it by `take`, again and again until that thread has had to
// wait, as `waited` tells. Returns whether the other thread ever got the lock before `let`.
template <class Hold, class Let, class Take, class Waited>
bool GetsALockThatIsHeld(Hold hold, Let let, Take take, Waited waited) {
  bool early = false;
  for (int round = 0; round < 5000 && waited() == 0; ++round) {
    std::atomic<bool> begun = false, got = false;
    hold();
    std::thread other([&] {
      begun = true;
      take();
      got = true;
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    early = early || got;
    let();
    other.join();
    if (early) break;
  }
  return early;
}

TEST(ShardedLockTest, AllPartsWaitForEachPart) {
  for (const size_t part : {0, 1, 2}) {
    ShardedLock lock(3);
    const auto take = [&] {
      lock.LockAll();
      lock.UnlockAll();
    };
    EXPECT_FALSE(GetsALockThatIsHeld([&] { lock.Lock(part); }, [&] { lock.Unlock(part); }, take,
                                     [&] { return lock.counts().all.waited; }));
    EXPECT_GT(lock.counts().all.waited, 0u);
    EXPECT_GT(lock.counts().all.time, nanoseconds(0));
    EXPECT_EQ(lock.counts().one.waited, 0u);
  }
}

TEST(ShardedLockTest, EachPartWaitsForAllParts) {
  for (const size_t part : {0, 1, 2}) {
    ShardedLock lock(3);
    const auto take = [&] {
      lock.Lock(part);
      lock.Unlock(part);
    };
    EXPECT_FALSE(GetsALockThatIsHeld([&] { lock.LockAll(); }, [&] { lock.UnlockAll(); }, take,
                                     [&] { return lock.counts().one.waited; }));
    EXPECT_GT(lock.counts().one.waited, 0u);
    EXPECT_GT(lock.counts().one.time, nanoseconds(0));
    EXPECT_EQ(lock.counts().all.waited, 0u);
  }
}

// ThreadSanitizer reports what the lock does not protect.
TEST(ShardedLockTest, ProtectsWhatEachPartAndAllPartsChange) {
  constexpr size_t kParts = 4, kRounds = 2000;
  ShardedLock lock(kParts);
  std::array<size_t, kParts> each{};
  size_t together = 0;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t round = 0; round < kRounds; ++round) {
        if (round % 8 == thread) {
          lock.LockAll();
          for (size_t& one : each) ++one;
          ++together;
          lock.UnlockAll();
        } else {
          const size_t part = (thread + round) % kParts;
          lock.Lock(part);
          ++each[part];
          lock.Unlock(part);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t sum = 0;
  for (const size_t one : each) sum += one;
  EXPECT_EQ(together, 4 * kRounds / 8);
  EXPECT_EQ(sum, 4 * kRounds - together + kParts * together);
  EXPECT_EQ(lock.counts().one.taken + lock.counts().all.taken, 4 * kRounds);
}

}  // namespace
}  // namespace penstock
