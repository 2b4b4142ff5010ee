#include "base/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock {
namespace {

using testing::ElementsAre;

class TurnsTest : public testing::Test {
 protected:
  static constexpr ClientKey kFirst{.host = 1, .connection = 1};
  static constexpr ClientKey kSecond{.host = 2, .connection = 1};

  void Push(const ClientKey& client, std::string name) {
    turns_.Push(client, [this, name = std::move(name)] { ran_.push_back(name); });
  }
  // Pushes `count` functions of each of so many connections of a host.
  void PushMany(uint64_t host, uint64_t connections, size_t count, const std::string& name) {
    for (uint64_t connection = 1; connection <= connections; ++connection) {
      for (size_t i = 0; i < count; ++i) Push({.host = host, .connection = connection}, name);
    }
  }
  // Starts the next function. Returns false if no client may have a thread.
  bool Begin(size_t free) {
    EXPECT_EQ(turns_.CanTake(free), turns_.CanTake(free)) << "CanTake() changes nothing";
    const bool can = turns_.CanTake(free);
    auto taken = turns_.Take(free);
    EXPECT_EQ(taken.has_value(), can);
    if (!taken) return false;
    taken->function();
    begun_.push_back(taken->client);
    return true;
  }
  void FinishAll() {
    for (const ClientKey& client : begun_) turns_.Finish(client);
    begun_.clear();
  }
  // Runs all functions one after the other, on one thread.
  std::vector<std::string> RunAll() {
    while (Begin(1)) FinishAll();
    return std::exchange(ran_, {});
  }

