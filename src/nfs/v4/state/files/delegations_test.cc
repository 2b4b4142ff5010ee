#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// ---- the decision

// The facts of an OPEN by a client that can be called back. No other client has state of the file.
DelegationFacts Facts(Want want = Want::kNoPreference, uint32_t access = OPEN4_SHARE_ACCESS_READ) {
  return {.want = want, .share = {access, 0}, .can_call_back = true};
}

TEST(DelegationPolicy, FollowsTheAccessOfTheOpenIfTheClientHasNoPreference) {
  EXPECT_EQ(Decide(Facts(Want::kNoPreference, OPEN4_SHARE_ACCESS_READ)).type, OPEN_DELEGATE_READ);
  EXPECT_EQ(Decide(Facts(Want::kNoPreference, OPEN4_SHARE_ACCESS_WRITE)).type, OPEN_DELEGATE_WRITE);
  EXPECT_EQ(Decide(Facts(Want::kNoPreference, OPEN4_SHARE_ACCESS_BOTH)).type, OPEN_DELEGATE_WRITE);
}

TEST(DelegationPolicy, FollowsThePreferenceRegardlessOfTheAccess) {
  for (const uint32_t access : {OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_BOTH}) {
    EXPECT_EQ(Decide(Facts(Want::kRead, access)).type, OPEN_DELEGATE_READ);
    EXPECT_EQ(Decide(Facts(Want::kWrite, access)).type, OPEN_DELEGATE_WRITE);
  }
  EXPECT_EQ(Decide(Facts(Want::kAny)).type, OPEN_DELEGATE_READ);
  EXPECT_EQ(Decide(Facts(Want::kAny, OPEN4_SHARE_ACCESS_BOTH)).type, OPEN_DELEGATE_WRITE);
}

void ExpectNone(const DelegationFacts& facts, why_no_delegation4 why) {
  const DelegationDecision decision = Decide(facts);
  EXPECT_EQ(decision.type, OPEN_DELEGATE_NONE);
  EXPECT_EQ(decision.why, why);
}

TEST(DelegationPolicy, GivesNoneToAClientThatWantsNone) {
  ExpectNone(Facts(Want::kNone), WND4_NOT_WANTED);
  ExpectNone(Facts(Want::kCancel), WND4_CANCELLED);
}

TEST(DelegationPolicy, GivesNoneToAClientThatCannotBeCalledBack) {
  DelegationFacts facts = Facts();
  facts.can_call_back = false;
  ExpectNone(facts, WND4_RESOURCE);
}

TEST(DelegationPolicy, GivesNoneWithoutAnOfferOrWithoutRoom) {
  DelegationFacts facts = Facts();
  facts.offered = false;
  ExpectNone(facts, WND4_RESOURCE);
  facts.offered = true;
  facts.room = false;
  ExpectNone(facts, WND4_RESOURCE);
}

TEST(DelegationPolicy, GivesNoneSoonAfterAConflict) {
  DelegationFacts facts = Facts();
  facts.recent_conflict = true;
  ExpectNone(facts, WND4_CONTENTION);
}

TEST(DelegationPolicy, GivesNoneWhileARequestChangesTheFile) {
  DelegationFacts facts = Facts();
  facts.changing = true;
  ExpectNone(facts, WND4_CONTENTION);
}

TEST(DelegationPolicy, GivesNoneIfOtherClientsWriteTheFile) {
  DelegationFacts facts = Facts();
  facts.others_open = facts.others_write = true;
  ExpectNone(facts, WND4_CONTENTION);
  facts = Facts();
  facts.others_hold = facts.others_hold_write = true;
  ExpectNone(facts, WND4_CONTENTION);
}

