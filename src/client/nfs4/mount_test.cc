// Tests of mounts of version 4 with a server that loses state and refuses operations. src/client/mount_test.cc has the
// tests for all versions.
#include "client/nfs4/mount.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "client/mount_test_support.h"
#include "idmap/test_database.h"
#include "protocol/nfs4.h"
#include "rdma/sim/world.h"

namespace penstock::client::v4 {
namespace {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;
using nfs4::nfsstat4;
using testing::ElementsAre;

class Nfs4MountTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  explicit Nfs4MountTest(TestService::Options service_options) : MountTestBase(std::move(service_options)) {
    Open(UrlOf(GetParam()));
  }
  Nfs4MountTest() : Nfs4MountTest(TestService::Options()) {}

  size_t Count(nfs_opnum4 operation) const { return service.CountCalls(CompoundsWith(operation)); }
  Result<void> Lock(File& file, const char* owner, ByteRange range, Duration patience = Duration::zero()) {
    return Run(file.Lock(owner, range, LockKind::kExclusive, patience));
  }
};
INSTANTIATE_TEST_SUITE_P(Version, Nfs4MountTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// The server and the client have the same users, and names in one domain.
struct Names {
  rdma::sim::World world{1};
  idmap::TestDatabase database;
  idmap::Lookups lookups{database.database(), world, database.run()};
  const idmap::Mapper mapper{"example.org", lookups};
};

class OwnersTest : public Names, public Nfs4MountTest {
 protected:
  OwnersTest() : Nfs4MountTest({.owners = mapper}) {
    options.owners = &mapper;
    Open(UrlOf(GetParam()));
    Do(Create("file")->Close());
    file = Do(mount->Lookup(root(), "file")).handle;
  }
  Result<void> Set(const NewAttributes& attributes) { return Run(mount->SetAttributes(file, "file", attributes)); }
  Attributes Now() { return Do(mount->GetAttributes(file, "file")); }
  void RefuseOwners(size_t times) { service.FailOperation(nfs_opnum4::OP_SETATTR, nfsstat4::NFS4ERR_BADOWNER, times); }

  Handle file;
};
INSTANTIATE_TEST_SUITE_P(Version, OwnersTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// ---- owners ----

TEST_P(OwnersTest, SendsNumbersFirst) {
  EXPECT_TRUE(Set({.owner = "7", .group = "8"}));
  EXPECT_EQ(Now().owner, "7");
  EXPECT_EQ(Now().group, "8");
  EXPECT_EQ(Count(nfs_opnum4::OP_SETATTR), 1u);
  EXPECT_EQ(database.asked, 0u);
}

// RFC 7530 §5.9
TEST_P(OwnersTest, SendsNamesToAServerThatRefusesNumbers) {
  RefuseOwners(1);
  EXPECT_TRUE(Set({.mode = 0640, .owner = "7", .group = "8"}));
  EXPECT_EQ(Now().owner, "7");
  EXPECT_EQ(Now().group, "8");
  EXPECT_EQ(Now().mode, 0640u);
  EXPECT_EQ(Count(nfs_opnum4::OP_SETATTR), 2u);
  EXPECT_EQ(database.asked, 4u);  // by the client for two names, and by the server for their ids
  // Later the client sends names at once.
  EXPECT_TRUE(Set({.owner = "0"}));
  EXPECT_EQ(Now().owner, "0");
  EXPECT_EQ(Count(nfs_opnum4::OP_SETATTR), 3u);
  EXPECT_EQ(database.asked, 6u);
}

TEST_P(OwnersTest, SendsTheNamesOfAnAccessControlListToAServerThatRefusesNumbers) {
  std::vector<Ace> acl = Do(mount->GetAcl(file, "file"));
  acl.insert(acl.begin() + 1, Ace{.type = 0, .flags = 0, .mask = nfs4::ACE4_READ_DATA, .who = "7"});
  RefuseOwners(1);
  EXPECT_TRUE(Run(mount->SetAcl(file, "file", acl)));
  EXPECT_EQ(Count(nfs_opnum4::OP_SETATTR), 2u);
  const std::vector<Ace> now = Do(mount->GetAcl(file, "file"));
  EXPECT_EQ(std::ranges::count(now, "7", &Ace::who), 1);
  RefuseOwners(1);
  acl[1].who = "99";
  EXPECT_FALSE(Run(mount->SetAcl(file, "file", acl))) << "99 has no name";
}

TEST_P(OwnersTest, SendsNamesAsTheyAreGiven) {
  EXPECT_TRUE(Set({.owner = "anna@example.org"}));
  EXPECT_EQ(Now().owner, "7");
  const Result<void> unknown = Set({.owner = "carl@example.org"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().status, Status::kBadOwner);
  EXPECT_EQ(unknown.error().message, "file: the server does not know this owner or group");
  EXPECT_EQ(Count(nfs_opnum4::OP_SETATTR), 2u);
}

TEST_P(OwnersTest, ARefusedNumberWithoutANameIsAnError) {
  RefuseOwners(1);
  const Result<void> set = Set({.owner = "99"});
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().status, Status::kBadOwner);
  EXPECT_EQ(Count(nfs_opnum4::OP_SETATTR), 1u);
}

TEST_P(OwnersTest, GoesOnWithNumbersIfTheServerRefusesTheNameAsWell) {
  RefuseOwners(2);
  EXPECT_FALSE(Set({.owner = "7"}));
  EXPECT_EQ(Count(nfs_opnum4::OP_SETATTR), 2u);
  EXPECT_TRUE(Set({.owner = "99"}));
  EXPECT_EQ(Now().owner, "99");
}

// ---- names ----

class FilledDirectoryTest : public Nfs4MountTest {
 protected:
  FilledDirectoryTest() {
    options.trusts_directories_for = 1h;
    Open(UrlOf(GetParam()));
  }
  std::optional<Status> StatusOfLookUp(std::string_view name) {
    const auto found = Run(mount->Lookup(root(), name));
    return found ? std::nullopt : found.error().status;
  }
  // As a program that copies files does.
  void LookUpAndMake(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("file{}", made_++);
      EXPECT_EQ(StatusOfLookUp(name), Status::kNotFound);
      Do(Create(name)->Close());
    }
  }
  int made_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Version, FilledDirectoryTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(FilledDirectoryTest, AbsentNamesAreNotLookedUp) {
  LookUpAndMake(20);
  EXPECT_EQ(Count(nfs_opnum4::OP_LOOKUP), 2u);
  EXPECT_EQ(StatusOfLookUp("file7"), std::nullopt);
}

TEST_P(FilledDirectoryTest, NamesOfAnotherClientAreFoundAfterTheNextChange) {
  LookUpAndMake(5);
  const auto other = *TryToOpen(UrlOf(GetParam()));
  Do(Do(other->CreateFile(other->root(), "new", 0644, CreateMode::kKeep))->Close());
  LookUpAndMake(1);
  EXPECT_EQ(StatusOfLookUp("new"), std::nullopt);
  Run(other->Unmount());
}

TEST_P(FilledDirectoryTest, OtherChangesByThisClientAreKnown) {
  LookUpAndMake(5);
  Do(mount->MakeDirectory(root(), "directory", 0755));
  EXPECT_EQ(StatusOfLookUp("directory"), std::nullopt);
  LookUpAndMake(5);
  Do(mount->Rename(root(), "file1", root(), "renamed"));
  EXPECT_EQ(StatusOfLookUp("renamed"), std::nullopt);
  EXPECT_EQ(StatusOfLookUp("file1"), Status::kNotFound);
  LookUpAndMake(5);
  Do(mount->Link(Do(mount->Lookup(root(), "file2")).handle, root(), "link"));
  EXPECT_EQ(StatusOfLookUp("link"), std::nullopt);
  LookUpAndMake(5);
  Do(mount->Remove(root(), "file3"));
  EXPECT_EQ(StatusOfLookUp("file3"), Status::kNotFound);
}

TEST_P(Nfs4MountTest, LooksUpTheDirectoryItselfAndItsParent) {
  const Node directory = Do(mount->MakeDirectory(root(), "directory", 0755));
  EXPECT_EQ(Do(mount->Lookup(directory.handle, ".")).handle, directory.handle);
  EXPECT_EQ(Do(mount->Lookup(directory.handle, "..")).handle, root());
}

// RFC 8881 §18.25: REMOVE itself takes both, so the client compares the type before.
TEST_P(Nfs4MountTest, ComparesTheTypeBeforeItRemoves) {
  Do(Create("file")->Close());
  Do(mount->MakeDirectory(root(), "directory", 0755));
  EXPECT_EQ(ErrorOf(mount->Remove(root(), "directory")).message, "directory: is a directory");
  EXPECT_EQ(ErrorOf(mount->RemoveDirectory(root(), "file")).message, "file: not a directory");
  EXPECT_THAT(List(), ElementsAre("directory", "file"));
}

TEST_P(Nfs4MountTest, ListsAttributesWithTheEntries) {
  Do(Create("file", "data")->Close());
  std::vector<Entry> entries;
  Do(mount->List(root(), "/", [&](Entry entry) { entries.push_back(std::move(entry)); }));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].name, "file");
  ASSERT_TRUE(entries[0].attributes);
  EXPECT_EQ(entries[0].attributes->size, 4u);
}

// ---- open files ----

TEST_P(Nfs4MountTest, DoesNotOpenADirectory) {
  const Node directory = Do(mount->MakeDirectory(root(), "directory", 0755));
  EXPECT_EQ(ErrorOf(mount->OpenFile(directory, "directory", Access::kRead)).status, Status::kIsDirectory);
}

TEST_P(Nfs4MountTest, AFileThatIsRemovedBeforeItIsOpenedIsAnError) {
  Do(Create("file")->Close());
  const Node node = Do(mount->Lookup(root(), "file"));
  Do(mount->Remove(root(), "file"));
  const Error error = ErrorOf(mount->OpenFile(node, "file", Access::kRead));
  EXPECT_EQ(error.status, GetParam() == Version::k40 ? Status::kNotFound : Status::kStale) << error.message;
}

// Version 4.0 opens by name (RFC 7530 §16.16), and the name may lead to another file than the lookup.
TEST_P(Nfs4MountTest, DoesNotOpenAnotherFileOfTheSameName) {
  Do(Create("file", "old")->Close());
  const Node node = Do(mount->Lookup(root(), "file"));
  Do(mount->Link(node.handle, root(), "kept"));
  Do(Create("other", "new")->Close());
  Do(mount->Rename(root(), "other", root(), "file"));
  auto opened = Run(mount->OpenFile(node, "file", Access::kRead));
  if (GetParam() == Version::k40) {
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().status, Status::kStale);
  } else {
    ASSERT_TRUE(opened);
    EXPECT_EQ(Read(**opened), "old");
    Do((*opened)->Close());
  }
}

