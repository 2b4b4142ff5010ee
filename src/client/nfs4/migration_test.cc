// Tests of file systems that move to another server while they are in use (RFC 8881 §11.5.5, RFC 7530 §8.4.2).
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <array>
#include <cerrno>
#include <map>

#include "base/signal.h"
#include "base/test_log.h"
#include "client/mount_test_support.h"
#include "client/nfs4/tree_parts.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {
namespace {

using namespace std::chrono_literals;
using nfs4::nfs_opnum4;
using nfs4::nfsstat4;
using testing::ElementsAre;
using testing::HasSubstr;

// What a user knows who has looked up all objects by their names.
class Names final : public KnownNames {
 public:
  void Add(const Node& node, const Handle& directory, std::string_view name) {
    places_[node.handle] = {directory, std::string(name), node.attributes.type};
    objects_[{directory, std::string(name)}] = node.handle;
  }
  void Forget(const Handle& object, const Handle& directory, std::string_view name) {
    places_.erase(object);
    objects_.erase({directory, std::string(name)});
  }
  std::optional<Place> PlaceOf(const Handle& object) const override {
    const auto at = places_.find(object);
    return at == places_.end() ? std::nullopt : std::optional(at->second);
  }
  bool Knows(const Handle& object) const override { return places_.contains(object); }
  std::optional<Handle> ObjectAt(const Handle& directory, std::string_view name) const override {
    const auto at = objects_.find({directory, std::string(name)});
    return at == objects_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  std::map<Handle, Place> places_;
  std::map<std::pair<Handle, std::string>, Handle> objects_;
};

// `service` is the mounted server, which serves /data with /data/directory/file. The test moves /data to `far`, which
// has another file at the same path.
class MigrationTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  MigrationTest() : MountTestBase({.exports = {"/data", "/more"}, .lease = 2s, .delegations = 10}) {
    Fill(service, "here");
    Fill(far, "is there");
  }
  ~MigrationTest() override {
    if (mount) Unmount();
  }

  std::unique_ptr<Mount> MountOf(const TestService& of, const std::string& path = "/", uint32_t timeout = 20) {
    Url url = UrlOf(GetParam(), path);
    url.port = of.port();
    url.recovery.timeout = timeout;
    return Do(Mount::Open(loop, workers, url, options));
  }
  std::unique_ptr<Mount> MountOfOtherUser() {
    Url url = UrlOf(GetParam());
    url.uid = 1000;
    return Do(Mount::Open(loop, workers, url, options));
  }
  // Opens a mount of a user who may make files in the directory, at both servers. `far` has the file "new" of this
  // user.
  void OpenAsOtherUser(uint32_t mode) {
    const NewAttributes for_all{.mode = 0777};
    const NewAttributes of_user{.mode = mode, .owner = "1000"};
    for (const TestService* const each : {&service, &far}) {
      const auto mounted = MountOf(*each);
      const Node inner = Do(mounted->Resolve("data/directory"));
      Do(mounted->SetAttributes(inner.handle, "directory", for_all));
      if (each == &far) {
        const auto copied = Do(mounted->CreateFile(inner.handle, "new", 0600));
        Do(copied->Close());
        Do(mounted->SetAttributes(copied->node().handle, "new", of_user));
      }
      Run(mounted->Unmount());
    }
    mount = MountOfOtherUser();
    mount->set_names(&names);
    data = Look(root(), "data");
    directory = Look(data.handle, "directory");
  }
  void Fill(const TestService& of, std::string_view text) {
    const auto mounted = MountOf(of);
    const Node top = Do(mounted->Lookup(mounted->root(), "data"));
    const Node inner = Do(mounted->MakeDirectory(top.handle, "directory", 0755));
    const auto created = Do(mounted->CreateFile(inner.handle, "file", 0644));
    EXPECT_TRUE(Write(*created, text));
    Do(created->Commit());
    Do(created->Close());
    Run(mounted->Unmount());
  }
  // What the server has in /data/directory/file now.
  std::string TextAt(const TestService& of) {
    const auto mounted = MountOf(of);
    const auto opened = Do(mounted->OpenFile(Do(mounted->Resolve("data/directory/file")), "file", Access::kRead));
    std::string text = MountTestBase::Read(*opened);
    Do(opened->Close());
    Run(mounted->Unmount());
    return text;
  }
  // At both servers, the file is /data/directory/second as well.
  void AddSecondName() {
    for (const TestService* const each : {&service, &far}) {
      const auto mounted = MountOf(*each);
      const Node inner = Do(mounted->Resolve("data/directory"));
      Do(mounted->Link(Do(mounted->Lookup(inner.handle, "file")).handle, inner.handle, "second"));
      Run(mounted->Unmount());
    }
  }
  void RemoveFile(const TestService& of) {
    const auto mounted = MountOf(of);
    Do(mounted->Remove(Do(mounted->Resolve("data/directory")).handle, "file"));
    Run(mounted->Unmount());
  }