TEST(DelegationPolicy, GivesAReadDelegationIfOtherClientsOnlyRead) {
  DelegationFacts facts = Facts();
  facts.others_open = facts.others_hold = true;
  EXPECT_EQ(Decide(facts).type, OPEN_DELEGATE_READ);
  facts.want = Want::kAny;
  facts.share = {OPEN4_SHARE_ACCESS_BOTH, 0};
  EXPECT_EQ(Decide(facts).type, OPEN_DELEGATE_READ);
  facts.want = Want::kWrite;
  ExpectNone(facts, WND4_CONTENTION);
  facts.want = Want::kNoPreference;
  ExpectNone(facts, WND4_CONTENTION);
}

TEST(DelegationPolicy, GivesNoWriteDelegationOfAFileThatTheClientMayNotWrite) {
  DelegationFacts facts = Facts(Want::kWrite);
  facts.writable = false;
  ExpectNone(facts, WND4_RESOURCE);
}

TEST(DelegationPolicy, DoesNotUpgradeOrDowngradeAHeldDelegation) {
  DelegationFacts facts = Facts(Want::kWrite);
  facts.own_is_write = false;
  ExpectNone(facts, WND4_NOT_SUPP_UPGRADE);
  facts.want = Want::kRead;
  ExpectNone(facts, WND4_RESOURCE);
  facts.own_is_write = true;
  ExpectNone(facts, WND4_NOT_SUPP_DOWNGRADE);
}

TEST(RecentConflicts, RemembersAConflictForTheGivenTime) {
  RecentConflicts conflicts(std::chrono::seconds(30));
  const TimePoint now{std::chrono::hours(1)};
  EXPECT_FALSE(conflicts.Has(1, now));
  conflicts.Note(1, now);
  EXPECT_TRUE(conflicts.Has(1, now + std::chrono::seconds(29)));
  EXPECT_FALSE(conflicts.Has(1, now + std::chrono::seconds(30)));
  EXPECT_FALSE(conflicts.Has(1 + 1024, now));
}

// ---- the table

class DelegationsTest : public FilesTest {
 protected:
  using Use = Delegations::Use;
  explicit DelegationsTest(const Files::Limits& limits = {}) : FilesTest(limits) {}

  open_delegation4 Ask(ClientId client, Want want, uint32_t minor_version = 1) {
    return files.delegations.Delegate({.client = client,
                                       .file = file,
                                       .dialect = DialectOf(minor_version),
                                       .facts = {.want = want, .share = {kRead, 0}, .can_call_back = true}},
                                      now);
  }
  stateid4 ReadDelegation(ClientId client, uint32_t minor_version = 1) {
    const auto given = Ask(client, minor_version ? Want::kRead : Want::kNoPreference, minor_version);
    EXPECT_EQ(given.delegation_type(), OPEN_DELEGATE_READ);
    return given.read().stateid;
  }
  stateid4 WriteDelegation(ClientId client) {
    const auto given = Ask(client, Want::kWrite);
    EXPECT_EQ(given.delegation_type(), OPEN_DELEGATE_WRITE);
    return given.write().stateid;
  }
  std::vector<ClientId> Holders(std::optional<ClientId> except, Use use) {
    return files.delegations.RecallFor(file, except, use, now).holders;
  }
  void Return(const stateid4& id) {
    files.delegations.Return(**files.Find<DelegationState>(Presenter{DialectOf(1), std::nullopt}, id, file.handle),
                             now);
  }
};

TEST_F(DelegationsTest, GivesNoneUntilAllRequestsThatChangeTheFileHaveEnded) {
  files.delegations.BeginChange(file);
  files.delegations.BeginChange(file);
  EXPECT_EQ(Ask(alice, Want::kRead).delegation_type(), OPEN_DELEGATE_NONE_EXT);
  files.delegations.EndChange(file);
  EXPECT_EQ(Ask(alice, Want::kRead).delegation_type(), OPEN_DELEGATE_NONE_EXT);
  files.delegations.EndChange(file);
  ReadDelegation(alice);
}

