// Tests of the limits of the tables of opens, locks and delegations.
#include <deque>
#include <string>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

// ---- the limits of one client: delegations make room for opens

class CrowdedClientTest : public FilesTest {
 protected:
  static constexpr size_t kStates = 64;
  CrowdedClientTest() : FilesTest({.states_per_client = kStates}) {}
  explicit CrowdedClientTest(const Files::Limits& limits) : FilesTest(limits) {}

  NamedFile Numbered(size_t number) const { return NameOf("file " + std::to_string(number)); }
  nfsstat4 Open(ClientId client, size_t number, uint32_t minor_version = 1) {
    OpenOwner* const owner = files.owners.GetOpenOwner(client, AsBytes("owner"), now);
    owner->confirmed = true;
    const auto opened = files.opens.AddOpen(*owner, Numbered(number), {kRead, 0}, pin, DialectOf(minor_version), now);
    if (opened.status != NFS4_OK) files.owners.ReleaseOwner(*owner, now);
    return opened.status;
  }
  bool IsGivenDelegation(ClientId client, size_t number) {
    const DelegationFacts facts{.share = {kRead, 0}, .can_call_back = true};
    const auto given = files.delegations.Delegate(
        {.client = client, .file = Numbered(number), .dialect = DialectOf(1), .facts = facts}, now);
    return given.delegation_type() == OPEN_DELEGATE_READ;
  }
  // Takes the queued recalls and returns the delegations that they name. The result is the number of recalls.
  size_t ReturnRecalled() {
    const auto recalls = files.delegations.TakeRecalls();
    for (const auto& recall : recalls) {
      files.delegations.Return(**files.Find<DelegationState>(In1(recall.client), recall.stateid, recall.file), now);
    }
    return recalls.size();
  }
};

TEST_F(CrowdedClientTest, MayUseAllOfItsStatesForOpens) {
  for (size_t number = 0; number < kStates; ++number) {
    ASSERT_EQ(Open(alice, number), NFS4_OK) << "open " << number;
    IsGivenDelegation(alice, number);
    ReturnRecalled();
  }
  EXPECT_FALSE(files.delegations.HasDelegations(alice));
  EXPECT_EQ(files.size(), kStates);
  EXPECT_EQ(Open(alice, kStates), NFS4ERR_NOSPC);
  EXPECT_EQ(Open(alice, kStates, 0), NFS4ERR_RESOURCE);
}

TEST_F(CrowdedClientTest, GetsNoDelegationOnceThreeQuartersOfItsStatesAreInUse) {
  for (size_t number = 0; number < kStates / 4 * 3; ++number) ASSERT_EQ(Open(alice, number), NFS4_OK);
  EXPECT_FALSE(IsGivenDelegation(alice, 0));
  EXPECT_TRUE(IsGivenDelegation(bob, 0));
}

TEST_F(CrowdedClientTest, GetsDelayUntilItReturnsDelegations) {
  size_t number = 0;
  for (; number < kStates / 4; ++number) {
    ASSERT_EQ(Open(alice, number), NFS4_OK);
    ASSERT_TRUE(IsGivenDelegation(alice, number));
  }
  while (files.size() < kStates) ASSERT_EQ(Open(alice, number++), NFS4_OK);
  EXPECT_EQ(Open(alice, number), NFS4ERR_DELAY);
  EXPECT_GT(ReturnRecalled(), 0u);
  EXPECT_EQ(Open(alice, number), NFS4_OK);
}

TEST_F(CrowdedClientTest, LosesRecalledDelegationsThatItDoesNotReturn) {
  size_t number = 0;
  for (; number < kStates / 4; ++number) {
    ASSERT_EQ(Open(alice, number), NFS4_OK);
    ASSERT_TRUE(IsGivenDelegation(alice, number));
  }
  while (files.size() < kStates) ASSERT_EQ(Open(alice, number++), NFS4_OK);
  const auto recalls = files.delegations.TakeRecalls();
  ASSERT_FALSE(recalls.empty());
  now += std::chrono::seconds(90);
  EXPECT_FALSE(files.delegations.HasRevoked(alice));
  EXPECT_EQ(Open(alice, number), NFS4_OK);
  EXPECT_EQ(files.Test(In1(alice), recalls[0].stateid), NFS4ERR_ADMIN_REVOKED);
  EXPECT_TRUE(files.delegations.HasRevoked(alice));
  EXPECT_FALSE(files.HasRevokedByOperator(alice));
  for (const auto& recall : recalls) EXPECT_EQ(files.Free(In1(alice), recall.stateid), NFS4_OK);
  EXPECT_FALSE(files.delegations.HasRevoked(alice));
}