TEST_P(Nfs4MountTest, AWriteToAFileThatIsOpenForReadingIsRefused) {
  Do(Create("file")->Close());
  const auto file = OpenFile("file", Access::kRead);
  const Result<File::WriteReply> written = Write(*file, "data");
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().status) << written.error().message;
  EXPECT_EQ(Read(*file), "");
  Do(file->Close());
}

// ---- lost state ----

// RFC 8881 §8.4, §15.1.5
TEST_P(Nfs4MountTest, OpensTheFileAgainIfItsStateIsLost) {
  const auto file = Create("file", "contents");
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_BAD_STATEID, nfsstat4::NFS4ERR_STALE_STATEID,
                                nfsstat4::NFS4ERR_EXPIRED, nfsstat4::NFS4ERR_ADMIN_REVOKED}) {
    const size_t opens = Count(nfs_opnum4::OP_OPEN);
    service.FailOperation(nfs_opnum4::OP_READ, status);
    EXPECT_EQ(Read(*file), "contents") << XdrName(status);
    service.FailOperation(nfs_opnum4::OP_WRITE, status);
    EXPECT_TRUE(Write(*file, "contents")) << XdrName(status);
    EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), opens + 2) << XdrName(status);
  }
  Do(file->Close());
}

TEST_P(Nfs4MountTest, GivesUpAStateThatIsLostAgainAndAgain) {
  const auto file = Create("file", "contents");
  service.FailOperation(nfs_opnum4::OP_READ, nfsstat4::NFS4ERR_BAD_STATEID, 3);
  std::array<std::byte, 8> octets{};
  EXPECT_EQ(ErrorOf(file->Read(0, octets)).message, "file: the server says NFS4ERR_BAD_STATEID");
  EXPECT_EQ(Read(*file), "contents");
  Do(file->Close());
}