// RFC 8881 §10.4.3
TEST_F(DelegationsTest, AFileStaysModifiedOnceItsHolderReportsAChange) {
  WriteDelegation(alice);
  const Delegations::Version known{.change = 10, .size = 4};
  EXPECT_FALSE(files.delegations.IsModified(file, {.change = {}, .size = {}}, known));
  EXPECT_FALSE(files.delegations.IsModified(file, {.change = 10, .size = 4}, known));
  EXPECT_TRUE(files.delegations.IsModified(file, {.change = 11, .size = 4}, known));
  EXPECT_EQ(files.delegations.NextChange(file, 10), 11u);
  EXPECT_TRUE(files.delegations.IsModified(file, {.change = 11, .size = 4}, known));
  EXPECT_EQ(files.delegations.NextChange(file, 10), 12u);
  EXPECT_EQ(files.delegations.NextChange(file, 50), 50u);
  EXPECT_EQ(files.delegations.NextChange(file, 50), 51u);
}

TEST_F(DelegationsTest, ComparesTheHoldersChangeAttributeWithTheOneAtTheGrant) {
  files.delegations.Delegate({.client = alice,
                              .file = file,
                              .dialect = DialectOf(1),
                              .facts = {.want = Want::kWrite, .share = {kRead, 0}, .can_call_back = true},
                              .change = 10},
                             now);
  // The holder has written to the server since, and has no more data to write.
  EXPECT_FALSE(files.delegations.IsModified(file, {.change = 10, .size = 9}, {.change = 20, .size = 9}));
  EXPECT_TRUE(files.delegations.IsModified(file, {.change = 10, .size = 8}, {.change = 20, .size = 9}));
}

TEST_F(DelegationsTest, OnlyTheHolderOfAWriteDelegationModifiesTheFile) {
  ReadDelegation(alice);
  EXPECT_FALSE(files.delegations.IsModified(file, {.change = 11, .size = 5}, {.change = 10, .size = 4}));
  EXPECT_EQ(files.delegations.NextChange(file, 10), 10u);
}

TEST_F(DelegationsTest, AReadDelegationAllowsReadsAndAWriteDelegationAlsoWrites) {
  const stateid4 read = ReadDelegation(alice);
  EXPECT_EQ(StatusOfRead(In1(alice), read), NFS4_OK);
  EXPECT_EQ(StatusOfWrite(In1(alice), read), NFS4ERR_OPENMODE);
  EXPECT_EQ(StatusOfRead(In1(bob), read), NFS4ERR_BAD_STATEID);
  Return(read);
  const stateid4 write = WriteDelegation(alice);
  EXPECT_EQ(StatusOfRead(In1(alice), write), NFS4_OK);
  EXPECT_EQ(StatusOfWrite(In1(alice), write), NFS4_OK);
}

TEST_F(DelegationsTest, GivesNoneIfAnotherClientHasTheFileOpenForWriting) {
  OpenBy(bob, "owner", {kWrite, 0});
  EXPECT_EQ(Ask(alice, Want::kRead).od_whynone().ond_why(), WND4_CONTENTION);
  EXPECT_EQ(Ask(bob, Want::kRead).delegation_type(), OPEN_DELEGATE_READ);
}

TEST_F(DelegationsTest, GivesAWriteDelegationOnlyIfNoOtherClientHasTheFileOpen) {
  OpenBy(bob, "owner", {kRead, 0});
  EXPECT_EQ(Ask(alice, Want::kWrite).od_whynone().ond_why(), WND4_CONTENTION);
  OpenBy(bob, "another", {kWrite, 0});
  EXPECT_EQ(Ask(bob, Want::kWrite).delegation_type(), OPEN_DELEGATE_WRITE);
}

// RFC 8881 §10.4.1: a server that promises space must have the space when the holder writes its data.
TEST_F(DelegationsTest, AWriteDelegationPromisesNoSpace) {
  const auto expect_none = [](const open_delegation4& given) {
    ASSERT_EQ(given.delegation_type(), OPEN_DELEGATE_WRITE);
    ASSERT_TRUE(given.write().space_limit.is_filesize());
    EXPECT_EQ(given.write().space_limit.filesize(), 0u);
  };
  expect_none(Ask(alice, Want::kWrite));
  expect_none(files.delegations.ReclaimDelegation(alice, other_file, {.write = true}, true, DialectOf(1), {}, now));
}

