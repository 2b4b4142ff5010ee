#include "rpc/reply_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace penstock::rpc {
namespace {

using Outcome = ReplyCache::Outcome;

CallKey Key(uint32_t xid, uint32_t client = 1) {
  CallKey key;
  StoreBig(key.address.data() + 12, client);
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
  // Starts and finishes a call of a client. Returns false if the call was not new.
  bool Execute(ReplyCache& cache, uint32_t xid, uint32_t client = 1, Keep keep = Keep::kChange) {
    ReplyCache::Waiter waiter;
    const auto found = cache.Start(Key(xid, client), 0, now, waiter);
    if (found.outcome != Outcome::kExecute) return false;
    cache.Finish(found.ticket, MakeReply(pool, xid), now, nullptr, keep);
    return true;
  }
  // Returns the outcome of a call over `connection`. A call to be executed is finished at once.
  Outcome Receive(ReplyCache& cache, uint32_t xid, uint64_t connection, Keep keep = Keep::kWrite) {
    ReplyCache::Waiter waiter;
    const auto found = cache.Start(Key(xid), connection, now, waiter);
    if (found.outcome == Outcome::kExecute) cache.Finish(found.ticket, MakeReply(pool, xid), now, nullptr, keep);
    return found.outcome;
  }
  // Returns true if the cache would replay a reply to the call.
  bool Remembers(ReplyCache& cache, uint32_t xid, uint32_t client = 1) {
    ReplyCache::Waiter waiter;
    const auto found = cache.Start(Key(xid, client), 0, now, waiter);
    if (found.outcome == Outcome::kExecute) cache.Finish(found.ticket, {}, now, nullptr);
    return found.outcome == Outcome::kReplay;
  }
  BufferPool pool;
  TimePoint now{};
};

TEST_F(ReplyCacheTest, ReplaysTheOctetsOfTheFirstReply) {
  ReplyCache cache;
  EXPECT_TRUE(Execute(cache, 1));
  ReplyCache::Waiter waiter;
  const auto found = cache.Start(Key(1), 0, now, waiter);
  ASSERT_EQ(found.outcome, Outcome::kReplay);
  EXPECT_EQ(WordOf(found.reply), 1u);
  EXPECT_EQ(pool.outstanding(), 1u) << "by reference";
}

TEST_F(ReplyCacheTest, KeepsTheLastRepliesOfAClient) {
  ReplyCache cache({.client_changes = 64, .client_writes = 8});
  for (uint32_t xid = 0; xid < 1000; ++xid) {
    EXPECT_TRUE(Execute(cache, xid));
    EXPECT_FALSE(Execute(cache, xid));
    EXPECT_EQ(cache.entries(), std::min(xid + 1, 64u));
  }
  EXPECT_FALSE(Execute(cache, 936));
  EXPECT_TRUE(Execute(cache, 935));
  EXPECT_EQ(pool.outstanding(), cache.entries());
}

TEST_F(ReplyCacheTest, WritesDoNotDisplaceOtherRepliesOfAClient) {
  ReplyCache cache({.client_changes = 64, .client_writes = 8});
  EXPECT_TRUE(Execute(cache, 0));
  for (uint32_t xid = 1; xid < 1000; ++xid) EXPECT_TRUE(Execute(cache, xid, 1, Keep::kWrite));
  EXPECT_EQ(cache.entries(), 9u);
  EXPECT_FALSE(Execute(cache, 0));
  EXPECT_FALSE(Execute(cache, 992));
  EXPECT_TRUE(Execute(cache, 991, 1, Keep::kWrite));
}

TEST_F(ReplyCacheTest, CountsALongReplyAsSeveralEntries) {
  ReplyCache cache({.client_changes = 64});
  for (uint32_t xid = 0; xid < 100; ++xid) {
    ReplyCache::Waiter waiter;
    const auto found = cache.Start(Key(xid), 0, now, waiter);
    ASSERT_EQ(found.outcome, Outcome::kExecute);
    BufferRef buffer = pool.Allocate(8 * ReplyCache::kEntryOctets);
    ConstBytes bytes = buffer->bytes();
    Message reply;
    reply.stream = Slice(std::move(buffer), bytes);
    cache.Finish(found.ticket, reply, now, nullptr);
    EXPECT_EQ(cache.entries(), std::min(xid + 1, 8u));
    EXPECT_EQ(cache.octets(), 8 * ReplyCache::kEntryOctets * cache.entries());
  }
}

// A former bug: after 9,000 SETATTRs of another client, a retransmitted REMOVE was executed twice.
TEST_F(ReplyCacheTest, ClientLosesNoRepliesToAnotherClient) {
  ReplyCache cache;
  EXPECT_TRUE(Execute(cache, 0));
  for (uint32_t xid = 0; xid < 50'000; ++xid) EXPECT_TRUE(Execute(cache, xid, 2));
  EXPECT_FALSE(Execute(cache, 0));
  EXPECT_EQ(cache.entries(), 1 + ReplyCache::Limits().client_changes);
}

TEST_F(ReplyCacheTest, TakesRoomFromTheClientWithMostEntries) {
  constexpr uint32_t kClients = 40;
  ReplyCache cache({.entries = 1000, .client_changes = 900, .client_writes = 900});
  for (uint32_t client = 1; client <= kClients; ++client) {
    for (uint32_t xid = 0; xid < 8; ++xid)
      EXPECT_TRUE(Execute(cache, xid, client, xid % 2 ? Keep::kWrite : Keep::kChange));
  }
  // Two clients that use as much as they can get.
  for (uint32_t xid = 0; xid < 5000; ++xid) {
    EXPECT_TRUE(Execute(cache, xid, 100, Keep::kWrite));
    EXPECT_TRUE(Execute(cache, xid, 101));
    EXPECT_LE(cache.entries(), 1000u);
  }
  EXPECT_EQ(cache.entries(), 1000u);
  for (uint32_t client = 1; client <= kClients; ++client) {
    for (uint32_t xid = 0; xid < 8; ++xid) EXPECT_TRUE(Remembers(cache, xid, client)) << client << " " << xid;
  }
  for (uint32_t client : {100u, 101u}) {
    for (uint32_t xid = 4750; xid < 5000; ++xid) EXPECT_TRUE(Remembers(cache, xid, client)) << client << " " << xid;
  }
}

TEST_F(ReplyCacheTest, AcceptsANewClientBeyondTheLimitOnlyWhenOneIsIdle) {
  constexpr uint32_t kClients = 10'000;
  ReplyCache cache({.clients = 64});
  for (uint32_t client = 0; client < kClients; ++client) Execute(cache, 1, client);
  EXPECT_EQ(cache.clients(), 64u);
  std::vector<uint32_t> known;
  for (uint32_t client = 0; client < kClients; ++client) {
    if (Remembers(cache, 1, client)) known.push_back(client);
  }
  EXPECT_EQ(known.size(), 64u) << "the first clients stay known";
  now += std::chrono::minutes(1);
  EXPECT_FALSE(Execute(cache, 1, kClients)) << "a client is remembered for a minute";
  now += std::chrono::nanoseconds(1);
  for (uint32_t client = kClients; client < 2 * kClients; ++client) Execute(cache, 1, client);
  EXPECT_EQ(cache.clients(), 64u);
  EXPECT_FALSE(Remembers(cache, 1, known.front()));
}

TEST_F(ReplyCacheTest, ForgetsIdleClients) {
  ReplyCache cache;
  for (uint32_t client = 1; client <= 100; ++client) {
    for (uint32_t xid = 0; xid < 20; ++xid) EXPECT_TRUE(Execute(cache, xid, client));
  }
  now += std::chrono::hours(1);
  for (uint32_t xid = 0; xid < 10'000; ++xid) {
    for (uint32_t client = 1000; client < 1064; ++client) Remembers(cache, xid, client);
    if (cache.clients() == 64) break;
  }
  EXPECT_EQ(cache.clients(), 64u);
  EXPECT_EQ(cache.entries(), 0u);
  EXPECT_EQ(pool.outstanding(), 0u);
}

TEST_F(ReplyCacheTest, ForgetsOldReplies) {
  ReplyCache cache({.age = std::chrono::seconds(10)});
  EXPECT_TRUE(Execute(cache, 1));
  now += std::chrono::seconds(10);
  EXPECT_FALSE(Execute(cache, 1));
  now += std::chrono::nanoseconds(1);
  EXPECT_TRUE(Execute(cache, 1));
}

TEST_F(ReplyCacheTest, ExecutesNewCallsUncachedWhenAllEntriesAreInProgress) {
  ReplyCache cache({.entries = 16});
  std::vector<uint32_t> tickets;
  int uncached = 0;
  for (uint32_t xid = 0; xid < 1000; ++xid) {
    ReplyCache::Waiter waiter;
    const auto found = cache.Start(Key(xid), 0, now, waiter);
    if (found.outcome == Outcome::kExecute) tickets.push_back(found.ticket);
    uncached += found.outcome == Outcome::kUncached;
  }
  EXPECT_EQ(tickets.size(), 8u);
  EXPECT_EQ(uncached, 992);
  for (uint32_t ticket : tickets) cache.Finish(ticket, {}, now, nullptr);
  EXPECT_EQ(cache.entries(), 0u) << "no call was answered";
  EXPECT_TRUE(Execute(cache, 5000));
}

TEST_F(ReplyCacheTest, CallWithoutReplyReleasesItsDuplicates) {
  ReplyCache cache;
  ReplyCache::Waiter first;
  ReplyCache::Waiter second;
  const auto found = cache.Start(Key(1), 0, now, first);
  ASSERT_EQ(cache.Start(Key(1), 0, now, second).outcome, Outcome::kWait);
  cache.Finish(found.ticket, {}, now, nullptr);
  EXPECT_TRUE(second.reply.is_set());
  EXPECT_TRUE(Execute(cache, 1));
}

TEST_F(ReplyCacheTest, NeverForgetsACallInProgress) {
  ReplyCache cache({.entries = 16, .client_changes = 4});
  ReplyCache::Waiter waiter;
  const auto found = cache.Start(Key(0), 0, now, waiter);
  ASSERT_EQ(found.outcome, Outcome::kExecute);
  for (uint32_t xid = 1; xid < 100; ++xid) {
    for (uint32_t client = 1; client < 10; ++client) Execute(cache, xid, client);
  }
  now += std::chrono::hours(1);
  ReplyCache::Waiter duplicate;
  EXPECT_EQ(cache.Start(Key(0), 0, now, duplicate).outcome, Outcome::kWait);
  cache.Finish(found.ticket, MakeReply(pool, 7), now, nullptr);
  ASSERT_TRUE(duplicate.reply.is_set());
  EXPECT_TRUE(Remembers(cache, 0));
}

// ---- connections that a client has abandoned ----

// Otherwise a WRITE that arrives late over the earlier connection would overwrite what the client has written since.
TEST_F(ReplyCacheTest, DropsALateCallOverAnAbandonedConnection) {
  ReplyCache cache;
  EXPECT_EQ(Receive(cache, 1, 11), Outcome::kExecute) << "a retransmission over a newer connection";
  EXPECT_EQ(Receive(cache, 2, 11), Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 1, 10), Outcome::kLeft) << "a late call over the abandoned connection";
  EXPECT_EQ(Receive(cache, 3, 10), Outcome::kLeft) << "another call over the abandoned connection";
  EXPECT_EQ(Receive(cache, 3, 11), Outcome::kExecute);
}

TEST_F(ReplyCacheTest, DropsUnreadCallsOfAConnectionThatTheClientAbandoned) {
  ReplyCache cache;
  EXPECT_EQ(Receive(cache, 1, 10), Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 1, 11), Outcome::kReplay);
  EXPECT_EQ(Receive(cache, 2, 11), Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 2, 10), Outcome::kLeft);
  EXPECT_EQ(Receive(cache, 3, 10), Outcome::kLeft);
  EXPECT_EQ(Receive(cache, 1, 12), Outcome::kReplay) << "a second retransmission";
  EXPECT_EQ(Receive(cache, 4, 11), Outcome::kLeft);
  EXPECT_EQ(Receive(cache, 4, 12), Outcome::kExecute);
}

