#include "nfs/v4/state/files/state_ids.h"

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

class StateIdsTest : public FilesTest {
 protected:
  nfsstat4 Test(const Presenter& who, const stateid4& id) { return files.Test(who, id); }
};

TEST_F(StateIdsTest, TheFirstSeqidIsOne) { EXPECT_EQ(OpenBy(alice, "owner", {kRead, 0}).seqid, 1u); }

TEST_F(StateIdsTest, TheSeqidChangesWithTheState) {
  const stateid4 first = OpenBy(alice, "owner", {kRead, 0});
  const stateid4 second = OpenBy(alice, "owner", {kWrite, 0});
  EXPECT_EQ(second.other, first.other);
  EXPECT_EQ(second.seqid, 2u);
  EXPECT_EQ(Test(In1(alice), first), NFS4ERR_OLD_STATEID);
  EXPECT_EQ(Test(In1(alice), second), NFS4_OK);
}

TEST_F(StateIdsTest, RejectsASeqidThatWasNotGivenOutYet) {
  stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  ++id.seqid;
  EXPECT_EQ(Test(In1(alice), id), NFS4ERR_BAD_STATEID);
}

// RFC 8881 §8.2.2
TEST_F(StateIdsTest, ASeqidOfZeroMeansTheLatestExceptInVersion40) {
  OpenBy(alice, "owner", {kRead, 0});
  stateid4 id = OpenBy(alice, "owner", {kWrite, 0});
  id.seqid = 0;
  EXPECT_EQ(Test(In1(alice), id), NFS4_OK);
  EXPECT_EQ(Test(In0(), id), NFS4ERR_OLD_STATEID);
}

TEST_F(StateIdsTest, TheSeqidWrapsAroundToOne) {
  const stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  OpenState& open = OpenOf(id);
  open.seqid = UINT32_MAX;
  const stateid4 last = files.IdOf(open);
  open.Advance();
  EXPECT_EQ(open.seqid, 1u);
  EXPECT_EQ(Test(In1(alice), last), NFS4ERR_OLD_STATEID);
}

TEST_F(StateIdsTest, RejectsAStateidOfAnotherClient) {
  const stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  EXPECT_EQ(Test(In1(bob), id), NFS4ERR_BAD_STATEID);
}