TEST_P(Nfs4MountTest, ReportsOtherStateErrorsWithoutOpeningAgain) {
  const auto file = Create("file", "contents");
  std::array<std::byte, 8> octets{};
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_STALE, nfsstat4::NFS4ERR_LOCKED, nfsstat4::NFS4ERR_OPENMODE}) {
    service.FailOperation(nfs_opnum4::OP_READ, status);
    EXPECT_EQ(ErrorOf(file->Read(0, octets)).status, static_cast<Status>(status));
    service.FailOperation(nfs_opnum4::OP_WRITE, status);
    EXPECT_EQ(ErrorOf(file->Write(0, octets)).status, static_cast<Status>(status));
    service.FailOperation(nfs_opnum4::OP_COMMIT, status);
    EXPECT_EQ(ErrorOf(file->Commit()).status, static_cast<Status>(status));
  }
  EXPECT_EQ(octets, (std::array<std::byte, 8>{}));
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), 1u);
  Do(file->Close());
}

TEST_P(Nfs4MountTest, ACloseOfALostStateSucceeds) {
  const auto file = Create("file");
  service.FailOperation(nfs_opnum4::OP_CLOSE, nfsstat4::NFS4ERR_BAD_STATEID);
  Do(file->Close());
  const auto other = Create("other");
  service.FailOperation(nfs_opnum4::OP_CLOSE, nfsstat4::NFS4ERR_SERVERFAULT);
  EXPECT_EQ(ErrorOf(other->Close()).message, "other: server fault");
}

