// Tests of open files in file systems that move to another server.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <array>
#include <cerrno>

#include "base/signal.h"
#include "client/nfs4/migration_test_fixture.h"

namespace penstock::client::v4 {
namespace {

// ---- open files ----

TEST_P(MigrationTest, AnOpenFileGoesOnAtTheNewServer) {
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  EXPECT_EQ(MountTestBase::Read(*opened), "here");
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(MountTestBase::Read(*opened), "is there");
  EXPECT_TRUE(Write(*opened, "IS"));
  Do(opened->Commit());
  Do(opened->SetSize(7));
  Do(opened->Close());
  EXPECT_EQ(TextAt(far), "IS ther");
}

TEST_P(MigrationTest, DataThatWaitForCommitAreToBeWrittenAgain) {
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  const File::WriteReply before = *Write(*opened, "new data");
  EXPECT_EQ(Do(opened->Commit()), before.verifier);
  service.Move("/data", At(far, "/data"));
  const Verifier committed = Do(opened->Commit());
  EXPECT_NE(committed, before.verifier);
  EXPECT_EQ(Write(*opened, "new data")->verifier, committed);
  Do(opened->Close());
  EXPECT_EQ(TextAt(far), "new data");
}

TEST_P(MigrationTest, AFileOpenUnderADelegationGoesOn) {
  Open();
  const auto first = Do(mount->OpenFile(file, "file", Access::kRead));
  const auto second = Do(mount->OpenFile(file, "file", Access::kRead));
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(MountTestBase::Read(*second), "is there");
  EXPECT_EQ(MountTestBase::Read(*first), "is there");
  Do(first->Close());
  Do(second->Close());
}

TEST_P(MigrationTest, AFileIsClosedAlsoIfItHasMoved) {
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  Do(opened->Lock("owner", {0, 4}, LockKind::kExclusive));
  service.Move("/data", At(far, "/data"));
  Do(opened->Close());
}

TEST_P(MigrationTest, AnOpenFileThatIsNotAtTheNewServerIsStale) {
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  RemoveFile(far);
  service.Move("/data", At(far, "/data"));
  std::array<std::byte, 8> octets{};
  EXPECT_EQ(ErrorOf(opened->Read(0, octets)).status, Status::kStale);
  Do(opened->Close());
}

TEST_P(MigrationTest, LocksAreLostAndTheirOwnersAreToldSo) {
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  Do(opened->Lock("one", {0, 4}, LockKind::kExclusive));
  Do(opened->Lock("two", {4, 4}, LockKind::kExclusive));
  Do(opened->Unlock("two", {4, 4}));
  service.Move("/data", At(far, "/data"));
  std::array<std::byte, 8> octets{};
  EXPECT_EQ(ErrorOf(opened->Read(0, octets)).number, ENOLCK);
  EXPECT_EQ(ErrorOf(opened->Lock("one", {0, 4}, LockKind::kExclusive)).number, ENOLCK);
  Do(opened->Lock("one", {0, 4}, LockKind::kExclusive));
  Do(opened->Lock("two", {4, 4}, LockKind::kExclusive));
  EXPECT_EQ(MountTestBase::Read(*opened), "is there");
  Do(opened->Close());
}

TEST_P(MigrationTest, AServerThatRestartsAsAReferralIsFollowed) {
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  EXPECT_TRUE(Write(*opened, "lost"));
  service.Move("/data", At(far, "/data"));
  service.Restart();
  EXPECT_EQ(MountTestBase::Read(*opened), "is there");
  EXPECT_EQ(SizeOf(file), 8u);
  Do(opened->Close());
}

// A reply to LOCK that is late tells of a lock that is lost already.
TEST_P(MigrationTest, ALockWhoseReplyComesAfterTheMoveIsLost) {
  if (GetParam() == Version::k40) return;  // a file has one call of LOCK or READ under way
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  Signal move_is_known;
  service.DelayReply(CompoundsWith(nfs_opnum4::OP_LOCK), [&]() -> Task<void> { co_await move_is_known; });
  std::optional<Result<void>> locked;
  Spawn([](File& at, std::optional<Result<void>>& out) -> Task<void> {
    out = co_await at.Lock("owner", {0, 4}, LockKind::kExclusive, Duration::zero(), nullptr);
  }(*opened, locked));
  EXPECT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(CompoundsWith(nfs_opnum4::OP_LOCK)) > 0; }));
  TurnFor(loop, 10ms);
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(MountTestBase::Read(*opened), "is there");
  move_is_known.Notify();
  EXPECT_TRUE(TurnUntil(loop, [&] { return locked.has_value(); }));
  ASSERT_FALSE(*locked);
  EXPECT_EQ(locked->error().number, ENOLCK);
  Do(opened->Lock("owner", {0, 4}, LockKind::kExclusive, Duration::zero(), nullptr));
  EXPECT_EQ(far.CountCalls(CompoundsWith(nfs_opnum4::OP_LOCK)), 1u);
  Do(opened->Close());
}