  Node Look(const Handle& in, std::string_view name) {
    const Node node = Do(mount->Lookup(in, name));
    names.Add(node, in, name);
    return node;
  }
  void Open(const std::string& path = "/", uint32_t timeout = 20) {
    mount = MountOf(service, path, timeout);
    mount->set_names(&names);
    Node top = Do(mount->Resolve(mount->path()));
    names.Add(top, {}, {});
    if (path == "/") {
      data = Look(root(), "data");
    } else {
      data = top;
    }
    directory = Look(data.handle, "directory");
    file = Look(directory.handle, "file");
  }
  uint64_t SizeOf(const Node& node) { return Do(mount->GetAttributes(node.handle, "file")).size; }
  // Asks for the attributes of the file. `got` gets the result, and outlives the call.
  void StartGetAttributes(Mount& of, std::optional<Result<Attributes>>& got) {
    Spawn([](Mount& asked, const Handle& object, std::optional<Result<Attributes>>& out) -> Task<void> {
      out = co_await asked.GetAttributes(object, "file");
    }(of, file.handle, got));
  }
  static size_t Occurrences(std::string_view text, std::string_view part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

  // The calls by which the client finds out whether a file system has moved.
  static CallMatcher Looks() {
    return [](const SeenCall& call) {
      return !call.operations.empty() && call.operations.back() == nfs_opnum4::OP_GETFH &&
             CompoundsWith(nfs_opnum4::OP_PUTFH)(call);
    };
  }

  TestService far{loop, {.exports = {"/data"}, .lease = 2s}};
  Names names;
  Node data;
  Node directory;
  Node file;
};
INSTANTIATE_TEST_SUITE_P(Version, MigrationTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// ---- handles ----

TEST_P(MigrationTest, HandlesStandForTheSamePathsAtTheNewServer) {
  Open();
  const Node more = Look(root(), "more");
  const CapturedLog log;
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(SizeOf(file), 8u);
  EXPECT_EQ(Do(mount->Lookup(directory.handle, "file")).handle, file.handle);
  EXPECT_EQ(Do(mount->Lookup(data.handle, "directory")).handle, directory.handle);
  EXPECT_EQ(Do(mount->Lookup(root(), "data")).handle, data.handle);
  EXPECT_EQ(Do(mount->Lookup(data.handle, "..")).handle, root());
  EXPECT_EQ(Do(mount->GetAttributes(more.handle, "more")).type, FileType::kDirectory);
  EXPECT_EQ(Occurrences(log.text(), fmt::format("/data has moved from 127.0.0.1 port {} to 127.0.0.1 port {}",
                                                service.port(), far.port())),
            1u)
      << log.text();
}

TEST_P(MigrationTest, ANameLeadsToTheObjectThatHasHadItBefore) {
  Open();
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(Do(mount->Lookup(root(), "data")).handle, data.handle);
  const Listing listing = Do(mount->ListFrom(data.handle, "data", {}, ListContent::kAttributesAndHandles));
  ASSERT_EQ(listing.entries.size(), 1u);
  EXPECT_EQ(listing.entries[0].handle, directory.handle);
  EXPECT_EQ(Do(mount->Lookup(directory.handle, "file")).handle, file.handle);
}

TEST_P(MigrationTest, ATreeMayBeginInTheFileSystemThatMoves) {
  Open("/data");
  const CapturedLog log;
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(SizeOf(file), 8u);
  EXPECT_EQ(Do(mount->GetAttributes(data.handle, "data")).type, FileType::kDirectory);
  EXPECT_EQ(Do(mount->Lookup(data.handle, "directory")).handle, directory.handle);
  EXPECT_EQ(Occurrences(log.text(), "/data has moved from "), 1u) << log.text();
}

TEST_P(MigrationTest, WhatIsNotAtTheNewServerIsStale) {
  Open();
  RemoveFile(far);
  service.Move("/data", At(far, "/data"));
  const Error error = ErrorOf(mount->GetAttributes(file.handle, "file"));
  EXPECT_EQ(error.status, Status::kStale);
  EXPECT_THAT(error.message, HasSubstr("/data/directory/file: stale"));
  EXPECT_EQ(Do(mount->GetAttributes(directory.handle, "directory")).type, FileType::kDirectory);
  EXPECT_EQ(ErrorOf(mount->Lookup(directory.handle, "file")).status, Status::kNotFound);
}

TEST_P(MigrationTest, AnObjectOfAnotherTypeIsStale) {
  Open();
  {
    const auto mounted = MountOf(far);
    const Node inner = Do(mounted->Resolve("data/directory"));
    Do(mounted->Remove(inner.handle, "file"));
    Do(mounted->MakeDirectory(inner.handle, "file", 0755));
    Run(mounted->Unmount());
  }
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(ErrorOf(mount->GetAttributes(file.handle, "file")).status, Status::kStale);
  EXPECT_NE(Do(mount->Lookup(directory.handle, "file")).handle, file.handle);
}

TEST_P(MigrationTest, EveryOperationFollows) {
  Open();
  service.Move("/data", At(far, "/data"));
  const NewAttributes mode{.mode = 0600};
  Do(mount->SetAttributes(file.handle, "file", mode));
  const Node made = Do(mount->MakeDirectory(directory.handle, "made", 0755));
  // The directories have moved, but one of them has not been used since.
  Do(mount->Rename(directory.handle, "file", data.handle, "renamed"));
  Do(mount->Rename(data.handle, "renamed", made.handle, "file"));
  Do(mount->Link(Do(mount->Lookup(made.handle, "file")).handle, data.handle, "second"));
  EXPECT_EQ(Do(mount->Lookup(data.handle, "second")).attributes.mode, 0600u);
  Do(mount->Remove(data.handle, "second"));
  EXPECT_EQ(service.CountCalls(CompoundsWith(nfs_opnum4::OP_RENAME)), 0u);
}

TEST_P(MigrationTest, AListingOfTheOldServerCannotGoOn) {
  Open();
  Do(mount->MakeDirectory(data.handle, "second", 0755));
  const Listing listing = Do(mount->ListFrom(data.handle, "data", {}, ListContent::kAttributes));
  const ListPosition behind{.cookie = listing.entries[0].cookie, .verifier = listing.next.verifier};
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(ErrorOf(mount->ListFrom(data.handle, "data", behind, ListContent::kAttributes)).status, Status::kBadCookie);
  const Listing anew = Do(mount->ListFrom(data.handle, "data", {}, ListContent::kAttributes));
  ASSERT_EQ(anew.entries.size(), 1u);
  ListPosition last = anew.next;
  last.cookie = anew.entries[0].cookie;
  EXPECT_THAT(Do(mount->ListFrom(data.handle, "data", last, ListContent::kAttributes)).entries, ElementsAre());
}

TEST_P(MigrationTest, HandlesMeanTheSameObjectsInTheMountsOfSeveralUsers) {
  Open();
  options.shares_handles_with = mount.get();
  const auto other = MountOfOtherUser();
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(SizeOf(file), 8u);
  EXPECT_EQ(Do(other->GetAttributes(file.handle, "file")).size, 8u);
  EXPECT_EQ(Do(other->Lookup(root(), "data")).handle, data.handle);
  Run(other->Unmount());
}

// RFC 8881 §18.51.3
TEST_P(MigrationTest, TellsTheNewServerThatItReclaimsNothing) {
  if (GetParam() == Version::k40) return;  // has no such operation
  Open();
  const auto completions = [&] { return far.CountCalls(CompoundsWith(nfs_opnum4::OP_RECLAIM_COMPLETE)); };
  const size_t before = completions();
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(SizeOf(file), 8u);
  EXPECT_EQ(SizeOf(directory), SizeOf(directory));
  EXPECT_EQ(completions(), before + 2) << "one for the client, one for the file system";
}

// A user may have mounted the server before another one finds out that a file system has moved there.
TEST_P(MigrationTest, EachUserTellsTheNewServerThatItReclaimsNothing) {
  if (GetParam() == Version::k40) return;  // has no such operation
  Open();
  options.shares_handles_with = mount.get();
  const auto other = MountOfOtherUser();
  service.Move("/data", At(far, "/data"));
  mount->set_names(nullptr);
  Do(other->Lookup(root(), "data"));  // a referral to this user, who knows no name
  mount->set_names(&names);
  service.MoveBack("/data");
  EXPECT_EQ(SizeOf(file), 4u);
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(SizeOf(file), 8u);
  const auto completions = [&] { return far.CountCalls(CompoundsWith(nfs_opnum4::OP_RECLAIM_COMPLETE)); };
  const size_t before = completions();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Do(other->GetAttributes(file.handle, "file")).size, 8u);
  EXPECT_EQ(completions(), before + 1);
  Run(other->Unmount());
}

TEST_P(MigrationTest, AFileThatIsMetByAnotherNameAfterTheMoveIsOneFile) {
  AddSecondName();
  Open();
  service.Move("/data", At(far, "/data"));
  const Node second = Look(directory.handle, "second");
  EXPECT_EQ(Look(directory.handle, "file").handle, second.handle);
  EXPECT_EQ(SizeOf(file), 8u) << "the handle of before is good";
  EXPECT_EQ(Look(directory.handle, "file").handle, second.handle);
}

TEST_P(MigrationTest, AnOpenFileThatIsMetByAnotherNameAfterTheMoveIsTheSame) {
  AddSecondName();
  for (const bool is_listed : {false, true}) {
    Open();
    auto opened = Do(mount->OpenFile(file, "file", Access::kRead));
    service.Move("/data", At(far, "/data"));
    if (is_listed) {
      const Listing all = Do(mount->ListFrom(directory.handle, "directory", {}, ListContent::kAttributesAndHandles));
      ASSERT_EQ(all.entries.size(), 2u);
      for (const Entry& each : all.entries) EXPECT_EQ(each.handle, file.handle) << each.name;
    } else {
      EXPECT_EQ(Do(mount->Lookup(directory.handle, "second")).handle, file.handle);
    }
    Do(opened->Close());
    opened.reset();
    Unmount();
    service.MoveBack("/data");
    names = {};
  }
}

TEST(TreePartsTest, ForgottenObjectsTakeNoMemory) {
  TreeParts parts;
  Names known;
  parts.set_names(&known);
  Node kept;
  kept.handle = Handle(AsBytes("kept"));
  known.Add(kept, {}, "kept");
  const auto numbered = [](uint32_t number, uint32_t part) {
    Handle handle(AsBytes(fmt::format("{}", number)));
    handle.part = part;
    return handle;
  };
  for (uint32_t i = 0; i < 100'000; ++i) {
    parts.Move(numbered(i, 1), numbered(i, 2));
    if (i == 0) parts.Move(kept.handle, numbered(0, 3));
  }
  EXPECT_LE(parts.moved_objects(), 1024u);
  EXPECT_EQ(parts.PlaceOf(kept.handle), numbered(0, 3));
  EXPECT_EQ(parts.KnownAs(numbered(0, 3)), kept.handle);
  EXPECT_EQ(parts.PlaceOf(numbered(0, 1)), numbered(0, 1));
  EXPECT_EQ(parts.KnownAs(numbered(0, 2)), numbered(0, 2));
}

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
  for (int i = 0; i < 200; ++i) Do(mount->GetAttributes(root(), "root"));
  EXPECT_EQ(service.CountCalls(Looks()), 1u) << "of its one file system with state";
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

// ---- several moves ----

TEST_P(MigrationTest, AFileSystemMayMoveOnAndBack) {
  TestService third{loop, {.exports = {"/data"}, .lease = 2s}};
  Fill(third, "at a third server");
  Open();
  const CapturedLog log;
  auto opened = Do(mount->OpenFile(file, "file", Access::kRead));
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(MountTestBase::Read(*opened), "is there");
  far.Move("/data", At(third, "/data"));
  EXPECT_EQ(MountTestBase::Read(*opened), "at a third server");
  EXPECT_EQ(SizeOf(file), 17u);
  EXPECT_EQ(SizeOf(directory), SizeOf(directory));
  service.MoveBack("/data");
  third.Move("/data", At(service, "/data"));
  EXPECT_EQ(MountTestBase::Read(*opened), "here");
  EXPECT_EQ(SizeOf(file), 4u);
  EXPECT_EQ(Do(mount->Lookup(directory.handle, "file")).handle, file.handle);
  Do(opened->Close());
  opened.reset();
  Unmount();
  const uint16_t ports[] = {service.port(), far.port(), third.port()};
  for (int i = 0; i < 3; ++i) {
    const std::string move =
        fmt::format("/data has moved from 127.0.0.1 port {} to 127.0.0.1 port {}", ports[i], ports[(i + 1) % 3]);
    EXPECT_EQ(Occurrences(log.text(), move), 1u) << log.text();
  }
}

// The handle of an object that is forgotten means what its server says when it is met again.
TEST_P(MigrationTest, AForgottenObjectIsFoundAtTheServerThatItHasComeBackTo) {
  Open();
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(SizeOf(file), 8u);
  names.Forget(file.handle, directory.handle, "file");
  names.Forget(directory.handle, data.handle, "directory");
  names.Forget(data.handle, root(), "data");
  service.MoveBack("/data");
  data = Look(root(), "data");
  directory = Look(data.handle, "directory");
  file = Look(directory.handle, "file");
  EXPECT_EQ(SizeOf(file), 4u) << "the other server still serves its copy";
  EXPECT_EQ(Do(mount->ListFrom(directory.handle, "directory", {}, ListContent::kAttributes)).entries.size(), 1u);
}

// RFC 8881 §11.5.4: several locations of a file system.
TEST_P(MigrationTest, ALocationInUseIsKeptWhenAnotherOneIsListedFirst) {
  TestService third{loop, {.exports = {"/data"}, .lease = 2s}};
  Fill(third, "at a third server");
  Open();
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(SizeOf(file), 8u);
  service.Move("/data", At(third, "/data") + ":" + At(far, "/data"));
  EXPECT_EQ(Do(mount->Lookup(root(), "data")).handle, data.handle);
  EXPECT_EQ(SizeOf(file), 8u);
}

TEST_P(MigrationTest, WhatIsMetAtTheNewServerKeepsItsHandleOnTheWayBack) {
  for (const TestService* const each : {&service, &far}) {
    const auto mounted = MountOf(*each);
    Do(mounted->MakeDirectory(Do(mounted->Resolve("data/directory")).handle, "second", 0755));
    Run(mounted->Unmount());
  }
  Open();
  service.Move("/data", At(far, "/data"));
  const Node second = Look(directory.handle, "second");
  service.MoveBack("/data");
  far.Move("/data", At(service, "/data"));
  EXPECT_EQ(Do(mount->GetAttributes(directory.handle, "directory")).type, FileType::kDirectory);
  EXPECT_EQ(Do(mount->Lookup(directory.handle, "second")).handle, second.handle);
  Do(mount->MakeDirectory(second.handle, "made", 0755));
  EXPECT_EQ(Do(mount->Lookup(directory.handle, "second")).attributes.links, 3u);
}

// All exports of a test's server have the same files.
TEST_P(MigrationTest, AFileSystemMayMoveWithinAServer) {
  Open();
  const auto opened = Do(mount->OpenFile(file, "file", Access::kBoth));
  service.Move("/data", At(service, "/more"));
  EXPECT_EQ(MountTestBase::Read(*opened), "here");
  EXPECT_TRUE(Write(*opened, "HERE"));
  Do(opened->Commit());
  EXPECT_EQ(Do(mount->Lookup(directory.handle, "file")).handle, file.handle);
  EXPECT_EQ(Do(mount->Lookup(data.handle, "..")).handle, root());
  Do(opened->Close());
}

TEST_P(MigrationTest, NamesThatLeadInACircleAreStale) {
  Open();
  names.Add(directory, file.handle, "in");
  names.Add(file, directory.handle, "file");
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(ErrorOf(mount->GetAttributes(directory.handle, "directory")).status, Status::kStale);
}

TEST_P(MigrationTest, ServersThatReferToOneAnotherAreAnErrorInTheEnd) {
  Open("/", 1);
  const auto opened = Do(mount->OpenFile(file, "file", Access::kRead));
  service.Move("/data", At(far, "/data"));
  far.Move("/data", At(service, "/data"));
  const Error error = ErrorOf(mount->GetAttributes(directory.handle, "directory"));
  EXPECT_EQ(error.number, ELOOP);
  EXPECT_THAT(error.message, HasSubstr("more than 8 referrals lead to one another"));
  std::array<std::byte, 8> octets{};
  EXPECT_EQ(ErrorOf(opened->Read(0, octets)).number, ELOOP);
  Do(opened->Close());
}

TEST_P(MigrationTest, ServersMayReferToOneAnotherForAMoment) {
  Open();
  service.Move("/data", At(far, "/data"));
  EXPECT_EQ(SizeOf(file), 8u);
  const CapturedLog log;
  far.Move("/data", At(service, "/data"));
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*mount, got);
  EXPECT_TRUE(TurnUntil(loop, [&] { return log.text().find("tries again") != std::string::npos; }));
  EXPECT_FALSE(got);
  EXPECT_THAT(log.text(), HasSubstr("more than 8 referrals lead to one another; the client tries again"));
  service.MoveBack("/data");
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  ASSERT_TRUE(*got) << got->error().message;
  EXPECT_EQ((*got)->size, 4u);
}

// ---- failures ----

TEST_P(MigrationTest, WaitsForAServerThatCannotBeReachedOrDoesNotServeThePathYet) {
  Open();
  const CapturedLog log;
  const uint16_t unused = TestService(loop, {}).port();
  service.Move("/data", At(unused, "/data"));
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*mount, got);
  EXPECT_TRUE(TurnUntil(loop, [&] { return log.text().find("tries again") != std::string::npos; }));
  EXPECT_FALSE(got);
  EXPECT_THAT(log.text(),
              HasSubstr(fmt::format("127.0.0.1 port {}: Connection refused; the client tries again", unused)));
  const size_t lookups = far.CountCalls(CompoundsWith(nfs_opnum4::OP_LOOKUP));
  service.Move("/data", At(far, "/absent"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return far.CountCalls(CompoundsWith(nfs_opnum4::OP_LOOKUP)) > lookups + 1; }));
  EXPECT_FALSE(got);
  service.Move("/data", At(far, "/data"));
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  ASSERT_TRUE(*got);
  EXPECT_EQ((*got)->size, 8u);
  EXPECT_EQ(Occurrences(log.text(), "tries again"), 1u) << log.text();
}

