// Tests of the handles of objects in file systems that move to another server.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <array>
#include <cerrno>

#include "base/test_log.h"
#include "client/nfs4/migration_test_fixture.h"
#include "client/nfs4/tree_parts.h"

namespace penstock::client::v4 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  TestNames known;
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

}  // namespace
}  // namespace penstock::client::v4
