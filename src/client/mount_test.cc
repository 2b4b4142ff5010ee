// Tests of the behavior that mounts of all versions share.
#include "client/mount.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>

#include "base/data.h"
#include "client/copy.h"
#include "client/mount_test_support.h"

namespace penstock::client {
namespace {

using nfs4::nfs_opnum4;
using nfs4::nfsstat4;
using testing::ElementsAre;
using testing::HasSubstr;

class MountTest : public VersionedMountTest {};
INSTANTIATE_TEST_SUITE_P(Version, MountTest, testing::Values(Version::k3, Version::k40, Version::k41, Version::k42),
                         [](const auto& test) { return NameOf(test.param); });

// ---- data ----

TEST_P(MountTest, ReadsTheDataThatItHasWritten) {
  const auto file = Create("file", "contents");
  EXPECT_EQ(Read(*file), "contents");
  EXPECT_TRUE(Write(*file, "more", 8));
  Do(file->Close());
  const auto again = OpenFile("file", Access::kRead);
  EXPECT_EQ(Read(*again), "contentsmore");
  EXPECT_EQ(again->node().attributes.size, 12u);
  Do(again->Close());
}

TEST_P(MountTest, AReadAtTheEndOfAFileIsShort) {
  const auto file = Create("file", "0123456789");
  std::array<std::byte, 8> octets{};
  const auto read = Do(file->Read(7, octets));
  EXPECT_EQ(read.count, 3u);
  EXPECT_TRUE(read.eof);
  EXPECT_EQ(AsText(ConstBytes(octets).first(3)), "789");
  const auto behind = Do(file->Read(100, octets));
  EXPECT_EQ(behind.count, 0u);
  EXPECT_TRUE(behind.eof);
  Do(file->Close());
}

TEST_P(MountTest, CommitGivesTheVerifierOfTheWrites) {
  const auto file = Create("file");
  const auto written = Write(*file, "data");
  ASSERT_TRUE(written);
  EXPECT_EQ(written->count, 4u);
  EXPECT_EQ(Do(file->Commit()), written->verifier);
  Do(file->Close());
}

TEST_P(MountTest, CreateFileTruncatesAnExistingFile) {
  Do(Create("file", "contents")->Close());
  const auto file = Create("file");
  EXPECT_EQ(file->node().attributes.size, 0u);
  EXPECT_EQ(Read(*file), "");
  Do(file->Close());
}

class SmallTransfersTest : public VersionedMountTest {
 protected:
  SmallTransfersTest() : VersionedMountTest({.max_transfer = 4096, .max_directory = 1024}) {}
};
INSTANTIATE_TEST_SUITE_P(Version, SmallTransfersTest, testing::Values(Version::k3, Version::k40, Version::k41),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(SmallTransfersTest, OneCallTransfersNoMoreThanTheServerAllows) {
  EXPECT_EQ(mount->sizes().read, 4096u);
  EXPECT_EQ(mount->sizes().write, 4096u);
  const auto file = Create("file");
  const std::string text(10'000, 'x');
  const auto written = Write(*file, text);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->count, 4096u);
  EXPECT_TRUE(Write(*file, text.substr(4096), 4096));
  EXPECT_EQ(Read(*file, 10'000), std::string(4096, 'x'));
  Do(file->Close());
}

TEST_P(SmallTransfersTest, ACopyOfALongFileTakesManyCalls) {
  const FileDescriptor local(::memfd_create("local", MFD_CLOEXEC));
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i) + '\n';
  ASSERT_EQ(::pwrite(local.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  const auto file = Create("file");
  EXPECT_EQ(Do(Upload(*mount, workers, local.get(), text.size(), *file)), text.size());
  EXPECT_EQ(service.CountCalls(Writes()), (text.size() + 4095) / 4096);
  ASSERT_EQ(::ftruncate(local.get(), 0), 0);
  EXPECT_EQ(Do(Download(*mount, workers, *file, local.get())), text.size());
  std::string back(text.size() + 1, '\0');
  EXPECT_EQ(::pread(local.get(), back.data(), back.size(), 0), static_cast<ssize_t>(text.size()));
  back.pop_back();
  EXPECT_EQ(back, text);
  Do(file->Close());
}

// ---- names and attributes ----

TEST_P(MountTest, MakesAndRemovesNames) {
  const Node directory = Do(mount->MakeDirectory(root(), "directory", 0750));
  EXPECT_EQ(directory.attributes.type, FileType::kDirectory);
  EXPECT_EQ(directory.attributes.mode, 0750u);
  const Node link = Do(mount->MakeSymlink(root(), "link", "directory"));
  EXPECT_EQ(link.attributes.type, FileType::kSymlink);
  EXPECT_EQ(Do(mount->ReadLink(link.handle, "link")), "directory");
  const auto file = Create("file");
  Do(mount->Link(file->node().handle, directory.handle, "second"));
  EXPECT_EQ(Do(mount->GetAttributes(file->node().handle, "file")).links, 2u);
  Do(mount->Rename(root(), "file", root(), "renamed"));
  EXPECT_THAT(List(), ElementsAre("directory", "link", "renamed"));
  Do(mount->Remove(root(), "renamed"));
  Do(mount->Remove(root(), "link"));
  Do(mount->Remove(directory.handle, "second"));
  Do(mount->RemoveDirectory(root(), "directory"));
  EXPECT_THAT(List(), ElementsAre());
  Do(file->Close());
}

TEST_P(MountTest, ReportsTheServersReasonForARefusal) {
  Do(Create("file")->Close());
  const Node directory = Do(mount->MakeDirectory(root(), "directory", 0755));
  Do(mount->MakeDirectory(directory.handle, "below", 0755));
  const auto expect = [](const Error& error, Status status, std::string_view message) {
    EXPECT_EQ(error.status, status) << error.message;
    EXPECT_EQ(error.message, message);
  };
  expect(ErrorOf(mount->Lookup(root(), "missing")), Status::kNotFound, "missing: no such file or directory");
  expect(ErrorOf(mount->MakeDirectory(root(), "file", 0755)), Status::kExists, "file: exists already");
  expect(ErrorOf(mount->MakeSymlink(root(), "file", "x")), Status::kExists, "file: exists already");
  expect(ErrorOf(mount->Remove(root(), "missing")), Status::kNotFound, "missing: no such file or directory");
  expect(ErrorOf(mount->Remove(root(), "directory")), Status::kIsDirectory, "directory: is a directory");
  expect(ErrorOf(mount->RemoveDirectory(root(), "directory")), Status::kNotEmpty, "directory: directory not empty");
  expect(ErrorOf(mount->RemoveDirectory(root(), "file")), Status::kNotDirectory, "file: not a directory");
  expect(ErrorOf(mount->Rename(root(), "missing", root(), "x")), Status::kNotFound,
         "missing: no such file or directory");
  expect(ErrorOf(mount->Link(directory.handle, root(), "x")), Status::kIsDirectory, "x: is a directory");
  expect(ErrorOf(mount->MakeDirectory(root(), std::string(300, 'n'), 0755)), Status::kNameTooLong,
         std::string(300, 'n') + ": name too long");
  const Handle file = Do(mount->Lookup(root(), "file")).handle;
  expect(ErrorOf(mount->Lookup(file, "x")), Status::kNotDirectory, "x: not a directory");
  EXPECT_TRUE(ErrorOf(mount->ReadLink(file, "file")).status);
}

TEST_P(MountTest, SetsOnlyTheGivenAttributes) {
  const auto file = Create("file", "0123456789");
  const Handle handle = file->node().handle;
  Do(mount->SetAttributes(handle, "file",
                          {.mode = 0600, .owner = "12", .group = "34", .size = 4, .modified = Time{1000, 5}}));
  const Attributes set = Do(mount->GetAttributes(handle, "file"));
  EXPECT_EQ(set.mode, 0600u);
  EXPECT_EQ(set.owner, "12");
  EXPECT_EQ(set.group, "34");
  EXPECT_EQ(set.size, 4u);
  EXPECT_EQ(set.modified, (Time{1000, 5}));
  Do(mount->SetAttributes(handle, "file", {.accessed = ServerTime()}));
  EXPECT_EQ(Do(mount->GetAttributes(handle, "file")).mode, 0600u);
  Do(mount->SetAttributes(handle, "file", {.modified = ServerTime()}));
  const Attributes touched = Do(mount->GetAttributes(handle, "file"));
  EXPECT_GT(touched.modified.seconds, 1000);
  EXPECT_NE(touched.change, set.change);
  Do(file->Close());
}

TEST_P(MountTest, AttributesTellTheIdentityTheStorageAndTheTimesOfAFile) {
  const auto file = Create("file", "0123456789");
  const Handle handle = file->node().handle;
  Do(mount->SetAttributes(handle, "file", {.accessed = Time{2000, 6}, .modified = Time{1000, 5}}));
  const Attributes attributes = Do(mount->GetAttributes(handle, "file"));
  EXPECT_EQ(attributes.accessed, (Time{2000, 6}));
  EXPECT_EQ(attributes.modified, (Time{1000, 5}));
  EXPECT_GT(attributes.changed.seconds, 2000) << "the server's own time";
  EXPECT_GE(attributes.used, 10u);
  const Attributes of_root = Do(mount->GetAttributes(root(), "root"));
  EXPECT_NE(attributes.file_id, of_root.file_id);
  EXPECT_EQ(attributes.file_system, of_root.file_system);
  const auto expect_same = [&](const Attributes& others) {
    EXPECT_EQ(others.accessed, attributes.accessed);
    EXPECT_EQ(others.modified, attributes.modified);
    EXPECT_EQ(others.changed, attributes.changed);
    EXPECT_EQ(others.used, attributes.used);
    EXPECT_EQ(others.file_id, attributes.file_id);
    EXPECT_EQ(others.file_system, attributes.file_system);
  };
  expect_same(Do(mount->Lookup(root(), "file")).attributes);
  int listed = 0;
  Do(mount->List(root(), "/", [&](const Entry& entry) {
    ASSERT_TRUE(entry.attributes);
    expect_same(*entry.attributes);
    ++listed;
  }));
  EXPECT_EQ(listed, 1);
  Do(file->Close());
}

TEST_P(MountTest, AttributesTellTheDeviceOfADeviceNode) {
  bool made = false;
  Spawn([](fs::faulty::FileSystem& files, bool& out) -> Task<void> {
    const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    const fs::NodeType type{.type = fs::FileType::kCharacter, .device = {.major = 259, .minor = 70000}};
    const fs::NewAttributes attributes;
    const auto node = co_await files.MakeNode(context, files.Root(), "device", type, attributes);
    out = node.result.has_value();
  }(service.files(), made));
  ASSERT_TRUE(TurnUntil(loop, [&] { return made; }));
  const Attributes device = Do(mount->Lookup(root(), "device")).attributes;
  EXPECT_EQ(device.type, FileType::kCharacterDevice);
  EXPECT_EQ(device.device_major, 259u);
  EXPECT_EQ(device.device_minor, 70000u);
}

TEST_P(MountTest, TellsTheRoomOfTheFileSystem) {
  fs::Space served;
  bool known = false;
  Spawn([](fs::faulty::FileSystem& files, fs::Space& out, bool& done) -> Task<void> {
    const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    const auto space = co_await files.GetSpace(context, files.Root());
    if (space.result) out = *space.result;
    done = space.result.has_value();
  }(service.files(), served, known));
  ASSERT_TRUE(TurnUntil(loop, [&] { return known; }));
  const Space space = Do(mount->GetSpace(root(), "root"));
  EXPECT_EQ(space.total, served.total_bytes);
  EXPECT_EQ(space.free, served.free_bytes);
  EXPECT_EQ(space.available, served.available_bytes);
  EXPECT_EQ(space.total_files, served.total_files);
  EXPECT_EQ(space.free_files, served.free_files);
  EXPECT_EQ(space.available_files, served.available_files);
  EXPECT_GT(space.total, 0u);
}

TEST_P(MountTest, TheRoomForARemovedFileIsAnError) {
  const auto file = Create("file");
  Do(file->Close());
  Do(mount->Remove(root(), "file"));
  EXPECT_EQ(ErrorOf(mount->GetSpace(file->node().handle, "file")).number, ESTALE);
}

TEST_P(MountTest, AHandleOfARemovedFileIsStale) {
  Do(Create("file", "data")->Close());
  const Node node = Do(mount->Lookup(root(), "file"));
  Do(mount->Remove(root(), "file"));
  const Error error = ErrorOf(mount->GetAttributes(node.handle, "file"));
  EXPECT_EQ(error.status, Status::kStale);
  EXPECT_THAT(error.message, HasSubstr("file: stale file handle"));
  EXPECT_EQ(ErrorOf(mount->SetAttributes(node.handle, "file", {.mode = 0600})).status, Status::kStale);
  EXPECT_EQ(ErrorOf(mount->ReadLink(node.handle, "file")).status, Status::kStale);
  EXPECT_EQ(ErrorOf(mount->List(node.handle, "file", [](const Entry&) {})).status, Status::kStale);
}

TEST_P(MountTest, PingNeedsNoFile) { Do(mount->Ping()); }

TEST_P(MountTest, NamesItsVersion) {
  std::string version(mount->version());
  std::erase(version, '.');
  EXPECT_EQ(version, NameOf(GetParam()));
}

// ---- paths ----

TEST_P(MountTest, ResolvesPathsThroughSymbolicLinks) {
  const Node directory = Do(mount->MakeDirectory(root(), "a", 0755));
  const Node below = Do(mount->MakeDirectory(directory.handle, "b", 0755));
  Do(mount->MakeSymlink(root(), "relative", "a/b"));
  Do(mount->MakeSymlink(root(), "absolute", "/a"));
  Do(mount->MakeSymlink(root(), "dangling", "missing"));
  for (const char* path : {"a/b", "/a//b/", "relative", "absolute/b", "absolute/../relative", "a/./b", "a/b/../b"}) {
    EXPECT_EQ(Do(mount->Resolve(path)).handle, below.handle) << path;
  }
  EXPECT_EQ(Do(mount->Resolve("")).handle, root());
  EXPECT_EQ(Do(mount->Resolve("relative", false)).attributes.type, FileType::kSymlink);
  EXPECT_EQ(Do(mount->Resolve("relative/", false)).attributes.type, FileType::kSymlink);
  const Error dangling = ErrorOf(mount->Resolve("dangling"));
  EXPECT_EQ(dangling.message, "dangling: no such file or directory")
      << "the error names the path, not the missing component";
}

TEST_P(MountTest, NoPathLeadsOutOfTheRoot) {
  const Node directory = Do(mount->MakeDirectory(root(), "a", 0755));
  const Node below = Do(mount->MakeDirectory(directory.handle, "b", 0755));
  Do(mount->MakeSymlink(root(), "out", "../../../a"));
  Do(mount->MakeSymlink(below.handle, "up", "../../.."));
  for (const char* path : {"..", "../..", "a/..", "a/b/../../..", "./.", "/../", "out/..", "a/b/up"}) {
    EXPECT_EQ(Do(mount->Resolve(path)).handle, root()) << path;
    EXPECT_EQ(Do(mount->Resolve(path)).attributes.type, FileType::kDirectory) << path;
  }
  for (const char* path : {"../a", "../../a/b/..", "a/../../a", "out", "a/b/up/a", "./a/."}) {
    EXPECT_EQ(Do(mount->Resolve(path)).handle, directory.handle) << path;
  }
}

TEST_P(MountTest, OnlyADirectoryHasAParent) {
  Do(Create("file")->Close());
  Do(mount->MakeSymlink(root(), "link", "file"));
  for (const char* path : {"file/..", "file/.", "file/../file", "link/.."}) {
    const Error error = ErrorOf(mount->Resolve(path));
    EXPECT_EQ(error.status, Status::kNotDirectory) << path;
    EXPECT_EQ(error.message, std::string(path) + ": not a directory");
  }
}

TEST_P(MountTest, APathOfOneComponentTakesOneCall) {
  Do(Create("file")->Close());
  const size_t before = service.CountCalls(AllCalls());
  const size_t before_3 = service.CountCalls(CallsOf<nfs3::NFSPROC3_GETATTR>());
  Do(mount->Resolve("./file"));
  Do(mount->Resolve("../file"));
  EXPECT_EQ(service.CountCalls(AllCalls()), before + 2);
  EXPECT_EQ(service.CountCalls(CallsOf<nfs3::NFSPROC3_GETATTR>()), before_3);
}

TEST_P(MountTest, ALoopOfSymbolicLinksIsAnError) {
  Do(mount->MakeSymlink(root(), "one", "two"));
  Do(mount->MakeSymlink(root(), "two", "one"));
  EXPECT_EQ(ErrorOf(mount->Resolve("one/file")).message, "one/file: too many symbolic links");
}

TEST_P(MountTest, ResolvesThePlaceOfANameThatDoesNotExist) {
  const Node directory = Do(mount->MakeDirectory(root(), "a", 0755));
  const Mount::Place place = Do(mount->ResolvePlace("/a/new/"));
  EXPECT_EQ(place.directory, directory.handle);
  EXPECT_EQ(place.name, "new");
  EXPECT_EQ(Do(mount->ResolvePlace("new")).directory, root());
  EXPECT_EQ(ErrorOf(mount->ResolvePlace("/")).status, Status::kInvalid);
  EXPECT_EQ(ErrorOf(mount->ResolvePlace("missing/new")).status, Status::kNotFound);
}

// ---- directories ----

TEST_P(SmallTransfersTest, ListsALongDirectoryInManyCalls) {
  std::vector<std::string> names;
  for (int i = 100; i < 800; ++i) {
    names.push_back("a rather long name " + std::to_string(i));
    Do(mount->MakeSymlink(root(), names.back(), "x"));
  }
  EXPECT_EQ(List(), names);
  EXPECT_GT(service.CountCalls(Listings()), 1u);
}

// The entries that stay in the directory are listed exactly once.
TEST_P(SmallTransfersTest, ListsADirectoryThatChangesMeanwhile) {
  std::vector<std::string> stable;
  for (int i = 100; i < 800; ++i) {
    const std::string name = "a rather long name " + std::to_string(i);
    Do(mount->MakeSymlink(root(), name, "x"));
    if (i % 3 != 0) stable.push_back(name);
  }
  int listed = 0;
  std::vector<std::string> names;
  const auto entry = [&](const Entry& found) {
    names.push_back(found.name);
    // Another client removes and adds entries while the first replies are read.
    if (++listed != 1) return;
    for (int i = 102; i < 800; i += 3) {
      Spawn([](fs::faulty::FileSystem& files, int number) -> Task<void> {
        const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
        const std::string name = "a rather long name " + std::to_string(number);
        (void)co_await files.Remove(context, files.Root(), name);
      }(service.files(), i));
    }
  };
  Do(mount->List(root(), "/", entry));
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_TRUE(std::ranges::includes(names, stable));
}

TEST_P(SmallTransfersTest, AListingWhoseCookieBecomesInvalidFails) {
  for (int i = 100; i < 800; ++i) Do(mount->MakeSymlink(root(), "a rather long name " + std::to_string(i), "x"));
  if (is_version_3()) {
    service.Answer<nfs3::NFSPROC3_READDIRPLUS>(nfs3::READDIRPLUS3res(nfs3::NFS3ERR_BAD_COOKIE), 1, 1);
  } else {
    service.FailOperation(nfs_opnum4::OP_READDIR, nfsstat4::NFS4ERR_BAD_COOKIE, 1, 1);
  }
  size_t listed = 0;
  const Error error = ErrorOf(mount->List(root(), "/", [&](const Entry&) { ++listed; }));
  EXPECT_EQ(error.message, "/: the directory changed while it was read");
  EXPECT_GT(listed, 0u);
  EXPECT_LT(listed, 700u);
}

// ---- copies that fail or lose their connection ----

TEST_P(SmallTransfersTest, ACopyStopsAtTheFirstError) {
  const FileDescriptor local(::memfd_create("local", MFD_CLOEXEC));
  const std::string text(100'000, 'x');
  ASSERT_EQ(::pwrite(local.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  const auto file = Create("file");
  EXPECT_EQ(Do(Upload(*mount, workers, local.get(), text.size(), *file)), text.size());
  const size_t reads = service.CountCalls(Reads());
  const size_t writes = service.CountCalls(Writes());
  service.files().Add({.operation = fs::faulty::Operation::kRead, .effect = fs::faulty::FailWith(fs::Error::kIo)});
  service.files().Add(
      {.operation = fs::faulty::Operation::kWrite, .effect = fs::faulty::FailWith(fs::Error::kNoSpace)});
  EXPECT_EQ(ErrorOf(Download(*mount, workers, *file, local.get(), {.in_flight = 4})).status, Status(5));
  EXPECT_LE(service.CountCalls(Reads()), reads + 4);
  EXPECT_EQ(ErrorOf(Upload(*mount, workers, local.get(), text.size(), *file, {.in_flight = 4})).status,
            Status::kNoSpace);
  EXPECT_LE(service.CountCalls(Writes()), writes + 4);
  service.files().Clear();
  Do(file->Close());
}

// A connection is lost while many WRITEs or READs are under way.
TEST_P(SmallTransfersTest, ACopySurvivesTheLossOfItsConnection) {
  const FileDescriptor local(::memfd_create("local", MFD_CLOEXEC));
  std::string text(200'000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i / 4096 % 26);
  ASSERT_EQ(::pwrite(local.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  const auto file = Create("file");
  for (const size_t skip : {0, 7, 30}) {
    service.LoseReply(Writes(), 1, skip);
    service.LoseCall(Writes(), 1, skip + 3);
    EXPECT_EQ(Do(Upload(*mount, workers, local.get(), text.size(), *file)), text.size());
    service.LoseReply(Reads(), 1, skip);
    service.LoseCall(Reads(), 1, skip + 3);
    ASSERT_EQ(::ftruncate(local.get(), 0), 0);
    EXPECT_EQ(Do(Download(*mount, workers, *file, local.get())), text.size());
    std::string back(text.size(), '\0');
    EXPECT_EQ(::pread(local.get(), back.data(), back.size(), 0), static_cast<ssize_t>(back.size()));
    EXPECT_TRUE(back == text);
  }
  EXPECT_GT(mount->reconnections(), 2u);
  Do(file->Close());
}

// ---- functions without a mount ----

TEST(FileTypes, HaveTheSameNumbersInAllVersions) {
  using enum FileType;
  const FileType types[] = {kRegular, kDirectory, kBlockDevice, kCharacterDevice, kSymlink, kSocket, kFifo};
  for (uint32_t number = 1; number <= 7; ++number) EXPECT_EQ(FileTypeOf(number), types[number - 1]) << number;
  for (const uint32_t number : {0u, 8u, 9u, 10u}) EXPECT_EQ(FileTypeOf(number), kOther) << number;
}

TEST(CheckRegular, AcceptsRegularFilesOnly) {
  Node node;
  EXPECT_TRUE(CheckRegular(node, "name"));
  node.attributes.type = FileType::kDirectory;
  const Result<void> directory = CheckRegular(node, "name");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().status, Status::kIsDirectory);
  node.attributes.type = FileType::kFifo;
  const Result<void> fifo = CheckRegular(node, "name");
  ASSERT_FALSE(fifo);
  EXPECT_EQ(fifo.error().message, "name: not a regular file");
}

}  // namespace
}  // namespace penstock::client
