#include "rpc/reply_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace penstock::rpc {
namespace {

using Outcome = ReplyCache::Outcome;

CallKey Key(uint32_t xid) {
  CallKey key;
  key.xid = Xid(xid);
  return key;
}
Message MakeReply(BufferPool& pool, uint32_t word) {
  BufferRef buffer = pool.Allocate(4);
  StoreBig(buffer->data(), word);
  Message reply;
  reply.stream = Slice(buffer, ConstBytes(buffer->bytes().first(4)));
  return reply;
}
uint32_t WordOf(const Message& reply) { return LoadBig<uint32_t>(reply.stream.data()); }

struct ReplyCacheTest : ::testing::Test {
  // Starts and finishes a call. False where it was not a new one.
  bool Execute(ReplyCache& cache, uint32_t xid) {
    ReplyCache::Waiter waiter;
    const auto found = cache.Start(Key(xid), now, waiter);
    if (found.outcome != Outcome::kExecute) return false;
    cache.Finish(found.ticket, MakeReply(pool, xid), now, nullptr);
    return true;
  }
  BufferPool pool;
  TimePoint now{};
};

TEST_F(ReplyCacheTest, GivesTheBytesOfTheFirstReply) {
  ReplyCache cache;
  EXPECT_TRUE(Execute(cache, 1));
  ReplyCache::Waiter waiter;
  const auto found = cache.Start(Key(1), now, waiter);
  ASSERT_EQ(found.outcome, Outcome::kReplay);
  EXPECT_EQ(WordOf(found.reply), 1u);
  EXPECT_EQ(pool.outstanding(), 1u) << "by reference";
}

TEST_F(ReplyCacheTest, ForgetsTheOldestAboveItsNumberOfEntries) {
  ReplyCache cache({.entries = 64});
  for (uint32_t xid = 0; xid < 1000; ++xid) {
    EXPECT_TRUE(Execute(cache, xid));
    EXPECT_FALSE(Execute(cache, xid));
    EXPECT_LE(cache.entries(), 64u);
  }
  EXPECT_GT(cache.entries(), 48u);
  EXPECT_TRUE(Execute(cache, 0));
  EXPECT_EQ(pool.outstanding(), cache.entries());
}

TEST_F(ReplyCacheTest, ForgetsTheOldestAboveItsOctets) {
  ReplyCache cache({.entries = 10'000, .octets = 64 * 512});
  for (uint32_t xid = 0; xid < 1000; ++xid) {
    EXPECT_TRUE(Execute(cache, xid));
    EXPECT_LE(cache.octets(), 64u * 512);
  }
  EXPECT_EQ(cache.octets(), 512 * cache.entries());
}

TEST_F(ReplyCacheTest, ForgetsWhatIsTooOld) {
  ReplyCache cache({.age = std::chrono::seconds(10)});
  EXPECT_TRUE(Execute(cache, 1));
  now += std::chrono::seconds(10);
  EXPECT_FALSE(Execute(cache, 1));
  now += std::chrono::nanoseconds(1);
  EXPECT_TRUE(Execute(cache, 1));
}

TEST_F(ReplyCacheTest, WhereEverythingIsInProgressNewCallsAreExecutedUnremembered) {
  ReplyCache cache({.entries = 16});
  std::vector<uint32_t> tickets;
  int uncached = 0;
  for (uint32_t xid = 0; xid < 1000; ++xid) {
    ReplyCache::Waiter waiter;
    const auto found = cache.Start(Key(xid), now, waiter);
    if (found.outcome == Outcome::kExecute) tickets.push_back(found.ticket);
    uncached += found.outcome == Outcome::kUncached;
  }
  EXPECT_EQ(tickets.size(), 16u);
  EXPECT_EQ(uncached, 984);
  for (uint32_t ticket : tickets) cache.Finish(ticket, {}, now, nullptr);
  EXPECT_EQ(cache.entries(), 0u) << "nothing was answered";
  EXPECT_TRUE(Execute(cache, 5000));
}

TEST_F(ReplyCacheTest, AnUnansweredCallReleasesItsDuplicates) {
  ReplyCache cache;
  ReplyCache::Waiter first;
  ReplyCache::Waiter second;
  const auto found = cache.Start(Key(1), now, first);
  ASSERT_EQ(cache.Start(Key(1), now, second).outcome, Outcome::kWait);
  cache.Finish(found.ticket, {}, now, nullptr);
  EXPECT_TRUE(second.reply.is_set());
  EXPECT_TRUE(Execute(cache, 1));
}

TEST(ArgumentChecksum, CoversTheBeginningAndEveryOctetOfIt) {
  std::vector<std::byte> arguments(300);
  const uint64_t before = ArgumentChecksum(arguments);
  for (size_t i = 0; i < 256; ++i) {
    arguments[i] = std::byte{1};
    EXPECT_NE(ArgumentChecksum(arguments), before) << i;
    arguments[i] = {};
  }
  arguments[256] = std::byte{1};
  EXPECT_EQ(ArgumentChecksum(arguments), before);
  EXPECT_NE(ArgumentChecksum(ConstBytes(arguments).first(3)), ArgumentChecksum(ConstBytes(arguments).first(17)));
}

TEST(CacheAddress, TreatsMappedAddressesAsTheSameClient) {
  EXPECT_EQ(CacheAddress(asio::ip::make_address("192.0.2.1")),
            CacheAddress(asio::ip::make_address("::ffff:192.0.2.1")));
  EXPECT_NE(CacheAddress(asio::ip::make_address("192.0.2.1")), CacheAddress(asio::ip::make_address("192.0.2.2")));
}

// Calls and their duplicates on two loops: each XID is executed once, and both get its reply on their own thread.
Task<void> CallAndCheck(ReplyCache& cache, Loop& loop, uint32_t xid, std::vector<std::atomic<int>>& executed,
                        std::atomic<int>& left) {
  ReplyCache::Waiter waiter{.loop = &loop};
  ReplyCache::Found found = cache.Start(Key(xid), loop.Now(), waiter);
  Message reply;
  if (found.outcome == Outcome::kExecute) {
    ++executed[xid];
    Completion<> turn;
    loop.Post([&turn] { turn.Set(); });
    co_await turn;
    reply = MakeReply(loop.buffers(), xid);
    cache.Finish(found.ticket, reply, loop.Now(), &loop);
  } else if (found.outcome == Outcome::kWait) {
    const auto thread = std::this_thread::get_id();
    reply = co_await waiter.reply;
    EXPECT_EQ(std::this_thread::get_id(), thread);
  } else {
    EXPECT_EQ(found.outcome, Outcome::kReplay);
    reply = found.reply;
  }
  EXPECT_EQ(WordOf(reply), xid);
  if (--left == 0) loop.Stop();
}

TEST(ReplyCache, ServesTwoLoops) {
  constexpr uint32_t kCalls = 2000;
  ReplyCache cache({.entries = 100'000});
  std::vector<std::atomic<int>> executed(kCalls);
  std::array<Loop, 2> loops;
  std::array<std::atomic<int>, 2> left{kCalls, kCalls};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      loops[i].Post([&, i] {
        for (uint32_t xid = 0; xid < kCalls; ++xid) {
          loops[i].Post([&, i, xid] { Spawn(CallAndCheck(cache, loops[i], xid, executed, left[i])); });
        }
      });
      loops[i].Run();
    });
  }
  for (auto& thread : threads) thread.join();
  for (uint32_t xid = 0; xid < kCalls; ++xid) EXPECT_EQ(executed[xid], 1);
}

}  // namespace
}  // namespace penstock::rpc