// The new server lets the user write to the file, and not read it.
TEST_P(MigrationTest, ACreatedFileIsReopenedAsTheProgramHasOpenedIt) {
  OpenAsOtherUser(0200);
  auto created = Do(mount->CreateFile(directory.handle, "new", 0644, CreateMode::kExclusive, Access::kWrite));
  names.Add(created->node(), directory.handle, "new");
  service.Move("/data", At(far, "/data"));
  EXPECT_TRUE(Write(*created, "written"));
  EXPECT_EQ(ErrorOf(mount->OpenFile(created->node(), "new", Access::kRead)).status, Status::kAccess);
  Do(created->Close());
}

// A program may use a file that it has created, whatever its mode is, and the servers let the owner do so.
TEST_P(MigrationTest, ACreatedFileGoesOnThatItsOwnerMayNotOpen) {
  for (const uint32_t mode : {0400u, 0000u}) {
    if (mount) Unmount();
    OpenAsOtherUser(mode);
    const std::string name = fmt::format("{:o}", mode);
    auto created = Do(mount->CreateFile(directory.handle, name, mode, CreateMode::kExclusive, Access::kBoth));
    names.Add(created->node(), directory.handle, name);
    EXPECT_TRUE(Write(*created, "one"));
    service.RevokeState();
    EXPECT_TRUE(Write(*created, "two", 3)) << "its state is lost";
    EXPECT_EQ(MountTestBase::Read(*created), "onetwo");
    service.Restart();
    EXPECT_TRUE(Write(*created, "three", 6));
    Do(created->SetSize(7));
    EXPECT_EQ(MountTestBase::Read(*created), "onetwot");
    EXPECT_EQ(ErrorOf(created->Lock("owner", {0, 4}, LockKind::kExclusive)).status, Status::kAccess);
    EXPECT_EQ(ErrorOf(mount->OpenFile(created->node(), name, Access::kBoth)).status, Status::kAccess);
    Do(created->Close());
  }
}

TEST_P(MigrationTest, ACreatedFileMovesThatItsOwnerMayNotOpen) {
  OpenAsOtherUser(0400);
  auto created = Do(mount->CreateFile(directory.handle, "new", 0400, CreateMode::kExclusive, Access::kBoth));
  names.Add(created->node(), directory.handle, "new");
  service.Move("/data", At(far, "/data"));
  EXPECT_TRUE(Write(*created, "written"));
  EXPECT_EQ(MountTestBase::Read(*created), "written");
  far.Restart();
  EXPECT_TRUE(Write(*created, "again", 7));
  EXPECT_EQ(MountTestBase::Read(*created), "writtenagain");
  EXPECT_EQ(ErrorOf(mount->OpenFile(created->node(), "new", Access::kBoth)).status, Status::kAccess);
  Do(created->Close());
}

// RFC 8881 §18.46.3: a server reports revoked state until the client has acknowledged its loss.
TEST_P(MigrationTest, TheOldServerIsToldThatItNeedNotKeepTheStateOfAFile) {
  if (GetParam() == Version::k40) return;
  options.delegations = 0;
  Open();
  const auto frees = [&] { return service.CountCalls(CompoundsWith(nfs_opnum4::OP_FREE_STATEID)); };
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  const auto closed = Do(mount->OpenFile(file, "file", Access::kBoth));
  Do(opened->Lock("owner", {0, 4}, LockKind::kExclusive));
  service.Move("/data", At(far, "/data"));
  Do(opened->Commit());
  EXPECT_TRUE(TurnUntil(loop, [&] { return frees() >= 2; })) << "the open and its lock";
  Do(closed->Close());
  EXPECT_TRUE(TurnUntil(loop, [&] { return frees() == 3; })) << "the other one";
  Do(opened->Close());
  EXPECT_EQ(frees(), 3u);
}

// A server that still has the open and the delegation refuses to free them, and may revoke them later.
TEST_P(MigrationTest, ADelegationThatTheOldServerStillHasIsFreedWhenItRevokesIt) {
  if (GetParam() == Version::k40) return;
  Open();
  const auto frees = [&] { return service.CountCalls(CompoundsWith(nfs_opnum4::OP_FREE_STATEID)); };
  const auto opened = Do(mount->OpenFile(file, "file", Access::kRead));
  ASSERT_EQ(service.delegations(), 1u);
  // In version 4.2 there is no open beside the delegation.
  const size_t states = GetParam() == Version::k42 ? 1 : 2;
  service.FailOperation(nfs_opnum4::OP_FREE_STATEID, nfs4::nfsstat4::NFS4ERR_LOCKS_HELD, states);
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(MountTestBase::Read(*opened), "is there");
  EXPECT_TRUE(TurnUntil(loop, [&] { return frees() == states; }));
  service.SetStatusFlags(nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
  Do(mount->GetAttributes(root(), "root"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return frees() == 2 * states; }));
  service.SetStatusFlags(0);
  Do(opened->Close());
}

// ---- moves that the server tells of (RFC 8881 §11.13, RFC 7530 §9.14.3) ----

