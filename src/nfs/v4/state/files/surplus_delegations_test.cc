// Delegations::ReduceSurplus() takes delegations back while there are too many (RFC 8881 §20.6).
#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Reach = Delegations::Reach;

class SurplusTest : public FilesTest {
 protected:
  // Pressure begins with 28 delegations and ends with 24.
  SurplusTest() : SurplusTest({.delegations = 32}) {}
  explicit SurplusTest(const Files::Limits& limits) : FilesTest(limits) {}

  // Asks for a read delegation of a file that no other client has.
  bool Get(ClientId client) {
    const NamedFile name = NameOf(std::to_string(client.value()) + " " + std::to_string(++files_made_));
    const auto given =
        files.delegations.Delegate({.client = client,
                                    .file = name,
                                    .dialect = DialectOf(ReachOf(client) == Reach::kRecall ? 0 : 1),
                                    .facts = {.want = Want::kNoPreference, .share = {kRead, 0}, .can_call_back = true}},
                                   now);
    if (!given.is_read()) return false;
    held[client].push_back({given.read().stateid, name.handle});
    return true;
  }
  void Get(ClientId client, size_t count) {
    for (size_t i = 0; i < count; ++i) ASSERT_TRUE(Get(client)) << i;
  }
  // The client returns its newest delegations until it has `keep`.
  void Keep(ClientId client, size_t keep) {
    for (auto& own = held[client]; own.size() > keep; own.pop_back()) Return(own.back().id, own.back().file);
  }
  void Return(const stateid4& id, const FileHandle& of) {
    files.delegations.Return(**files.Find<DelegationState>(Presenter{DialectOf(1), std::nullopt}, id, of), now);
  }
  // Takes delegations back once. Returns the CB_RECALL_ANY calls; `recalls` gets the CB_RECALL calls.
  std::vector<RecallAny> Reduce() {
    files.delegations.ReduceSurplus(now, [&](ClientId client) { return ReachOf(client); });
    recalls = files.delegations.TakeRecalls();
    return files.delegations.TakeRecallAnys();
  }
  bool pressed() const { return files.delegations.pressure().on(); }
  Reach ReachOf(ClientId client) const {
    const auto found = reach.find(client);
    return found == reach.end() ? Reach::kRecallAny : found->second;
  }

  struct Held {
    stateid4 id;
    FileHandle file;
  };
  std::map<ClientId, std::deque<Held>> held;  // in the order in which they were given
  std::map<ClientId, Reach> reach;
  std::vector<DelegationRecall> recalls;
  const ClientId carol{0x0303};

 private:
  size_t files_made_ = 0;
};

TEST_F(SurplusTest, TakesNothingBelowTheHighMark) {
  Get(alice, 27);
  EXPECT_THAT(Reduce(), IsEmpty());
  EXPECT_TRUE(Get(alice));
}

TEST_F(SurplusTest, AsksTheClientWithTheMostAndNotTheOneWithFew) {
  Get(bob, 4);
  Get(alice, 24);
  EXPECT_THAT(Reduce(), ElementsAre(RecallAny{alice, 20}));
  EXPECT_THAT(recalls, IsEmpty());
}

TEST_F(SurplusTest, AsksAllClientsAboveTheLevelForTheSameNumber) {
  Get(carol, 3);
  Get(bob, 11);
  Get(alice, 14);
  EXPECT_THAT(Reduce(), ElementsAre(RecallAny{alice, 10}, RecallAny{bob, 10}));
}

TEST_F(SurplusTest, EndsWhenTheClientHasFollowed) {
  Get(bob, 4);
  Get(alice, 24);
  Reduce();
  EXPECT_FALSE(Get(alice));
  Keep(alice, 20);
  EXPECT_TRUE(pressed());
  EXPECT_THAT(Reduce(), IsEmpty());
  EXPECT_FALSE(pressed());
  EXPECT_TRUE(Get(alice));
}