TEST_F(ReplyCacheTest, RetransmissionOfACallInProgressMarksItsConnectionAbandoned) {
  ReplyCache cache;
  ReplyCache::Waiter waiter;
  const auto found = cache.Start(Key(1), 10, now, waiter);
  ASSERT_EQ(found.outcome, Outcome::kExecute);
  ReplyCache::Waiter duplicate;
  EXPECT_EQ(cache.Start(Key(1), 11, now, duplicate).outcome, Outcome::kWait);
  EXPECT_EQ(Receive(cache, 2, 10), Outcome::kLeft);
  cache.Finish(found.ticket, MakeReply(pool, 1), now, nullptr);
  EXPECT_TRUE(duplicate.reply.is_set());
}

// Other replies have displaced the late call's reply, so the cache no longer knows the call.
TEST_F(ReplyCacheTest, DropsALateCallWhoseReplyWasDisplaced) {
  ReplyCache cache({.client_writes = 8});
  EXPECT_EQ(Receive(cache, 1, 10), Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 2, 11), Outcome::kExecute) << "a retransmission over a newer connection";
  for (uint32_t xid = 100; xid < 200; ++xid) EXPECT_EQ(Receive(cache, xid, 11), Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 2, 10), Outcome::kLeft) << "a late call over the abandoned connection";
  EXPECT_EQ(Receive(cache, 2, 9), Outcome::kLeft) << "a late call over an unknown older connection";
  EXPECT_EQ(Receive(cache, 3, 11), Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 4, 12), Outcome::kExecute) << "the client connects anew";
}