TEST_F(DelegationsTest, GivesReadDelegationsToSeveralClients) {
  ReadDelegation(alice);
  ReadDelegation(bob);
  EXPECT_EQ(Ask(bob, Want::kWrite).od_whynone().ond_why(), WND4_NOT_SUPP_UPGRADE);
  EXPECT_EQ(Ask(ClientId(3), Want::kWrite).od_whynone().ond_why(), WND4_CONTENTION);
}

// RFC 8881 §18.16.3
TEST_F(DelegationsTest, GivesAReasonOnlyToAClientThatStatedAPreference) {
  OpenBy(bob, "owner", {kWrite, 0});
  EXPECT_EQ(Ask(alice, Want::kNoPreference).delegation_type(), OPEN_DELEGATE_NONE);
  EXPECT_EQ(Ask(alice, Want::kNoPreference, 0).delegation_type(), OPEN_DELEGATE_NONE);
  EXPECT_EQ(Ask(alice, Want::kNone).delegation_type(), OPEN_DELEGATE_NONE_EXT);
  EXPECT_EQ(Ask(alice, Want::kNone).od_whynone().ond_why(), WND4_NOT_WANTED);
}

// RFC 8881 §18.16.4
TEST_F(DelegationsTest, AReadDelegationConflictsWithChangesAndWithDenialsOfReading) {
  ReadDelegation(alice);
  EXPECT_THAT(Holders(bob, Use::kRead), IsEmpty());
  EXPECT_THAT(files.delegations.TakeRecalls(), IsEmpty());
  EXPECT_THAT(Holders(alice, Use::kWrite), IsEmpty());
  EXPECT_THAT(Holders(bob, Use::kDenyRead), ElementsAre(alice));
  EXPECT_THAT(Holders(bob, Use::kWrite), ElementsAre(alice));
  EXPECT_THAT(Holders(bob, Use::kChange), ElementsAre(alice));
}

TEST_F(DelegationsTest, AWriteDelegationConflictsWithAnyUseByAnotherClient) {
  WriteDelegation(alice);
  EXPECT_EQ(files.delegations.WriteHolder(file)->client, alice);
  EXPECT_THAT(Holders(alice, Use::kChange), IsEmpty());
  EXPECT_THAT(Holders(bob, Use::kRead), ElementsAre(alice));
}

// In version 4.0 the server does not know which client sends a REMOVE.
TEST_F(DelegationsTest, ARequestOfAnUnknownClientConflictsWithAllDelegations) {
  ReadDelegation(alice);
  ReadDelegation(bob);
  EXPECT_THAT(Holders(std::nullopt, Use::kChange), SizeIs(2));
}

TEST_F(DelegationsTest, SendsOneRecallPerDelegation) {
  const stateid4 id = ReadDelegation(alice);
  Holders(bob, Use::kWrite);
  const auto recalls = files.delegations.TakeRecalls();
  ASSERT_THAT(recalls, SizeIs(1));
  EXPECT_EQ(recalls[0].client, alice);
  EXPECT_EQ(recalls[0].file, file.handle);
  EXPECT_EQ(recalls[0].stateid.other, id.other);
  EXPECT_EQ(recalls[0].stateid.seqid, 0u);
  now += std::chrono::seconds(10);
  EXPECT_THAT(Holders(bob, Use::kWrite), ElementsAre(alice));
  EXPECT_THAT(files.delegations.TakeRecalls(), IsEmpty());
  EXPECT_EQ(StatusOfRead(In1(alice), id), NFS4_OK);
}

TEST_F(DelegationsTest, RecallsInVersion40CarryTheWholeStateid) {
  const stateid4 id = ReadDelegation(alice, 0);
  Holders(bob, Use::kWrite);
  EXPECT_EQ(files.delegations.TakeRecalls().at(0).stateid, id);
}