// Version 4.0 has no such message in a server that hands over no state.
TEST_P(MigrationTest, FilesThatNobodyUsesFollowWhenTheServerSaysThatALeaseHasMoved) {
  if (GetParam() == Version::k40) return;
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  const auto opens = [&] { return far.CountCalls(CompoundsWith(nfs_opnum4::OP_OPEN)); };
  const size_t before = opens();
  service.Move("/data", At(far, "/data"));
  Do(mount->GetAttributes(root(), "root"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return opens() > before; })) << "SEQUENCE of any call says so";
  const size_t looks = service.CountCalls(Looks());
  for (int i = 0; i < 20; ++i) Do(mount->GetAttributes(root(), "root"));
  EXPECT_EQ(service.CountCalls(Looks()), looks) << "the server says so no more";
  EXPECT_EQ(MountTestBase::Read(*opened), "is there");
  EXPECT_EQ(opens(), before + 1);
  const size_t opens_here = service.CountCalls(CompoundsWith(nfs_opnum4::OP_OPEN));
  service.MoveBack("/data");
  far.Move("/data", At(service, "/data"));
  Do(mount->GetAttributes(directory.handle, "directory"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(CompoundsWith(nfs_opnum4::OP_OPEN)) > opens_here; }));
  EXPECT_EQ(MountTestBase::Read(*opened), "here");
  Do(opened->Close());
}

TEST_P(MigrationTest, AFileThatIsClosedWhileItFollowsIsClosedAtTheNewServer) {
  if (GetParam() == Version::k40) return;
  Open();
  auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  Signal is_closed;
  const auto opens = CompoundsWith(nfs_opnum4::OP_OPEN);
  const auto closes = [&] { return far.CountCalls(CompoundsWith(nfs_opnum4::OP_CLOSE)); };
  const size_t opens_before = far.CountCalls(opens);
  const size_t closes_before = closes();
  far.DelayReply(opens, [&]() -> Task<void> { co_await is_closed; });
  service.Move("/data", At(far, "/data"));
  Do(mount->GetAttributes(root(), "root"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return far.CountCalls(opens) > opens_before; }));
  Do(opened->Close());
  opened.reset();
  TurnFor(loop, 10ms);
  EXPECT_EQ(closes(), closes_before);
  is_closed.Notify();
  EXPECT_TRUE(TurnUntil(loop, [&] { return closes() > closes_before; }));
}

TEST_P(MigrationTest, AFileSystemWithoutOpenFilesIsAskedAboutAsWell) {
  if (GetParam() == Version::k40) return;
  Open();
  Do(Do(mount->OpenFile(file, "file", Access::kRead))->Close());  // a delegation remains
  service.Move("/data", At(far, "/data"));
  Do(mount->GetAttributes(root(), "root"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(Looks()) > 0; }));
  TurnFor(loop, 20ms);
  const size_t looks = service.CountCalls(Looks());
  Do(mount->GetAttributes(root(), "root"));
  TurnFor(loop, 20ms);
  EXPECT_EQ(service.CountCalls(Looks()), looks);
}

TEST_P(MigrationTest, AServerThatNeverStopsToSaySoIsAskedSeldom) {
  if (GetParam() == Version::k40) return;
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  service.SetStatusFlags(nfs4::SEQ4_STATUS_LEASE_MOVED);
  const TimePoint before = loop.Now();
  for (int i = 0; i < 200; ++i) Do(mount->GetAttributes(root(), "root"));
  // One of its one file system with state, and one more for each second at most.
  const auto seconds = std::chrono::floor<std::chrono::seconds>(loop.Now() - before).count();
  EXPECT_LE(service.CountCalls(Looks()), 1u + static_cast<size_t>(seconds));
  EXPECT_GE(service.CountCalls(Looks()), 1u);
  EXPECT_TRUE(TurnUntil(loop, [&] { return service.CountCalls(Looks()) > 1; })) << "it may be true later";
  EXPECT_EQ(MountTestBase::Read(*opened), "here");
  Do(opened->Close());
}

TEST_P(MigrationTest, CallsOfVersion40ThatTheServerRefusesGoOnWhenTheMoveIsFound) {
  if (GetParam() != Version::k40) return;
  Open();
  const Node more = Look(root(), "more");
  const Node other = Look(Look(more.handle, "directory").handle, "file");
  const auto stays = Do(mount->OpenFile(other, "file", Access::kRead));
  const auto moves = Do(mount->OpenFile(file, "file", Access::kRead));
  const auto opens = [&] { return far.CountCalls(CompoundsWith(nfs_opnum4::OP_OPEN)); };
  const size_t before = opens();
  service.Move("/data", At(far, "/data"));
  service.FailOperation(nfs_opnum4::OP_READ, nfsstat4::NFS4ERR_LEASE_MOVED, 2);
  EXPECT_EQ(MountTestBase::Read(*stays), "here");
  EXPECT_TRUE(TurnUntil(loop, [&] { return opens() > before; }));
  EXPECT_EQ(MountTestBase::Read(*moves), "is there");
  Do(stays->Close());
  Do(moves->Close());
}

}  // namespace
}  // namespace penstock::client::v4