TEST_F(ReplyCacheTest, DropsALateCallWhoseReplyExpired) {
  ReplyCache cache;
  EXPECT_EQ(Receive(cache, 1, 10), Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 2, 11), Outcome::kExecute);
  now += ReplyCache::Limits().age * 3 / 4;
  EXPECT_EQ(Receive(cache, 3, 11), Outcome::kExecute);
  now += ReplyCache::Limits().age * 3 / 4;
  EXPECT_EQ(Receive(cache, 2, 11), Outcome::kExecute) << "another call with its XID, after all this time";
  EXPECT_EQ(Receive(cache, 4, 10), Outcome::kLeft);
}

// For example Linux with nconnect, or several programs on one host.
TEST_F(ReplyCacheTest, AcceptsSeveralConnectionsOfAClientAtOnce) {
  ReplyCache cache({.client_writes = 16});
  for (uint32_t xid = 0; xid < 100; ++xid) EXPECT_EQ(Receive(cache, xid, 10 + xid % 4), Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 99, 13), Outcome::kReplay) << "a retransmission over the same connection";
  for (uint32_t xid = 100; xid < 200; ++xid) EXPECT_EQ(Receive(cache, xid, 10 + xid % 4), Outcome::kExecute);
}

// Many programs behind one address.
TEST_F(ReplyCacheTest, AcceptsManyConnectionsOfAClient) {
  ReplyCache cache({.client_writes = 4096});
  for (uint32_t xid = 0; xid < 30'000; ++xid) ASSERT_EQ(Receive(cache, xid, 10 + xid % 1000), Outcome::kExecute) << xid;
}

TEST_F(ReplyCacheTest, IgnoresConnectionsOfOtherClients) {
  ReplyCache cache;
  EXPECT_EQ(Receive(cache, 1, 10), Outcome::kExecute);
  ReplyCache::Waiter waiter;
  EXPECT_EQ(cache.Start(Key(1, 2), 11, now, waiter).outcome, Outcome::kExecute);
  EXPECT_EQ(Receive(cache, 2, 10), Outcome::kExecute);
}

}  // namespace
}  // namespace penstock::rpc
