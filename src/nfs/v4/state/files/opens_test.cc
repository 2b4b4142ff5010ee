#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

using OpensTest = FilesTest;

// RFC 8881 §9.7: each of 3x4 shares against each of 3x4 shares, by two clients, by two owners, and by one owner.
TEST_F(OpensTest, DeniesConflictingShares) {
  for (uint32_t first = 0; first < 16; ++first) {
    for (uint32_t second = 0; second < 16; ++second) {
      const Share a{first / 4, first % 4};
      const Share b{second / 4, second % 4};
      if (a.access == 0 || b.access == 0) continue;
      for (const auto& [client, owner] :
           {std::pair(bob, "owner"), std::pair(alice, "another"), std::pair(alice, "owner")}) {
        OpenBy(alice, "owner", a);
        const auto result = TryOpen(client, owner, b);
        EXPECT_EQ(result.status, Conflict(a, b) ? NFS4ERR_SHARE_DENIED : NFS4_OK);
        EXPECT_EQ(result.blocker, Conflict(a, b) ? std::optional(alice) : std::nullopt);
        files.ForgetClient(alice, Ending::kReleased, now);
        files.ForgetClient(bob, Ending::kReleased, now);
        EXPECT_EQ(files.size(), 0u);
      }
    }
  }
}

TEST_F(OpensTest, TwoOpensByOneOwnerAreOneState) {
  const stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  EXPECT_EQ(StatusOfWrite(In1(alice), id), NFS4ERR_OPENMODE);
  const stateid4 upgraded = OpenBy(alice, "owner", {kWrite, 0});
  EXPECT_EQ(StatusOfWrite(In1(alice), upgraded), NFS4_OK);
  Close(upgraded);
  EXPECT_EQ(files.size(), 0u);
}

TEST_F(OpensTest, OpensByTwoOwnersAreTwoStates) {
  EXPECT_NE(OpenBy(alice, "owner", {kRead, 0}).other, OpenBy(alice, "another", {kRead, 0}).other);
  EXPECT_NE(OpenBy(bob, "owner", {kRead, 0}).other, OpenBy(alice, "owner", {kRead, 0}).other);
  EXPECT_EQ(files.size(), 3u);
}

TEST_F(OpensTest, DowngradesOnlyToSharesThatWereOpened) {
  OpenBy(alice, "owner", {kRead, 0});
  const stateid4 both = OpenBy(alice, "owner", {kBoth, 0});
  EXPECT_EQ(files.opens.Downgrade(OpenOf(both), {kWrite, 0}), NFS4ERR_INVAL);
  EXPECT_EQ(files.IdOf(OpenOf(both)).seqid, 2u);
  EXPECT_EQ(files.opens.Downgrade(OpenOf(both), {kRead, 0}), NFS4_OK);
  const stateid4 downgraded = files.IdOf(OpenOf(both));
  EXPECT_EQ(downgraded.seqid, 3u);
  EXPECT_EQ(StatusOfWrite(In1(alice), downgraded), NFS4ERR_OPENMODE);
}

TEST_F(OpensTest, UndoOpenRestoresTheStateBeforeTheOpen) {
  const auto first = TryOpen(alice, "owner", {kRead, 0});
  const auto second = TryOpen(alice, "owner", {kWrite, kWrite});
  EXPECT_EQ(second.status, NFS4_OK);
  files.opens.UndoOpen(second, now);
  EXPECT_EQ(files.Test(In1(alice), first.stateid), NFS4_OK);
  EXPECT_EQ(StatusOfWrite(In1(alice), first.stateid), NFS4ERR_OPENMODE);
  files.opens.UndoOpen(first, now);
  EXPECT_EQ(files.size(), 0u);
  EXPECT_FALSE(files.owners.FindOpenOwner(alice, AsBytes("owner")));
}

TEST_F(OpensTest, UndoOpenLeavesAnOpenThatHasChangedSince) {
  const auto first = TryOpen(alice, "owner", {kRead, 0});
  OpenBy(alice, "owner", {kWrite, 0});
  files.opens.UndoOpen(first, now);
  EXPECT_EQ(files.size(), 1u);
}

TEST_F(OpensTest, PinsTheFileUntilTheLastOpenIsClosed) {
  const stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  const stateid4 another = OpenBy(bob, "owner", {kRead, 0});
  EXPECT_TRUE(files.opens.IsPinned(file));
  EXPECT_EQ(pin.use_count(), 2);
  Close(id);
  EXPECT_EQ(pin.use_count(), 2);
  Close(another);
  EXPECT_EQ(pin.use_count(), 1);
}