TEST_F(StateIdsTest, RejectsAStateidOfAnotherFile) {
  const stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  EXPECT_EQ(files.Find<OpenState>(In1(alice), id, other_file.handle).error(), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(files.CheckIo(In1(alice), id, other_file, false).status, NFS4ERR_BAD_STATEID);
}

TEST_F(StateIdsTest, RejectsAStateidOfAnotherKind) {
  const stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  EXPECT_EQ(files.Find<LockState>(In1(alice), id, file.handle).error(), NFS4ERR_BAD_STATEID);
  EXPECT_TRUE(files.Find<OpenState>(In1(alice), id, file.handle).has_value());
}

TEST_F(StateIdsTest, RejectsAStateidOfAnEarlierRunOfTheServer) {
  stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  id.other[3] = std::byte{0x03};
  EXPECT_EQ(Test(In0(), id), NFS4ERR_STALE_STATEID);
  EXPECT_EQ(Test(In1(alice), id), NFS4ERR_BAD_STATEID);
}

TEST_F(StateIdsTest, RejectsAStateidThatWasNeverGivenOut) {
  stateid4 id = OpenBy(alice, "owner", {kRead, 0});
  for (size_t octet = 4; octet < id.other.size(); ++octet) {
    stateid4 changed = id;
    changed.other[octet] = std::byte{7};
    EXPECT_EQ(Test(In0(), changed), NFS4ERR_BAD_STATEID);
  }
}

// In version 4.0 a request needs only the stateid to end the state of another client.
TEST_F(StateIdsTest, AClientCannotComputeTheStateidOfAnotherClient) {
  const auto words = [](const stateid4& id) {
    return std::pair(LoadBig<uint32_t>(id.other.data() + 4), LoadBig<uint32_t>(id.other.data() + 8));
  };
  const stateid4 own = OpenBy(alice, "owner", {kRead, 0});
  const stateid4 others = OpenBy(bob, "owner", {kRead, 0});
  const auto [index, generation] = words(own);
  for (uint32_t step = 0; step < 1000; ++step) {
    for (const auto& [i, g] : {std::pair(index + step, generation), std::pair(index - step, generation),
                               std::pair(index, generation + step), std::pair(step, 1u)}) {
      EXPECT_NE(words(others), std::pair(i, g));
    }
  }
  Files another_run(kInstance, SipKey{3, 4}, {});
  OpenOwner* const opener = another_run.owners.GetOpenOwner(alice, AsBytes(std::string_view("owner")), now);
  const auto again = another_run.opens.AddOpen(*opener, file, {kRead, 0}, pin, DialectOf(1), now);
  EXPECT_NE(words(again.stateid), words(own));
}

TEST_F(StateIdsTest, NeverGivesOutAStateidTwice) {
  const stateid4 first = OpenBy(alice, "owner", {kRead, 0});
  Close(first);
  const stateid4 second = OpenBy(alice, "owner", {kRead, 0});
  EXPECT_NE(first.other, second.other);
  EXPECT_EQ(Test(In1(alice), first), NFS4ERR_BAD_STATEID);
}

TEST_F(StateIdsTest, TheErrorForAnOldStateidTellsHowTheStateEnded) {
  const std::pair<Ending, nfsstat4> endings[] = {{Ending::kExpired, NFS4ERR_EXPIRED},
                                                 {Ending::kRevoked, NFS4ERR_ADMIN_REVOKED},
                                                 {Ending::kReleased, NFS4ERR_BAD_STATEID}};
  for (const auto& [ending, status] : endings) {
    const stateid4 open = OpenBy(alice, "owner", {kBoth, 0}, 0);
    const stateid4 lock = LockBy(open, "locker", {0, 9}, true);
    files.ForgetClient(alice, ending, now);
    EXPECT_EQ(Test(In0(), open), status);
    EXPECT_EQ(Test(In0(), lock), status);
    EXPECT_EQ(files.size(), 0u);
  }
}

TEST_F(StateIdsTest, RemembersHowTheLast4096StatesEnded) {
  const stateid4 lost = OpenBy(alice, "owner", {kRead, 0});
  files.ForgetClient(alice, Ending::kExpired, now);
  for (int i = 0; i < 4096; ++i) Close(OpenBy(bob, "owner", {kRead, 0}));
  EXPECT_EQ(Test(In0(), lost), NFS4ERR_EXPIRED);
  Close(OpenBy(bob, "owner", {kRead, 0}));
  const stateid4 reused = OpenBy(bob, "owner", {kRead, 0});
  EXPECT_EQ(Test(In0(), lost), NFS4ERR_BAD_STATEID);
  EXPECT_NE(reused.other, lost.other);
}

TEST_F(StateIdsTest, SpecialStateidsNameNoState) {
  for (const stateid4& id : {kAnonymous, ReadBypass(), InvalidStateId(), stateid4{.seqid = 1, .other = {}}}) {
    EXPECT_EQ(Test(In1(alice), id), NFS4ERR_BAD_STATEID);
    EXPECT_EQ(Test(In0(), id), NFS4ERR_BAD_STATEID);
  }
}

TEST_F(StateIdsTest, FreesALockStateidOnlyIfItHoldsNoLocks) {
  const stateid4 open = OpenBy(alice, "owner", {kBoth, 0});
  EXPECT_EQ(files.Free(In1(alice), open), NFS4ERR_LOCKS_HELD);
  stateid4 lock = LockBy(open, "locker", {0, 9}, true);
  EXPECT_EQ(files.Free(In1(alice), lock), NFS4ERR_LOCKS_HELD);
  files.locks.Unlock(LocksOf(lock), {0, kEnd}, DialectOf(1), now);
  EXPECT_EQ(files.Free(In1(alice), lock), NFS4ERR_OLD_STATEID);
  lock = files.IdOf(LocksOf(lock));
  EXPECT_EQ(files.Free(In1(bob), lock), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(files.Free(In1(alice), lock), NFS4_OK);
  EXPECT_EQ(files.Free(In1(alice), lock), NFS4ERR_BAD_STATEID);
}

}  // namespace
}  // namespace penstock::nfs::v4