// ---- delays and locks ----

// RFC 8881 §15.1.1.3, §15.1.9.2
TEST_P(Nfs4MountTest, RetriesWhileTheServerDelaysAnOperation) {
  const nfs_opnum4 operations[] = {nfs_opnum4::OP_READ, nfs_opnum4::OP_WRITE, nfs_opnum4::OP_COMMIT,
                                   nfs_opnum4::OP_LOOKUP, nfs_opnum4::OP_READDIR};
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_DELAY, nfsstat4::NFS4ERR_GRACE}) {
    const auto file = Create("file", "contents");
    for (const nfs_opnum4 operation : operations) service.FailOperation(operation, status, 2);
    EXPECT_EQ(Read(*file), "contents");
    EXPECT_TRUE(Write(*file, "contents"));
    Do(file->Commit());
    Do(mount->Lookup(root(), "file"));
    EXPECT_THAT(List(), ElementsAre("file"));
    Do(file->Close());
  }
}

TEST_P(Nfs4MountTest, WaitsForALockThatAnotherOwnerGivesUp) {
  const auto file = Create("file");
  EXPECT_TRUE(Lock(*file, "one", {0, 10}));
  const Result<void> denied = Lock(*file, "two", {5, 10}, 30ms);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().message, "file: locked by another client");
  std::optional<Result<void>> waited;
  Spawn([](File& of, std::optional<Result<void>>& out) -> Task<void> {
    out.emplace(co_await of.Lock("two", {5, 10}, LockKind::kShared, 20s));
  }(*file, waited));
  TurnFor(loop, 30ms);
  EXPECT_FALSE(waited);
  Do(file->Unlock("one", {0, 10}));
  EXPECT_TRUE(TurnUntil(loop, [&] { return waited.has_value(); }));
  EXPECT_TRUE(*waited);
  Do(file->Close());
}