TEST_F(OpensTest, CloseForgetsTheOwnerOfAClientWithSessions) {
  Close(OpenBy(alice, "owner", {kRead, 0}));
  EXPECT_FALSE(files.owners.FindOpenOwner(alice, AsBytes("owner")));
}

// ---- reading and writing (RFC 8881 §8.2.3, §9.1.2)

TEST_F(OpensTest, DenialsApplyToTheAnonymousStateid) {
  OpenBy(alice, "owner", {kRead, kWrite});
  EXPECT_EQ(StatusOfRead(In1(bob), kAnonymous), NFS4_OK);
  EXPECT_EQ(StatusOfWrite(In1(bob), kAnonymous), NFS4ERR_LOCKED);
  EXPECT_EQ(files.CheckIo(In1(bob), kAnonymous, file, true).blocker, alice);
  OpenBy(alice, "another owner", {kRead, kWrite});
  EXPECT_EQ(StatusOfWrite(In0(), kAnonymous), NFS4ERR_LOCKED);
}

TEST_F(OpensTest, TheReadBypassStateidBypassesDenialsForReadsOnly) {
  OpenBy(alice, "owner", {kBoth, kBoth});
  EXPECT_EQ(StatusOfRead(In1(bob), ReadBypass()), NFS4_OK);
  EXPECT_EQ(StatusOfWrite(In1(bob), ReadBypass()), NFS4ERR_LOCKED);
}

TEST_F(OpensTest, AnOpenForWritingAllowsReadsUnlessAnotherOpenDeniesThem) {
  const stateid4 id = OpenBy(alice, "owner", {kWrite, kRead});
  EXPECT_EQ(StatusOfRead(In1(alice), id), NFS4_OK);
  const stateid4 another = OpenBy(bob, "owner", {kWrite, 0});
  EXPECT_EQ(StatusOfWrite(In1(bob), another), NFS4_OK);
  EXPECT_EQ(StatusOfRead(In1(bob), another), NFS4ERR_LOCKED);
}

TEST_F(OpensTest, ALockStateidHasTheAccessOfItsOpen) {
  const stateid4 open = OpenBy(alice, "owner", {kRead, 0});
  const stateid4 lock = LockBy(open, "locker", {0, 9}, false);
  EXPECT_EQ(StatusOfRead(In1(alice), lock), NFS4_OK);
  EXPECT_EQ(StatusOfWrite(In1(alice), lock), NFS4ERR_OPENMODE);
}

// ---- version 4.0

TEST_F(OpensTest, AnUnconfirmedOpenCannotBeUsed) {
  OpenOwner* const owner = files.owners.GetOpenOwner(alice, AsBytes("owner"), now);
  const auto opened = files.opens.AddOpen(*owner, file, {kRead, 0}, pin, DialectOf(0), now);
  EXPECT_EQ(StatusOfRead(In0(), opened.stateid), NFS4ERR_BAD_STATEID);
  owner->confirmed = true;
  EXPECT_EQ(StatusOfRead(In0(), opened.stateid), NFS4_OK);
}

TEST_F(OpensTest, RestartingAnUnconfirmedOwnerEndsItsOpens) {
  OpenOwner* const owner = files.owners.GetOpenOwner(alice, AsBytes("owner"), now);
  owner->sequence.Start();
  files.opens.AddOpen(*owner, file, {kRead, 0}, pin, DialectOf(0), now);
  owner->sequence.Finish(SequenceId(1), OPEN4res(NFS4_OK, OPEN4resok{}));
  files.opens.RestartOwner(*owner, now);
  EXPECT_EQ(files.size(), 0u);
  EXPECT_FALSE(owner->sequence.used());
}

