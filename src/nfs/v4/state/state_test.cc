#include "nfs/v4/state/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Records the notices. Uses the state while it sends, as the sender of callbacks may.
class RecordedNotices : public Notices {
 public:
  explicit RecordedNotices(State& state) : state_(state) {}
  void Send(const Owed& owed) override {
    sent.push_back(owed);
    clients = state_.Run([](StateTables& state) { return state.clients.client_count(); });
  }

  std::vector<Owed> sent;
  std::optional<size_t> clients;

 private:
  State& state_;
};

class StateTest : public testing::Test {
 protected:
  // Queues a recall of slots for a client.
  static void Owe(StateTables& state) {
    state.slot_recalls.push_back({.client = ClientId(1), .session = {}, .target_highest = SlotId(3)});
  }

  Settings settings_;
  State state_{{.settings = settings_, .instance = 7}};
  RecordedNotices notices_{state_};
};

TEST_F(StateTest, RunReturnsTheValueOfTheFunction) {
  EXPECT_FALSE(state_.Run([](StateTables& state) { return state.clients.InGrace(); }));
  const std::unique_ptr<int> moved = state_.Run([](StateTables&) { return std::make_unique<int>(5); });
  EXPECT_EQ(*moved, 5);
}

TEST_F(StateTest, RunSendsTheOwedNoticesOnceTheLockIsReleased) {
  state_.SendBy(notices_);
  state_.Run(Owe);
  ASSERT_THAT(notices_.sent, SizeIs(1));
  ASSERT_THAT(notices_.sent[0].slot_recalls, SizeIs(1));
  EXPECT_EQ(notices_.sent[0].slot_recalls[0].target_highest, SlotId(3));
  EXPECT_EQ(notices_.clients, 0u);
}

TEST_F(StateTest, RunSendsNothingIfNothingIsOwed) {
  state_.SendBy(notices_);
  state_.Run([](StateTables&) {});
  EXPECT_THAT(notices_.sent, IsEmpty());
}

TEST_F(StateTest, RunKeepsNoticesUntilItKnowsTheSender) {
  state_.Run(Owe);
  state_.SendBy(notices_);
  state_.Run([](StateTables&) {});
  EXPECT_THAT(notices_.sent, SizeIs(1));
}

TEST_F(StateTest, RunPublishesTheNumberOfClaims) {
  EXPECT_EQ(state_.claims(), 0u);
  state_.Run([](StateTables& state) {
    OpenOwner* const owner = state.files.owners.GetOpenOwner(ClientId(1), AsBytes("owner"), TimePoint());
    state.files.opens.AddOpen(*owner, {}, {nfs4::OPEN4_SHARE_ACCESS_READ, nfs4::OPEN4_SHARE_DENY_WRITE}, nullptr,
                              DialectOf(1), TimePoint());
  });
  EXPECT_EQ(state_.claims(), 1u);
}

#ifndef NDEBUG
using StateDeathTest = StateTest;

TEST_F(StateDeathTest, RunWithinRunEndsTheProgram) {
  const auto nested = [&](StateTables&) { state_.Run([](StateTables&) {}); };
  EXPECT_DEATH(state_.Run(nested), "Run");
}

TEST_F(StateDeathTest, AVisitToAShardWithinRunEndsTheProgram) {
  const Shard shard = Shard::Of(ClientId(1));
  const auto nested = [&](StateTables&) { state_.RunInShard(shard, [](ShardTables&) {}); };
  EXPECT_DEATH(state_.Run(nested), "RunInShard");
}

TEST_F(StateDeathTest, RunWithinAVisitToAShardEndsTheProgram) {
  const auto nested = [&](ShardTables&) { state_.Run([](StateTables&) {}); };
  EXPECT_DEATH(state_.RunInShard(Shard::Of(ClientId(1)), nested), "Run");
}

TEST_F(StateDeathTest, AClientOfAnotherShardEndsTheProgram) {
  const auto renew = [&](ShardTables& state) { state.Renew(ClientId(2), TimePoint()); };
  EXPECT_DEATH(state_.RunInShard(Shard::Of(ClientId(1)), renew), "Shard");
}
#endif

}  // namespace
}  // namespace penstock::nfs::v4