TEST_P(MigrationTest, AMoveThatIsTakenBackEndsTheWait) {
  Open();
  const uint16_t unused = TestService(loop, {}).port();
  const CapturedLog log;
  service.Move("/data", At(unused, "/data"));
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*mount, got);
  EXPECT_TRUE(TurnUntil(loop, [&] { return log.text().find("tries again") != std::string::npos; }));
  service.MoveBack("/data");
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  ASSERT_TRUE(*got) << got->error().message;
  EXPECT_EQ((*got)->size, 4u);
}

TEST_P(MigrationTest, AnotherUsersMountWaitsForAServerThatIsAway) {
  Open();
  options.shares_handles_with = mount.get();
  const auto other = MountOf(service);
  options.shares_handles_with = nullptr;
  const CapturedLog log;
  auto third = std::make_unique<TestService>(loop, TestService::Options{.exports = {"/data"}, .lease = 2s});
  Fill(*third, "at a third server");
  service.Move("/data", At(*third, "/data"));
  EXPECT_EQ(SizeOf(file), 17u);
  const uint16_t port = third->port();
  third.reset();
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*other, got);
  EXPECT_TRUE(TurnUntil(loop, [&] { return log.text().find("the client tries again") != std::string::npos; }));
  EXPECT_FALSE(got);
  EXPECT_THAT(log.text(), HasSubstr(fmt::format("{}", port)));
  other->Abort();
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  mount->Abort();
  Run(other->Unmount());
}

