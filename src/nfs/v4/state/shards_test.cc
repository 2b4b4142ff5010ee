// Visits to shards: what runs at the same time, what waits, and that no thread sees half a change.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {
namespace {

constexpr size_t kLoops = 16;

class ShardsTest : public testing::Test {
 protected:
  struct Opened {
    ClientId client;
    SessionId session;
    uint32_t sequence = 0;  // of the last request on slot 0
  };

  // Makes a confirmed client with a session.
  Opened Open(std::string_view owner) {
    return state_.Run([&](StateTables& tables) -> Opened {
      const auto exchanged =
          tables.Exchange({.verifier = Verifier(1), .owner = owner, .dialect = DialectOf(1)}, User(0), kNow);
      const auto created = tables.CreateSession({.client = exchanged->id,
                                                 .sequence = exchanged->sequence,
                                                 .back_channel = false,
                                                 .fore = PlainChannel(),
                                                 .back = PlainChannel(),
                                                 .callback_program = 0x40000000},
                                                SessionConnection{.number = 1}, User(0), exchanged->id.value(), kNow);
      return {exchanged->id, created.reply.csr_resok4().csr_sessionid};
    });
  }
  // Executes a request, and keeps an answer of `text`. Returns the status of SEQUENCE.
  nfs4::nfsstat4 Request(Opened& client, std::string_view text) {
    const nfs4::SEQUENCE4args arguments{.sa_sessionid = client.session,
                                        .sa_sequenceid = ++client.sequence,
                                        .sa_slotid = 0,
                                        .sa_highest_slotid = 0,
                                        .sa_cachethis = true};
    const Shard shard = Shard::Of(client.session);
    const auto started = state_.RunInShard(shard, [&](ShardTables& tables) {
      return tables.StartRequest(arguments, {.size = 200, .operations = 2}, SessionConnection{.number = 1}, kNow);
    });
    if (!started) return started.error();
    const xdr::Message reply = xdr::Message::Whole(Slice::Borrowed(AsBytes(text)));
    state_.RunInShard(shard, [&](ShardTables& tables) {
      tables.FinishRequest(client.session, SlotId(0), SequenceId(client.sequence), reply, kNow);
    });
    return nfs4::NFS4_OK;
  }
  void End(ClientId client) {
    state_.Run([&](StateTables& tables) { tables.End(client, kNow); });
  }
  const char* FindInconsistency() {
    return state_.Run([](StateTables& tables) { return tables.FindInconsistency(); });
  }
  static NamedFile FileOf(std::string_view name) { return {{ExportId(1), *fs::Handle::FromBytes(AsBytes(name))}, {}}; }

  static constexpr TimePoint kNow{std::chrono::hours(1)};
  Settings settings_;
  State state_{{.settings = settings_, .instance = 7}, kLoops};
};

TEST_F(ShardsTest, TheIdOfASessionNamesTheShardOfItsClient) {
  for (int i = 0; i < 40; ++i) {
    const Opened opened = Open(fmt::format("client {}", i));
    EXPECT_EQ(Shard::Of(opened.session), Shard::Of(opened.client));
  }
  EXPECT_STREQ(FindInconsistency(), nullptr);
}

TEST_F(ShardsTest, ClientsThatFollowEachOtherHaveDifferentShards) {
  const ClientId first = Open("first").client;
  const ClientId second = Open("second").client;
  EXPECT_NE(Shard::Of(first), Shard::Of(second));
}

TEST_F(ShardsTest, VisitsToTwoShardsRunAtTheSameTime) {
  const Opened one = Open("one");
  Opened other = Open("other");
  std::atomic<bool> ended = false;
  std::thread thread;
  state_.RunInShard(Shard::Of(one.client), [&](ShardTables&) {
    thread = std::thread([&] {
      EXPECT_EQ(Request(other, "reply"), nfs4::NFS4_OK);
      ended = true;
    });
    for (int tries = 0; tries < 20'000 && !ended; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(ended);
  });
  thread.join();
}

TEST_F(ShardsTest, NoShardIsVisitedDuringRun) {
  std::vector<Opened> clients;
  for (size_t i = 0; i < Shard::kCount; ++i) clients.push_back(Open(fmt::format("client {}", i)));
  std::atomic<size_t> begun = 0, ended = 0;
  std::vector<std::thread> threads;
  const size_t early = state_.Run([&](StateTables&) {
    for (Opened& client : clients) {
      threads.emplace_back([&] {
        ++begun;
        EXPECT_EQ(Request(client, "reply"), nfs4::NFS4_OK);
        ++ended;
      });
    }
    while (begun < clients.size()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return ended.load();
  });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(early, 0u);
  EXPECT_EQ(ended, clients.size());
}

TEST_F(ShardsTest, CountsTheVisitsOfEachKind) {
  Opened client = Open("client");
  const ShardedLock::Counts before = state_.visits();
  EXPECT_EQ(Request(client, "reply"), nfs4::NFS4_OK);
  EXPECT_EQ(state_.visits().one.taken, before.one.taken + 2);
  EXPECT_EQ(state_.visits().all.taken, before.all.taken);
}

// ThreadSanitizer reports what visits to shards share and change.
TEST_F(ShardsTest, ManyThreadsMixVisitsOfAllKinds) {
  constexpr size_t kThreads = 4, kRounds = 400;
  std::atomic<size_t> requests = 0;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<Opened> clients;
      for (int i = 0; i < 3; ++i) clients.push_back(Open(fmt::format("thread {} client {}", thread, i)));
      const NamedFile shared = FileOf("shared");
      std::optional<nfs4::stateid4> open;
      for (size_t round = 0; round < kRounds; ++round) {
        Opened& client = clients[round % clients.size()];
        EXPECT_EQ(Request(client, "a reply"), nfs4::NFS4_OK);
        ++requests;
        if (round % 8 == 0) {
          open = state_.Run([&](StateTables& tables) {
            OpenOwner* const owner = tables.files.owners.GetOpenOwner(client.client, AsBytes("owner"), kNow);
            return tables.files.opens
                .AddOpen(*owner, shared, Share{nfs4::OPEN4_SHARE_ACCESS_READ, 0}, nullptr, DialectOf(1), kNow)
                .stateid;
          });
          const auto verdict = state_.RunInShard(Shard::Of(client.client), [&](ShardTables& tables) {
            EXPECT_FALSE(tables.MustRecallFor(shared, client.client, Delegations::Use::kRead));
            EXPECT_EQ(tables.FindDialect(client.client), &DialectOf(1));
            tables.Renew(client.client, kNow);
            return tables.CheckIo({DialectOf(1), client.client}, *open, shared, false);
          });
          EXPECT_EQ(verdict.status, nfs4::NFS4_OK);
        }
        if (round % 16 == 15) {
          End(client.client);
          EXPECT_EQ(Request(client, "a reply"), nfs4::NFS4ERR_BADSESSION);
          client = Open(fmt::format("thread {} client {} round {}", thread, round % clients.size(), round));
        }
        if (round % 64 == 63) {
          state_.Run([&](StateTables& tables) {
            tables.BalanceReplies(kNow);
            EXPECT_TRUE(tables.Sweep(kNow).empty());
            EXPECT_FALSE(tables.LongestSilent(kNow));
          });
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(requests, kThreads * kRounds);
  EXPECT_STREQ(FindInconsistency(), nullptr);
  EXPECT_EQ(state_.Run([](StateTables& tables) { return tables.clients.client_count(); }), kThreads * 3);
}

}  // namespace
}  // namespace penstock::nfs::v4