TEST_P(Nfs4MountTest, ReportsTheConflictingLock) {
  const auto file = Create("file");
  EXPECT_EQ(Do(file->TestLock("two", {0, 100}, LockKind::kShared)), std::nullopt);
  EXPECT_TRUE(Lock(*file, "one", {10, ByteRange::kToEnd}));
  const auto conflict = Do(file->TestLock("two", {0, 100}, LockKind::kShared));
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->range, (ByteRange{10, ByteRange::kToEnd}));
  EXPECT_EQ(conflict->kind, LockKind::kExclusive);
  EXPECT_EQ(Do(file->TestLock("two", {0, 10}, LockKind::kExclusive)), std::nullopt);
  Do(file->Close());
}

// RFC 8881 §18.10.3
TEST_P(Nfs4MountTest, RejectsARangeThatIsEmptyOrTooLong) {
  const auto file = Create("file");
  for (const ByteRange range : {ByteRange{0, 0}, ByteRange{3, ~uint64_t{0} - 1}}) {
    EXPECT_EQ(Lock(*file, "one", range).error().status, Status::kInvalid);
    EXPECT_EQ(ErrorOf(file->Unlock("one", range)).status, Status::kInvalid);
    EXPECT_EQ(ErrorOf(file->TestLock("one", range, LockKind::kShared)).status, Status::kInvalid);
  }
  Do(file->Unlock("an owner without locks", {0, 10}));
  EXPECT_EQ(Count(nfs_opnum4::OP_LOCK) + Count(nfs_opnum4::OP_LOCKU), 0u);
  Do(file->Close());
}

// ---- restarts of the server ----

class RestartTest : public Nfs4MountTest {
 protected:
  RestartTest() : Nfs4MountTest({.lease = 2s}) {}
};
INSTANTIATE_TEST_SUITE_P(Version, RestartTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// RFC 8881 §8.4.2.1, RFC 7530 §9.6.2
TEST_P(RestartTest, ReclaimsFilesAndLocks) {
  const auto file = Create("file", "contents");
  EXPECT_TRUE(Lock(*file, "one", {0, 10}));
  service.Restart();
  EXPECT_EQ(Read(*file), "contents");
  EXPECT_TRUE(Write(*file, "contents"));
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), 2u);
  EXPECT_EQ(Count(nfs_opnum4::OP_LOCK), 2u);
  // The client has reclaimed the lock, so another owner does not get it.
  EXPECT_EQ(Lock(*file, "two", {0, 10}).error().status, Status::kDenied);
  Do(file->Unlock("one", {0, 10}));
  Do(file->Close());
}

TEST_P(RestartTest, WaitsForTheEndOfTheGracePeriodToOpenAnotherFile) {
  Do(Create("other", "other")->Close());
  const auto file = Create("file", "contents");
  service.Restart();
  const auto other = OpenFile("other", Access::kRead);
  EXPECT_EQ(Read(*other), "other");
  EXPECT_EQ(Read(*file), "contents");
  Do(other->Close());
  Do(file->Close());
}

// Only the first of them begins the recovery.
TEST_P(RestartTest, OpensManyFilesAtOnce) {
  constexpr int kFiles = 8;
  for (int i = 0; i < kFiles; ++i) Do(Create(fmt::format("file{}", i))->Close());
  std::vector<Node> nodes;
  for (int i = 0; i < kFiles; ++i) nodes.push_back(Do(mount->Lookup(root(), fmt::format("file{}", i))));
  std::vector<Result<std::unique_ptr<client::File>>> opened;
  service.Restart();
  for (const Node& node : nodes) {
    Spawn([](client::Mount& at, const Node& of, auto& out) -> Task<void> {
      out.push_back(co_await at.OpenFile(of, of.name, Access::kRead));
    }(*mount, node, opened));
  }
  EXPECT_TRUE(TurnUntil(loop, [&] { return opened.size() == kFiles; }));
  for (auto& file : opened) {
    ASSERT_TRUE(file) << file.error().message;
    Do((*file)->Close());
  }
}