TEST_P(MigrationTest, TheWaitForAServerEndsLikeACall) {
  Url url = UrlOf(GetParam());
  url.recovery.timeout = 1;
  mount = Do(Mount::Open(loop, workers, url, options));
  mount->set_names(&names);
  data = Look(root(), "data");
  const uint16_t unused = TestService(loop, {}).port();
  service.Move("/data", At(unused, "/data"));
  const Error error = ErrorOf(mount->GetAttributes(data.handle, "data"));
  EXPECT_EQ(error.message,
            fmt::format("data: cannot follow the referral: 127.0.0.1 port {}: Connection refused", unused));
}

TEST_P(MigrationTest, AbortEndsTheWaitForAServer) {
  Open();
  service.Move("/data", At(TestService(loop, {}).port(), "/data"));
  std::optional<Result<Attributes>> got;
  StartGetAttributes(*mount, got);
  TurnFor(loop, 20ms);
  EXPECT_FALSE(got);
  mount->Abort();
  EXPECT_TRUE(TurnUntil(loop, [&] { return got.has_value(); }));
  EXPECT_EQ(got->error().number, ECANCELED);
}

TEST_P(MigrationTest, AUserWithoutNamesGetsAnError) {
  Open();
  mount->set_names(nullptr);
  const auto opened = Do(mount->OpenFile(file, "file", Access::kRead));
  service.Move("/data", At(far, "/data"));
  const Error error = ErrorOf(mount->GetAttributes(directory.handle, "directory"));
  EXPECT_EQ(error.status, Status::kMoved);
  EXPECT_EQ(error.message, "directory: is on another server");
  std::array<std::byte, 8> octets{};
  EXPECT_EQ(ErrorOf(opened->Read(0, octets)).message, "file: is on another server");
  // A path leads to the new server.
  EXPECT_EQ(Do(mount->Resolve("data/directory/file")).attributes.size, 8u);
  Do(opened->Close());
}