  Turns turns_;
  std::vector<std::string> ran_;
  std::vector<ClientKey> begun_;
};

TEST_F(TurnsTest, RunsTheFunctionsOfAClientInOrder) {
  for (const char* name : {"a", "b", "c"}) Push(kFirst, name);
  EXPECT_EQ(turns_.size(), 3u);
  EXPECT_THAT(RunAll(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(turns_.size(), 0u);
  EXPECT_EQ(turns_.held(), 0u);
}

TEST_F(TurnsTest, AlternatesBetweenClients) {
  for (const char* name : {"a1", "a2", "a3"}) Push(kFirst, name);
  Push(kSecond, "b1");
  Push(kSecond, "b2");
  EXPECT_THAT(RunAll(), ElementsAre("a1", "b1", "a2", "b2", "a3"));
}

TEST_F(TurnsTest, NewClientWaitsForOneFunctionOfEachOtherClient) {
  for (int i = 0; i < 1000; ++i) Push(kFirst, "many");
  ASSERT_TRUE(Begin(1));
  FinishAll();
  Push(kSecond, "one");
  EXPECT_TRUE(Begin(1));
  FinishAll();
  EXPECT_TRUE(Begin(1));
  EXPECT_THAT(ran_, ElementsAre("many", "many", "one"));
}

TEST_F(TurnsTest, AlternatesBetweenHostsFirstThenConnections) {
  for (uint64_t connection = 1; connection <= 3; ++connection) {
    const std::string name = "a" + std::to_string(connection);
    Push({.host = 1, .connection = connection}, name);
    Push({.host = 1, .connection = connection}, name);
  }
  for (int i = 0; i < 3; ++i) Push(kSecond, "b");
  EXPECT_THAT(RunAll(), ElementsAre("a1", "b", "a2", "b", "a3", "b", "a1", "a2", "a3"));
}

TEST_F(TurnsTest, GivesOneClientAQuarterOfTheThreads) {
  for (int i = 0; i < 16; ++i) Push(kFirst, "a");
  size_t free = 16;
  while (Begin(free)) --free;
  EXPECT_EQ(free, 12u);
  EXPECT_EQ(turns_.held(), 4u);
  // After its functions have finished, the client gets the same number of threads again.
  FinishAll();
  for (free = 16; Begin(free);) --free;
  EXPECT_EQ(free, 12u);
}

// The clients arrive one after the other, so that each takes as many threads as it may.
TEST_F(TurnsTest, KeepsAThreadFreeWhenClientsHang) {
  constexpr size_t kThreads = 48;
  size_t free = kThreads;
  for (uint64_t client = 1; client <= 10; ++client) {
    const ClientKey key{.host = client, .connection = client};
    for (size_t i = 0; i < 2 * kThreads; ++i) Push(key, "hangs");
    while (Begin(free)) --free;
    EXPECT_GE(free, 1u) << client;
  }
  Push({.host = 99, .connection = 99}, "bystander");
  EXPECT_TRUE(Begin(free));
  EXPECT_EQ(ran_.back(), "bystander");
}

// A host may have many connections. Threads must be left for several other hosts.
TEST_F(TurnsTest, GivesOneHostAThirdOfTheThreads) {
  constexpr size_t kThreads = 48;
  size_t free = kThreads;
  PushMany(1, 16, kThreads, "hangs");
  while (Begin(free)) --free;
  EXPECT_EQ(free, kThreads - kThreads / 3);
  for (uint64_t host = 2; host <= 7; ++host) {
    PushMany(host, 16, kThreads, "hangs as well");
    while (Begin(free)) --free;
    EXPECT_GE(free, 1u) << host;
  }
  Push({.host = 99, .connection = 1}, "bystander");
  EXPECT_TRUE(Begin(free));
  EXPECT_EQ(ran_.back(), "bystander");
}

// Many clients may be behind one address: those without a thread do not wait for those whose functions hang.
TEST_F(TurnsTest, GivesEachConnectionAThreadAlthoughItsHostHasItsShare) {
  constexpr size_t kThreads = 48;
  size_t free = kThreads;
  uint64_t connection = 1;
  for (; connection <= 4; ++connection) {
    for (size_t i = 0; i < kThreads; ++i) Push({.host = 1, .connection = connection}, "hangs");
    while (Begin(free)) --free;
  }
  for (; free > kThreads / 4; --free) {
    Push({.host = 1, .connection = ++connection}, "another client");
    ASSERT_TRUE(Begin(free));
    EXPECT_EQ(ran_.back(), "another client");
  }
  Push({.host = 1, .connection = ++connection}, "waits");
  EXPECT_FALSE(Begin(free)) << "the rest is for other hosts";
  Push({.host = 2, .connection = 1}, "of another host");
  EXPECT_TRUE(Begin(free));
  EXPECT_EQ(ran_.back(), "of another host");
}

// Connections of one host do not wait for each other's functions either.
TEST_F(TurnsTest, LeavesThreadsForAnotherConnectionOfTheHost) {
  for (int i = 0; i < 48; ++i) Push(kFirst, "hangs");
  size_t free = 48;
  while (Begin(free)) --free;
  Push({.host = kFirst.host, .connection = 2}, "bystander");
  EXPECT_TRUE(Begin(free));
  EXPECT_EQ(ran_.back(), "bystander");
}

TEST_F(TurnsTest, ReservesTheLastThreadForAHostWithoutOne) {
  for (uint64_t connection = 1; connection <= 9; ++connection) Push({.host = 1, .connection = connection}, "hangs");
  size_t free = 4;
  while (Begin(free)) --free;
  EXPECT_EQ(free, 1u);
  Push(kSecond, "bystander");
  EXPECT_TRUE(Begin(free));
  EXPECT_EQ(ran_.back(), "bystander");
}

TEST_F(TurnsTest, ClearRemovesWaitingFunctionsAndKeepsTheCounts) {
  for (int i = 0; i < 3; ++i) Push(kFirst, "a");
  Push(kSecond, "b");
  ASSERT_TRUE(Begin(8));
  EXPECT_EQ(turns_.Clear().size(), 3u);
  EXPECT_EQ(turns_.size(), 0u);
  EXPECT_FALSE(Begin(8));
  EXPECT_EQ(turns_.held(), 1u);
  FinishAll();
  Push(kFirst, "again");
  EXPECT_THAT(RunAll(), ElementsAre("a", "again"));
}

}  // namespace
}  // namespace penstock