TEST_F(CrowdedClientTest, ClosedOpensOfVersion40MakeRoomForNewOpens) {
  for (size_t number = 0; number < kStates; ++number) {
    OpenOwner* const owner = files.owners.GetOpenOwner(alice, AsBytes("closed " + std::to_string(number)), now);
    owner->confirmed = true;
    owner->sequence.Finish(SequenceId(1), OPEN4res(NFS4ERR_NOENT));
    const auto opened = files.opens.AddOpen(*owner, file, {kRead, 0}, pin, DialectOf(0), now);
    ASSERT_EQ(opened.status, NFS4_OK);
    Close(opened.stateid, 0);
  }
  EXPECT_EQ(files.size(), kStates);
  EXPECT_EQ(Open(alice, 1, 0), NFS4_OK);
}

// ---- the limits of all clients together

class FullServerTest : public CrowdedClientTest {
 protected:
  FullServerTest() : CrowdedClientTest({.states = 40, .owners = 8, .ranges = 10}) {}
};

TEST_F(FullServerTest, RecallsDelegationsOfOtherClients) {
  for (size_t number = 0; number < 20; ++number) ASSERT_TRUE(IsGivenDelegation(bob, number));
  for (size_t number = 0; number < 40; ++number) {
    ASSERT_EQ(Open(alice, number), NFS4_OK);
    ReturnRecalled();
  }
  EXPECT_FALSE(files.delegations.HasDelegations(bob));
  EXPECT_TRUE(files.opens.IsFull());
  EXPECT_EQ(Open(alice, 40), NFS4ERR_DELAY);  // another client may close a file
  EXPECT_EQ(Open(alice, 40, 0), NFS4ERR_RESOURCE);
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_FALSE(files.opens.IsFull());
  EXPECT_EQ(Open(bob, 40), NFS4_OK);
}

TEST_F(FullServerTest, LimitsTheLockedRangesOfAllClients) {
  const stateid4 alices = OpenBy(alice, "owner", {kBoth, 0}), bobs = OpenBy(bob, "owner", {kBoth, 0});
  for (uint64_t each = 0; each < 8; ++each) LockBy(alices, "locker", {10 * each, 10 * each + 4}, true);
  LockBy(bobs, "locker", {100, 104}, true);
  EXPECT_TRUE(files.opens.IsFull());
  EXPECT_EQ(TryLock(bobs, "locker", {110, 114}, true).status, NFS4ERR_DELAY);
  EXPECT_EQ(
      files.locks.Lock(OpenOf(bobs), AsBytes("locker"), {.range = {110, 114}, .exclusive = true}, DialectOf(0), now)
          .status,
      NFS4ERR_RESOURCE);
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_EQ(TryLock(bobs, "locker", {110, 114}, true).status, NFS4_OK);
}

TEST_F(FullServerTest, LimitsTheOpenOwnersOfAllClientsAndForgetsIdleOnesFirst) {
  for (size_t number = 0; number < 8; ++number) {
    OpenOwner* const owner = files.owners.GetOpenOwner(number % 2 ? alice : bob, AsBytes(std::to_string(number)), now);
    owner->sequence.Finish(SequenceId(1), OPEN4res(NFS4ERR_NOENT));
  }
  EXPECT_TRUE(files.opens.IsFull());
  EXPECT_FALSE(files.owners.GetOpenOwner(alice, AsBytes("another"), now));
  files.owners.ReleaseOwner(*files.owners.FindOpenOwner(bob, AsBytes("2")), now);
  EXPECT_TRUE(files.owners.GetOpenOwner(alice, AsBytes("another"), now));
  EXPECT_FALSE(files.owners.FindOpenOwner(bob, AsBytes("2")));
}

// ---- the principals of open-owners

using OpenOwnersTest = FilesTest;

TEST_F(OpenOwnersTest, KnowsThePrincipalsThatHaveFilesOpen) {
  const Principal one{.flavor = rpc::AuthFlavor::AUTH_SYS, .uid = 1},
      two{.flavor = rpc::AuthFlavor::AUTH_SYS, .uid = 2};
  const stateid4 first = OpenBy(alice, "first", {kRead, 0}), second = OpenBy(alice, "second", {kRead, 0});
  files.owners.AddMaker(*files.owners.FindOpenOwner(alice, AsBytes("first")), one);
  files.owners.AddMaker(*files.owners.FindOpenOwner(alice, AsBytes("second")), one);
  files.owners.AddMaker(*files.owners.FindOpenOwner(alice, AsBytes("second")), two);
  Close(second);
  EXPECT_TRUE(files.owners.HasOpenBy(alice, one));
  EXPECT_FALSE(files.owners.HasOpenBy(alice, two));
  Close(first);
  EXPECT_FALSE(files.owners.HasOpenBy(alice, one));
}

}  // namespace
}  // namespace penstock::nfs::v4