// As while a move begins, or is taken back.
TEST_P(MigrationTest, AServerThatSaysSoOfWhatItHasIsAskedAgain) {
  Open();
  service.FailOperation(nfs_opnum4::OP_GETATTR, nfsstat4::NFS4ERR_MOVED);
  EXPECT_EQ(Do(mount->GetAttributes(directory.handle, "directory")).type, FileType::kDirectory);
}

TEST_P(MigrationTest, AServerThatKeepsSayingSoOfWhatItHasIsAnError) {
  Open();
  service.FailOperation(nfs_opnum4::OP_ACCESS, nfsstat4::NFS4ERR_MOVED, 9);
  const Error error = ErrorOf(mount->CheckAccess(directory.handle, "directory", right::kRead));
  EXPECT_EQ(error.message, "directory: is on another server");
  EXPECT_EQ(SizeOf(file), 4u);
}

// ---- the root of a server ----

class MovedRootTest : public MountTestBase, public testing::WithParamInterface<Version> {
 protected:
  ~MovedRootTest() override { Unmount(); }
  Url UrlOf(const TestService& of) const {
    Url url = MountTestBase::UrlOf(GetParam());
    url.port = of.port();
    return url;
  }
  TestService far{loop, {.exports = {"/data"}}};
  TestService moved{loop, {.replicas = At(far, "/data")}};
};
INSTANTIATE_TEST_SUITE_P(Version, MovedRootTest, testing::Values(Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// It has no name that could be looked up, so that its handle tells the locations.
TEST_P(MovedRootTest, TheHandleTellsTheLocations) {
  const auto there = Do(Mount::Open(loop, workers, UrlOf(far), options));
  Do(there->MakeDirectory(Do(there->Resolve("data")).handle, "there", 0755));
  Run(there->Unmount());
  Open(UrlOf(moved));
  // For the call of the test, and for the client's look whether it is so.
  moved.FailOperation(nfs_opnum4::OP_GETATTR, nfsstat4::NFS4ERR_MOVED, 2);
  Do(mount->GetAttributes(root(), "root"));
  EXPECT_EQ(Do(mount->Lookup(root(), "there")).attributes.type, FileType::kDirectory);
}

}  // namespace
}  // namespace penstock::client::v4