TEST_F(SurplusTest, GivesNewDelegationsToClientsBelowTheLevelOnly) {
  Get(bob, 4);
  Get(alice, 24);
  EXPECT_FALSE(Get(alice)) << "before the level is calculated";
  EXPECT_TRUE(Get(bob));
  Reduce();
  EXPECT_FALSE(Get(alice));
  Get(bob, 2);
  EXPECT_TRUE(Get(carol));
  EXPECT_FALSE(Get(bob)) << "there are as many as the limit";
}

TEST_F(SurplusTest, DoesNotAskAgainWhileTheClientFollows) {
  Get(bob, 4);
  Get(alice, 24);
  ASSERT_THAT(Reduce(), SizeIs(1));
  Get(carol, 3);  // the level is lower now
  for (int i = 0; i < 89; ++i) {
    now += seconds(1);
    if (i == 30) Keep(alice, 22);
    EXPECT_THAT(Reduce(), IsEmpty());
    EXPECT_THAT(recalls, IsEmpty());
  }
}

TEST_F(SurplusTest, AsksAgainAfterAQuarterOfTheLease) {
  Get(bob, 4);
  Get(alice, 24);
  ASSERT_THAT(Reduce(), SizeIs(1));
  Keep(alice, 20);
  Reduce();
  ASSERT_FALSE(pressed());
  Get(carol, 4);
  ASSERT_TRUE(pressed());
  now += seconds(22);
  EXPECT_THAT(Reduce(), IsEmpty());
  now += seconds(1);
  EXPECT_THAT(Reduce(), ElementsAre(RecallAny{alice, 16}));
}

// RFC 8881 §20.6.4: not before a lease time is over.
TEST_F(SurplusTest, RecallsTheOldestDelegationsOfAClientThatDoesNotFollow) {
  Get(bob, 4);
  Get(alice, 24);
  Reduce();
  now += seconds(89);
  Reduce();
  EXPECT_THAT(recalls, IsEmpty());
  now += seconds(1);
  EXPECT_THAT(Reduce(), IsEmpty());
  ASSERT_THAT(recalls, SizeIs(4));
  for (size_t i = 0; i < recalls.size(); ++i) {
    EXPECT_EQ(recalls[i].client, alice);
    EXPECT_EQ(recalls[i].stateid.other, held[alice][i].id.other);
  }
  now += seconds(1);
  Reduce();
  EXPECT_THAT(recalls, IsEmpty()) << "enough are recalled";
}