TEST_F(DelegationsTest, AReturnedDelegationNoLongerConflicts) {
  const stateid4 id = ReadDelegation(alice);
  Holders(bob, Use::kWrite);
  Return(id);
  EXPECT_THAT(Holders(bob, Use::kWrite), IsEmpty());
  EXPECT_EQ(StatusOfRead(In1(alice), id), NFS4ERR_BAD_STATEID);
  EXPECT_FALSE(files.HasState(alice));
}

TEST_F(DelegationsTest, GivesNoneSoonAfterARecall) {
  const stateid4 id = ReadDelegation(alice);
  Holders(bob, Use::kWrite);
  now += std::chrono::seconds(20);
  Return(id);
  now += std::chrono::seconds(29);
  EXPECT_EQ(Ask(bob, Want::kRead).od_whynone().ond_why(), WND4_CONTENTION);
  now += std::chrono::seconds(1);
  ReadDelegation(bob);
}

TEST_F(DelegationsTest, GivesAnotherDelegationAfterAVoluntaryReturn) {
  Return(ReadDelegation(alice));
  ReadDelegation(alice);
}

// RFC 8881 §10.4.5
TEST_F(DelegationsTest, RevokesADelegationThatIsNotReturnedWithinALeaseTime) {
  const stateid4 id = ReadDelegation(alice);
  Holders(bob, Use::kWrite);
  now += std::chrono::seconds(89);
  EXPECT_THAT(Holders(bob, Use::kWrite), ElementsAre(alice));
  EXPECT_FALSE(files.delegations.HasRevoked(alice));
  now += std::chrono::seconds(1);
  EXPECT_THAT(Holders(bob, Use::kWrite), IsEmpty());

  EXPECT_TRUE(files.delegations.HasRevoked(alice));
  EXPECT_FALSE(files.HasRevokedByOperator(alice));
  EXPECT_FALSE(files.HasState(alice));
  EXPECT_FALSE(files.delegations.HasDelegations(alice));
  EXPECT_EQ(StatusOfRead(In1(alice), id), NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(files.Test(In1(alice), id), NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(files.Free(In1(alice), id), NFS4_OK);
  EXPECT_FALSE(files.delegations.HasRevoked(alice));
  EXPECT_EQ(files.Test(In1(alice), id), NFS4ERR_BAD_STATEID);
}

TEST_F(DelegationsTest, AnOperatorRevokesADelegationOnce) {
  const stateid4 id = ReadDelegation(alice);
  EXPECT_TRUE(files.Revoke(id, now));
  EXPECT_EQ(StatusOfRead(In1(alice), id), NFS4ERR_DELEG_REVOKED);
  EXPECT_FALSE(files.Revoke(id, now));
  EXPECT_TRUE(files.HasRevokedByOperator(alice));
  EXPECT_TRUE(files.delegations.HasRevoked(alice));
  EXPECT_EQ(files.Free(In1(alice), id), NFS4_OK);
  EXPECT_FALSE(files.HasRevokedByOperator(alice));
  EXPECT_FALSE(files.delegations.HasRevoked(alice));
  EXPECT_FALSE(files.Revoke(id, now));
}

// RFC 7530 §13.1.5.1
TEST_F(DelegationsTest, ARevokedDelegationOfVersion40GetsAdminRevoked) {
  const stateid4 id = ReadDelegation(alice, 0);
  Holders(bob, Use::kWrite);
  now += std::chrono::seconds(180);
  Holders(bob, Use::kWrite);
  EXPECT_FALSE(files.delegations.HasRevoked(alice));
  EXPECT_EQ(StatusOfRead(In0(), id), NFS4ERR_ADMIN_REVOKED);
  EXPECT_EQ(files.size(), 0u);
}

// RFC 7530 §10.4.6: a client that renews its lease learns in time that callbacks do not reach it.
TEST_F(DelegationsTest, AVersion40HolderHasTwoLeaseTimesToReturnADelegation) {
  ReadDelegation(alice, 0);
  Holders(bob, Use::kWrite);
  now += std::chrono::seconds(179);
  EXPECT_THAT(Holders(bob, Use::kWrite), ElementsAre(alice));
  EXPECT_TRUE(files.delegations.HasDelegations(alice));
}

TEST_F(DelegationsTest, FreeStateidRefusesAHeldDelegation) {
  EXPECT_EQ(files.Free(In1(alice), ReadDelegation(alice)), NFS4ERR_LOCKS_HELD);
}

TEST_F(DelegationsTest, DelegationsEndWithTheirClient) {
  const stateid4 id = WriteDelegation(alice);
  EXPECT_TRUE(files.delegations.HasDelegations(alice));
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_THAT(Holders(bob, Use::kRead), IsEmpty());
  EXPECT_EQ(files.Test(In0(), id), NFS4ERR_EXPIRED);
}

TEST_F(DelegationsTest, AReclaimedDelegationIsHeldAgain) {
  const auto given = files.delegations.ReclaimDelegation(alice, file, {.write = true}, true, DialectOf(1), {}, now);
  ASSERT_EQ(given.delegation_type(), OPEN_DELEGATE_WRITE);
  EXPECT_FALSE(given.write().recall);
  EXPECT_EQ(files.delegations.WriteHolder(file)->client, alice);
  EXPECT_EQ(
      files.delegations.ReclaimDelegation(alice, file, {.write = true}, true, DialectOf(1), {}, now).write().stateid,
      given.write().stateid);
}

// RFC 9754 §5
TEST_F(DelegationsTest, AReclaimedDelegationKeepsItsTimes) {
  const auto reclaim = [&] {
    return files.delegations.ReclaimDelegation(alice, file, {.write = true, .has_times = true}, true, DialectOf(2), {},
                                               now);
  };
  EXPECT_EQ(reclaim().delegation_type(), OPEN_DELEGATE_WRITE_ATTRS_DELEG);
  EXPECT_EQ(reclaim().delegation_type(), OPEN_DELEGATE_WRITE_ATTRS_DELEG);
  EXPECT_TRUE(files.delegations.WriteHolder(file)->has_times);
}

// RFC 8881 §18.16.3: the reply that gives the delegation may already ask for its return.
TEST_F(DelegationsTest, AReclaimedDelegationThatCannotBeRecalledMustBeReturnedAtOnce) {
  const auto given = files.delegations.ReclaimDelegation(alice, file, {.write = false}, false, DialectOf(1), {}, now);
  ASSERT_EQ(given.delegation_type(), OPEN_DELEGATE_READ);
  EXPECT_TRUE(given.read().recall);
  now += std::chrono::seconds(90);
  EXPECT_THAT(Holders(bob, Use::kWrite), IsEmpty());
  EXPECT_TRUE(files.delegations.HasRevoked(alice));
}

class BoundedDelegationsTest : public DelegationsTest {
 protected:
  BoundedDelegationsTest() : DelegationsTest({.delegations = 1, .revoked_per_client = 0}) {}
};

TEST_F(BoundedDelegationsTest, GivesNoMoreDelegationsThanTheLimit) {
  ReadDelegation(alice);
  EXPECT_EQ(Ask(bob, Want::kRead).od_whynone().ond_why(), WND4_RESOURCE);
}

TEST_F(BoundedDelegationsTest, DoesNotKeepRevokedDelegationsBeyondTheLimit) {
  const stateid4 id = ReadDelegation(alice);
  Holders(bob, Use::kWrite);
  now += std::chrono::seconds(90);
  Holders(bob, Use::kWrite);
  EXPECT_FALSE(files.delegations.HasRevoked(alice));
  EXPECT_EQ(files.Test(In1(alice), id), NFS4ERR_ADMIN_REVOKED);
}

}  // namespace
}  // namespace penstock::nfs::v4