TEST_F(OpensTest, TheOwnerOfTheLastClosedStateidIsKnown) {
  OpenOwner* const owner = files.owners.GetOpenOwner(alice, AsBytes("owner"), now);
  owner->confirmed = true;
  const auto opened = files.opens.AddOpen(*owner, file, {kRead, 0}, pin, DialectOf(0), now);
  owner->sequence.Finish(SequenceId(1), OPEN4res(NFS4_OK, OPEN4resok{}));
  Close(opened.stateid, 0);
  EXPECT_EQ(files.owners.FindOwnerOfClosed(opened.stateid), owner);
  EXPECT_FALSE(files.HasState(alice));
  EXPECT_EQ(files.Test(In0(), opened.stateid), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(pin.use_count(), 1);

  const auto again = files.opens.AddOpen(*owner, file, {kRead, 0}, pin, DialectOf(0), now);
  Close(again.stateid, 0);
  EXPECT_FALSE(files.owners.FindOwnerOfClosed(opened.stateid));
  EXPECT_EQ(files.owners.FindOwnerOfClosed(again.stateid), owner);
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_EQ(files.size(), 0u);
}

// RFC 7530 §9.1.10, §16.18.5: the server does not forget an idle owner before a lease time has passed.
TEST_F(OpensTest, AnOwnerWithoutOpensIsKnownForALease) {
  OpenOwner* const owner = files.owners.GetOpenOwner(alice, AsBytes("idle"), now);
  owner->confirmed = true;
  const auto opened = files.opens.AddOpen(*owner, file, {kRead, 0}, pin, DialectOf(0), now);
  owner->sequence.Finish(SequenceId(1), OPEN4res(NFS4_OK, OPEN4resok{}));
  Close(opened.stateid, 0);
  now += std::chrono::seconds(89);
  files.owners.GetOpenOwner(alice, AsBytes("new"), now);
  EXPECT_TRUE(files.owners.FindOpenOwner(alice, AsBytes("idle")));
  now += std::chrono::seconds(1);
  files.owners.GetOpenOwner(alice, AsBytes("newer"), now);
  EXPECT_FALSE(files.owners.FindOpenOwner(alice, AsBytes("idle")));
}

// ---- limits

class BoundedOpensTest : public FilesTest {
 protected:
  BoundedOpensTest() : FilesTest({.states = 5, .states_per_client = 3, .owners_per_client = 4}) {}
};

TEST_F(BoundedOpensTest, LimitsTheOpensOfAClient) {
  for (const auto owner : {"1", "2", "3"}) OpenBy(alice, owner, {kRead, 0});
  EXPECT_EQ(TryOpen(alice, "4", {kRead, 0}, 0).status, NFS4ERR_RESOURCE);
  EXPECT_EQ(TryOpen(alice, "4", {kRead, 0}, 1).status, NFS4ERR_NOSPC);
  EXPECT_EQ(TryOpen(alice, "1", {kWrite, 0}).status, NFS4_OK);
  EXPECT_EQ(TryOpen(bob, "4", {kRead, 0}).status, NFS4_OK);
}

TEST_F(BoundedOpensTest, LimitsTheOpensOfAllClients) {
  for (const auto owner : {"1", "2", "3"}) OpenBy(alice, owner, {kRead, 0});
  for (const auto owner : {"1", "2"}) OpenBy(bob, owner, {kRead, 0});
  EXPECT_EQ(TryOpen(bob, "3", {kRead, 0}).status, NFS4ERR_DELAY);
}

TEST_F(BoundedOpensTest, LimitsTheOwnersOfAClientAndForgetsIdleOnesFirst) {
  for (const auto name : {"1", "2", "3", "4"}) {
    OpenOwner* const owner = files.owners.GetOpenOwner(alice, AsBytes(name), now);
    owner->sequence.Finish(SequenceId(1), OPEN4res(NFS4ERR_NOENT));
  }
  EXPECT_FALSE(files.owners.GetOpenOwner(alice, AsBytes("5"), now));
  files.owners.ReleaseOwner(*files.owners.FindOpenOwner(alice, AsBytes("2")), now);
  EXPECT_TRUE(files.owners.GetOpenOwner(alice, AsBytes("5"), now));
  EXPECT_FALSE(files.owners.FindOpenOwner(alice, AsBytes("2")));
}

// ---- clients

TEST_F(OpensTest, OpensEndWithTheirClient) {
  OpenBy(alice, "owner", {kRead, kWrite});
  EXPECT_TRUE(files.HasState(alice));
  files.ForgetClient(alice, Ending::kExpired, now);
  EXPECT_FALSE(files.HasState(alice));
  EXPECT_EQ(TryOpen(bob, "owner", {kWrite, 0}).status, NFS4_OK);
}

TEST_F(OpensTest, ThousandsOfClientsOpenAndLeaveOneFile) {
  for (uint64_t client = 1; client <= 2000; ++client) OpenBy(ClientId(client), "owner", {kWrite, 0});
  EXPECT_EQ(TryOpen(bob, "owner", {kRead, kWrite}).status, NFS4ERR_SHARE_DENIED);
  for (uint64_t client = 1; client <= 2000; ++client) files.ForgetClient(ClientId(client), Ending::kExpired, now);
  EXPECT_EQ(TryOpen(bob, "owner", {kRead, kWrite}).status, NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