TEST_F(SurplusTest, RevokesRecalledDelegationsThatAreNotReturned) {
  Get(bob, 4);
  Get(alice, 24);
  Reduce();
  now += seconds(90);
  Reduce();
  ASSERT_THAT(recalls, SizeIs(4));
  const Held returned = held[alice][0], kept = held[alice][1];
  Return(returned.id, returned.file);
  now += seconds(89);
  Reduce();
  EXPECT_EQ(files.Test(In1(alice), kept.id), NFS4_OK);
  now += seconds(1);
  Reduce();
  EXPECT_TRUE(files.delegations.HasRevoked(alice));
  EXPECT_EQ(files.Test(In1(alice), kept.id), NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(files.Test(In1(alice), held[alice][4].id), NFS4_OK);
  EXPECT_EQ(files.delegations.count(), 24u);
  Reduce();
  EXPECT_FALSE(pressed());
  for (const Held& each : held[bob]) EXPECT_EQ(files.Test(In1(bob), each.id), NFS4_OK);
}

// The client was asked to keep 20. It may keep 20 until it is asked for fewer.
TEST_F(SurplusTest, RecallsNoMoreThanTheClientWasAskedFor) {
  Get(bob, 4);
  Get(alice, 24);
  Reduce();
  Get(carol, 4);
  now += seconds(90);
  Reduce();
  EXPECT_EQ(files.delegations.pressure().level(), 16u);
  EXPECT_THAT(recalls, SizeIs(4));
  for (const DelegationRecall& each : recalls) Return(each.stateid, each.file);
  EXPECT_THAT(Reduce(), ElementsAre(RecallAny{alice, 16}));
}

TEST_F(SurplusTest, RecallsAtOnceFromAClientWithoutCbRecallAny) {
  reach[alice] = Reach::kRecall;
  Get(bob, 4);
  Get(alice, 24);
  EXPECT_THAT(Reduce(), IsEmpty());
  ASSERT_THAT(recalls, SizeIs(4));
  EXPECT_EQ(recalls[0].stateid, held[alice][0].id);
}

TEST_F(SurplusTest, RecallsAtOnceFromAClientThatRefusesCbRecallAny) {
  Get(bob, 4);
  Get(alice, 24);
  EXPECT_THAT(Reduce(), SizeIs(1));
  files.delegations.HandleRecallAnyRefused(alice);
  EXPECT_THAT(Reduce(), IsEmpty());
  EXPECT_THAT(recalls, SizeIs(4));
}

TEST_F(SurplusTest, LeavesAClientThatIsAboutToEndAlone) {
  reach[alice] = Reach::kNone;
  Get(alice, 28);
  EXPECT_THAT(Reduce(), IsEmpty());
  now += seconds(90);
  EXPECT_THAT(Reduce(), IsEmpty());
  EXPECT_THAT(recalls, IsEmpty());
  EXPECT_TRUE(files.delegations.HasSurplus(alice));
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_FALSE(files.delegations.HasSurplus(alice));
  Reduce();
  EXPECT_FALSE(pressed());
}

TEST_F(SurplusTest, AnAnswerThatCameTooLateIsNotOwedAnyMore) {
  Get(bob, 4);
  Get(alice, 24);
  const RecallAny asked = Reduce().at(0);
  EXPECT_TRUE(files.delegations.IsOwed(asked));
  EXPECT_FALSE(files.delegations.IsOwed({bob, 20}));
  EXPECT_FALSE(files.delegations.IsOwed({alice, 19}));
  Keep(alice, 20);
  EXPECT_FALSE(files.delegations.IsOwed(asked));
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_FALSE(files.delegations.IsOwed(asked));
}

// The client did not follow before the pressure ended by itself. The next pressure begins with a new request.
TEST_F(SurplusTest, ForgetsARequestWhenThePressureEnds) {
  Get(bob, 4);
  Get(alice, 24);
  Reduce();
  Keep(bob, 0);
  Reduce();
  ASSERT_FALSE(pressed());
  now += seconds(100);
  Get(carol, 4);
  EXPECT_THAT(Reduce(), ElementsAre(RecallAny{alice, 20}));
  EXPECT_THAT(recalls, IsEmpty());
}

// A recall for a conflicting request counts.
TEST_F(SurplusTest, RecallsNoMoreIfOtherRecallsAreEnough) {
  reach[alice] = Reach::kRecall;
  Get(bob, 4);
  Get(alice, 24);
  for (size_t i = 10; i < 14; ++i) {
    const Held& each = held[alice][i];
    files.delegations.RecallFor({each.file, {1, each.file.object}}, bob, Delegations::Use::kWrite, now);
  }
  EXPECT_THAT(files.delegations.TakeRecalls(), SizeIs(4));
  Reduce();
  EXPECT_THAT(recalls, IsEmpty());
}

// Reclaimed delegations may exceed the limit, for example because it was lowered before the restart.
TEST_F(SurplusTest, ReclaimedDelegationsBeginThePressure) {
  for (size_t i = 0; i < 40; ++i) {
    files.delegations.ReclaimDelegation(alice, NameOf(std::to_string(i)), {.write = false}, true, DialectOf(1), {},
                                        now);
  }
  EXPECT_THAT(Reduce(), ElementsAre(RecallAny{alice, 24}));
}

// Clients that follow, clients that do not, conflicts, and clients that end, in random order.
TEST_F(SurplusTest, RandomUseLeavesTheTablesConsistent) {
  std::mt19937 random(20240911);
  const auto below = [&](size_t limit) { return random() % limit; };
  reach[ClientId(4)] = Reach::kRecall;
  size_t pressures = 0;
  for (int step = 0; step < 5000; ++step) {
    const ClientId client(1 + below(5));
    auto& own = held[client];
    const size_t kind = below(20);
    if (kind < 13) {
      const bool admitted = !pressed() || own.size() < files.delegations.pressure().level();
      const bool given = Get(client);
      EXPECT_LE(given, admitted);
    } else if (kind < 15 && client.value() != 5) {  // the fifth client returns nothing
      Keep(client, own.size() - std::min<size_t>(own.size(), below(4)));
    } else if (kind == 15) {
      now += seconds(below(30));
    } else if (kind == 16 && !own.empty()) {
      const FileHandle file = own[below(own.size())].file;
      files.delegations.RecallFor({file, {1, file.object}}, std::nullopt, Delegations::Use::kWrite, now);
    } else if (kind == 17 && below(50) == 0) {
      files.ForgetClient(client, Ending::kExpired, now);
    } else {
      pressures += pressed();
      for (const RecallAny& asked : Reduce()) {
        EXPECT_EQ(ReachOf(asked.client), Reach::kRecallAny);
        EXPECT_GT(held[asked.client].size(), asked.keep);
        EXPECT_TRUE(files.delegations.HasSurplus(asked.client));
      }
    }
    // Forgets what was revoked or has ended.
    for (auto& [each, delegations] : held) {
      std::erase_if(delegations, [&](const Held& one) { return files.Test(In1(each), one.id) != NFS4_OK; });
    }
    ASSERT_LE(files.delegations.count(), 32u);
    if (step % 20 == 0) ASSERT_STREQ(files.FindInconsistency(), nullptr) << "step " << step;
  }
  EXPECT_GT(pressures, 50u) << "the steps make pressure";
}

class ManyDelegationsTest : public SurplusTest {
 protected:
  ManyDelegationsTest() : SurplusTest({.delegations = 12000}) {}
};

// The callbacks of one client leave room for those of the others.
TEST_F(ManyDelegationsTest, LimitsTheRecalledDelegationsOfAClient) {
  reach[alice] = reach[bob] = Reach::kRecall;
  Get(alice, 6000);
  Get(bob, 4500);
  EXPECT_THAT(Reduce(), IsEmpty());
  ASSERT_EQ(files.delegations.pressure().level(), 4500u);
  EXPECT_THAT(recalls, SizeIs(512));
  Reduce();
  EXPECT_THAT(recalls, IsEmpty());
  for (size_t i = 0; i < 10; ++i) {
    Return(held[alice].front().id, held[alice].front().file);
    held[alice].pop_front();
  }
  Reduce();
  EXPECT_THAT(recalls, SizeIs(10));
}

class ManyHoldersTest : public SurplusTest {
 protected:
  ManyHoldersTest() : SurplusTest({.delegations = 1024}) {}
};

TEST_F(ManyHoldersTest, AsksSomeClientsAtATime) {
  for (uint64_t i = 0; i < 448; ++i) Get(ClientId(i + 1), 2);
  const auto first = Reduce();
  EXPECT_THAT(first, SizeIs(256));
  EXPECT_EQ(first[0].keep, 1u);
  EXPECT_THAT(Reduce(), SizeIs(192));
  EXPECT_THAT(Reduce(), IsEmpty());
}

class VeryManyDelegationsTest : public SurplusTest {
 protected:
  VeryManyDelegationsTest() : SurplusTest({.delegations = 20000}) {}
};

TEST_F(VeryManyDelegationsTest, LimitsTheRecalledDelegationsOfAllClients) {
  for (uint64_t i = 1; i <= 5; ++i) {
    reach[ClientId(i)] = Reach::kRecall;
    Get(ClientId(i), 3500);
  }
  Reduce();
  ASSERT_EQ(files.delegations.pressure().level(), 3000u);
  EXPECT_THAT(recalls, SizeIs(2048));
}

}  // namespace
}  // namespace penstock::nfs::v4