TEST_P(RestartTest, ClosesAFileThatTheServerHasForgotten) {
  const auto file = Create("file", "contents");
  service.Restart();
  Do(file->Close());
  Do(mount->Remove(root(), "file"));
}

// Otherwise the grace period might end before the next use of the file.
TEST_P(RestartTest, ReclaimsWhileTheFileIsNotUsed) {
  const auto file = Create("file", "contents");
  service.Restart();
  EXPECT_TRUE(TurnUntil(loop, [&] { return Count(nfs_opnum4::OP_OPEN) == 2; }));
  EXPECT_EQ(Read(*file), "contents");
  Do(file->Close());
}

TEST_P(RestartTest, RenewsTheLeaseOfAnIdleMount) {
  const auto file = Create("file", "contents");
  EXPECT_TRUE(Lock(*file, "one", {0, 10}));
  TurnFor(loop, 3s);
  EXPECT_EQ(Read(*file), "contents");
  Do(file->Unlock("one", {0, 10}));
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), 1u) << "the client has not opened the file again";
  Do(file->Close());
}

// Not for version 4.0: its server counts each LOCK, and the refused LOCK of this test does not reach it.
class SessionRestartTest : public RestartTest {};
INSTANTIATE_TEST_SUITE_P(Version, SessionRestartTest, testing::Values(Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(SessionRestartTest, ReportsLocksThatCannotBeReclaimed) {
  const auto file = Create("file", "contents");
  EXPECT_TRUE(Lock(*file, "one", {0, 10}));
  service.FailOperation(nfs_opnum4::OP_LOCK, nfsstat4::NFS4ERR_NO_GRACE);
  service.Restart();
  std::array<std::byte, 8> octets{};
  EXPECT_EQ(ErrorOf(file->Read(0, octets)).status, Status::kExpired);
  EXPECT_EQ(octets, (std::array<std::byte, 8>{})) << "another client may have changed the data";
  EXPECT_EQ(ErrorOf(file->Unlock("one", {0, 10})).status, Status::kExpired);
  EXPECT_EQ(Read(*file), "contents");
  Do(file->Close());
}

// ---- sessions ----

class SessionMountTest : public Nfs4MountTest {};
INSTANTIATE_TEST_SUITE_P(Version, SessionMountTest, testing::Values(Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// RFC 8881 §15.1.11
TEST_P(SessionMountTest, MakesALostSessionAgain) {
  const auto file = Create("file", "contents");
  size_t sessions = Count(nfs_opnum4::OP_CREATE_SESSION);
  for (const nfsstat4 status : {nfsstat4::NFS4ERR_BADSESSION, nfsstat4::NFS4ERR_DEADSESSION, nfsstat4::NFS4ERR_BADSLOT,
                                nfsstat4::NFS4ERR_BAD_HIGH_SLOT, nfsstat4::NFS4ERR_SEQ_MISORDERED,
                                nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION}) {
    service.FailOperation(nfs_opnum4::OP_SEQUENCE, status);
    EXPECT_EQ(Read(*file), "contents") << XdrName(status);
    EXPECT_EQ(Count(nfs_opnum4::OP_CREATE_SESSION), ++sessions) << XdrName(status);
    service.FailOperation(nfs_opnum4::OP_SEQUENCE, status);
    Do(mount->MakeDirectory(root(), "directory", 0755));
    Do(mount->RemoveDirectory(root(), "directory"));
    ++sessions;
  }
  EXPECT_EQ(Count(nfs_opnum4::OP_EXCHANGE_ID), 1u);
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), 1u) << "the file stays open";
  Do(file->Close());
}

// nfs-ganesha does so for some seconds after the end of a lease.
TEST_P(SessionMountTest, GoesOnIfSequenceSaysThatTheLeaseHasExpired) {
  const auto file = Create("file", "text");
  service.FailOperation(nfs_opnum4::OP_SEQUENCE, nfsstat4::NFS4ERR_EXPIRED);
  EXPECT_EQ(Read(*file), "text");
  EXPECT_TRUE(Write(*file, "more", 4));
  EXPECT_EQ(Count(nfs_opnum4::OP_EXCHANGE_ID), 2u);
  Do(file->Close());
}

TEST_P(SessionMountTest, ReportsARequestThatTheSessionCannotCarry) {
  for (const nfsstat4 status :
       {nfsstat4::NFS4ERR_REQ_TOO_BIG, nfsstat4::NFS4ERR_TOO_MANY_OPS, nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE}) {
    service.FailOperation(nfs_opnum4::OP_SEQUENCE, status);
    EXPECT_EQ(ErrorOf(mount->Lookup(root(), "file")).status, static_cast<Status>(status));
    EXPECT_EQ(ErrorOf(mount->Lookup(root(), "file")).status, Status::kNotFound) << "the slot is still good";
  }
  EXPECT_EQ(Count(nfs_opnum4::OP_CREATE_SESSION), 1u);
}

// ---- version 4.0 ----

class Nfs40MountTest : public MountTestBase {
 protected:
  Nfs40MountTest() { Open(UrlOf(Version::k40)); }
};

// RFC 7530 §16.16.1: version 4.0 has no CLAIM_FH.
TEST_F(Nfs40MountTest, DoesNotOpenAFileWithoutAName) {
  Do(Create("file")->Close());
  Node node = Do(mount->Lookup(root(), "file"));
  node.name.clear();
  const Error error = ErrorOf(mount->OpenFile(node, "file", Access::kRead));
  EXPECT_EQ(error.status, Status::kInvalid);
}

// RFC 7530 §9.1.7: without a reply the client does not know the count of the owner.
TEST_F(Nfs40MountTest, UsesAnotherOwnerAfterAnOpenWithoutReply) {
  Do(Create("file", "contents")->Close());
  service.TruncateReply(CompoundsWith(nfs_opnum4::OP_OPEN));
  EXPECT_EQ(ErrorOf(mount->OpenFile(Do(mount->Lookup(root(), "file")), "file", Access::kRead)).message,
            "file: the server's reply is malformed");
  const auto file = OpenFile("file", Access::kRead);
  EXPECT_EQ(Read(*file), "contents");
  Do(file->Close());
}

// RFC 7530 §16.10.1: the first LOCK of an owner has a client id.
TEST_F(Nfs40MountTest, LocksAgainIfTheServerHasRestarted) {
  const auto file = Create("file", "contents");
  service.FailOperation(nfs_opnum4::OP_LOCK, nfsstat4::NFS4ERR_STALE_CLIENTID);
  Do(file->Lock("one", {0, 10}, LockKind::kExclusive));
  Do(file->Unlock("one", {0, 10}));
  Do(file->Close());
}

TEST_F(Nfs40MountTest, ALockWithoutAReplyIsReportedAsLost) {
  const auto file = Create("file", "contents");
  Do(file->Lock("one", {0, 10}, LockKind::kExclusive));
  service.TruncateReply(CompoundsWith(nfs_opnum4::OP_LOCK));
  EXPECT_EQ(ErrorOf(file->Lock("one", {20, 10}, LockKind::kExclusive)).message,
            "file: the server's reply is malformed");
  // The count of the lock-owner is lost, and with it the lock.
  EXPECT_EQ(ErrorOf(file->Lock("one", {40, 10}, LockKind::kExclusive)).status, Status::kExpired);
  Do(file->Lock("one", {40, 10}, LockKind::kExclusive));
  Do(file->Close());
}

// ---- delegations and restarts ----

class DelegatedTest : public Nfs4MountTest {
 protected:
  DelegatedTest() : Nfs4MountTest({.lease = 2s, .delegations = 16}) {}
};
INSTANTIATE_TEST_SUITE_P(Version, DelegatedTest, testing::Values(Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(DelegatedTest, ADelegationIsReclaimedAlthoughItsFileIsUsedDuringTheRecovery) {
  const auto file = Create("file", "text");
  ASSERT_EQ(service.delegations(), 1u);
  service.Restart();
  ASSERT_EQ(service.delegations(), 0u);
  const size_t before = Count(nfs_opnum4::OP_EXCHANGE_ID);
  // The client has another client id, and has reclaimed nothing yet.
  const auto next_session = [&](const SeenCall& call) {
    return CompoundsWith(nfs_opnum4::OP_CREATE_SESSION)(call) && Count(nfs_opnum4::OP_EXCHANGE_ID) > before;
  };
  Signal go;
  bool is_waiting = false;
  service.DelayReply(next_session, [&] {
    is_waiting = true;
    return [](Signal& at) -> Task<void> { co_await at; }(go);
  });
  std::optional<Result<Attributes>> first;
  std::optional<Result<Attributes>> second;
  const auto ask = [this](Handle object, auto& out) -> Task<void> {
    out = co_await mount->GetAttributes(object, "object");
  };
  Spawn(ask(root(), first));
  ASSERT_TRUE(TurnUntil(loop, [&] { return is_waiting; }));
  Spawn(ask(file->node().handle, second));
  TurnFor(loop, 10ms);
  EXPECT_FALSE(second);
  go.Notify();
  ASSERT_TRUE(TurnUntil(loop, [&] { return first && second; }));
  EXPECT_TRUE(*first && *second);
  EXPECT_EQ(service.delegations(), 1u);
  Do(file->Close());
}

// ---- delegations instead of opens (RFC 9754 §4) ----

TEST_P(DelegatedTest, AFileWithADelegationIsNotClosedInVersion42) {
  Do(Create("file", "text")->Close());
  EXPECT_EQ(Count(nfs_opnum4::OP_CLOSE), GetParam() == Version::k42 ? 0u : 1u);
  EXPECT_EQ(service.delegations(), 1u);
  const auto file = OpenFile("file");
  EXPECT_EQ(Read(*file), "text");
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), 1u);
  Do(file->Close());
}

TEST_P(DelegatedTest, AFileStaysOpenWhenItsDelegationIsRecalled) {
  const auto file = Create("file", "text");
  const auto other = *TryToOpen(UrlOf(GetParam()));
  const auto same = Do(other->OpenFile(Do(other->Lookup(other->root(), "file")), "file", Access::kBoth));
  EXPECT_TRUE(Write(*file, "more", 4));
  EXPECT_EQ(Read(*same), "textmore");
  EXPECT_EQ(service.delegations(), 0u);
  EXPECT_TRUE(Lock(*file, "owner", {0, 1}));
  Do(file->Close());
  EXPECT_EQ(Count(nfs_opnum4::OP_CLOSE), 1u);
  Do(same->Close());
  Run(other->Unmount());
}

TEST_P(DelegatedTest, ALockOpensADelegatedFile) {
  const auto file = Create("file", "text");
  EXPECT_TRUE(Lock(*file, "owner", {0, 1}));
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), GetParam() == Version::k42 ? 2u : 1u);
  Do(file->Close());
  EXPECT_EQ(Count(nfs_opnum4::OP_CLOSE), 1u);
}

// The creator of a file may write to it once, whatever its mode.
TEST_P(DelegatedTest, TheServerDecidesOnLaterOpensOfAFileWithoutRightsForItsOwner) {
  const auto file = Do(mount->CreateFile(root(), "file", 0444, CreateMode::kKeep, Access::kWrite));
  EXPECT_TRUE(Write(*file, "text"));
  const size_t opens = Count(nfs_opnum4::OP_OPEN);
  Do(Do(mount->OpenFile(file->node(), "file", Access::kRead))->Close());
  EXPECT_EQ(Count(nfs_opnum4::OP_OPEN), opens + 1);
  Do(file->Close());
}

TEST_P(DelegatedTest, ADelegatedFileIsReclaimedAfterARestart) {
  const auto file = Create("file", "text");
  service.Restart();
  EXPECT_TRUE(Write(*file, "more", 4));
  EXPECT_EQ(Read(*file), "textmore");
  EXPECT_EQ(service.delegations(), 1u);
  Do(file->Close());
}

}  // namespace
}  // namespace penstock::client::v4
