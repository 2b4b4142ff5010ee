// Runs the file-system suite over served directories on a disk and in memory, with kernel handles and with a table.
// Then follow tests of properties that only a served directory has. names_and_handles_test.cc has the other tests of
// PosixTest; they run with the places and options of this file.
#include "fs/posix/file_system.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <thread>

#include "fs/file_system_suite.h"
#include "fs/posix/posix_test.h"
#include "fs/posix/test_backend.h"
#include "fs/posix/test_loop_device.h"

namespace penstock::fs {
namespace {

namespace stdfs = std::filesystem;
using posix::HandleMethod;
using posix::kDisk;
using posix::kMemory;
using posix::PosixBackend;
using posix::Scratch;
using posix::With;

suite::Parameter On(std::string name, const char* where, const posix::Options& options) {
  return {std::move(name), [where, options] { return std::make_unique<PosixBackend>(where, options); }};
}

// Options that keep nothing open and take no fast path, so that every call goes to the disk.
posix::Options Reluctant() {
  posix::Options options = With(HandleMethod::kBest);
  options.objects = std::make_shared<posix::OpenObjects>(1);
  options.file_range_from = SIZE_MAX;
  return options;
}

const auto kPlaces = testing::Values(
    On("Disk", kDisk, With(HandleMethod::kBest)), On("Memory", kMemory, With(HandleMethod::kBest)),
    On("DiskWithTable", kDisk, With(HandleMethod::kTable)), On("MemoryWithTable", kMemory, With(HandleMethod::kTable)),
    On("DiskWithoutCache", kDisk, Reluctant()));

// --- Properties of served directories only

TEST_P(PosixTest, GivesNewObjectsTheirModesWhateverTheUmaskOfTheProcess) {
  const mode_t before = ::umask(0177);
  const Handle file = Make(root_, "file", 0666), directory = MakeDirectory(root_, "directory", 01777);
  NewAttributes attributes;
  attributes.mode = 0622;
  const auto pipe = Await(fs().MakeNode(caller_, root_, "pipe", {.type = FileType::kFifo, .device = {}}, attributes));
  ::umask(before);
  ASSERT_TRUE(pipe.result);
  EXPECT_EQ(pipe.result->attributes.mode, 0622u);
  EXPECT_EQ(Stat(file).mode, 0666u);
  EXPECT_EQ(Stat(directory).mode, 01777u);
}

TEST_P(PosixTest, CommittedFileCanBeExecuted) {
  const Handle file = Make(root_, "script", 0755);
  ASSERT_TRUE(Write(file, 0, "#!/bin/sh\nexit 7\n").result);
  ASSERT_TRUE(Await(fs().Commit(caller_, file)).result);
  EXPECT_EQ(WEXITSTATUS(std::system((exported() / "script").c_str())), 7);
}

TEST_P(PosixTest, FileThatOneStableWriteFilledCanBeExecuted) {
  for (const Stability stability : {Stability::kDataSync, Stability::kFileSync}) {
    const Handle file = Make(root_, "script", 0755);
    ASSERT_TRUE(Write(file, 0, "#!/bin/sh\nexit 7\n", stability).result);
    EXPECT_EQ(WEXITSTATUS(std::system((exported() / "script").c_str())), 7);
    ASSERT_TRUE(Remove(root_, "script").result);
  }
}

// The client would take the other's change for its own, and would not notice that its cached data are old.
TEST_P(PosixTest, AWriteOfArrivingDataThatAnotherOneInterruptsLeavesOutTheAttributesBefore) {
  const Handle file = Make(root_, "file");
  const std::string text = suite::Pattern(1'000'000);
  for (const bool is_interrupted : {false, true}) {
    const auto arrival = std::make_shared<Arrival>();
    const Data data(Slice::Borrowed(AsBytes(text)), arrival);
    arrival->Advance(500'000);
    bool is_waiting = false;
    const auto wrote = AwaitWith(fs().Write(caller_, file, 0, data, Stability::kUnstable), [&] {
      // After some steps of the loop, the first half is written.
      if (is_waiting || std::filesystem::file_size(exported() / "file") < 500'000) return;
      is_waiting = true;
      if (is_interrupted) {
        ASSERT_TRUE(
            Await(fs().Write(caller_, file, 2'000'000, Data(Slice::Borrowed(AsBytes("x"))), Stability::kUnstable))
                .result);
      }
      arrival->Advance(text.size());
    });
    ASSERT_TRUE(wrote.result);
    EXPECT_EQ(wrote.result->count, text.size());
    EXPECT_EQ(wrote.object.before.has_value(), !is_interrupted);
    EXPECT_EQ(wrote.object.after->change, Stat(file).change);
    NewAttributes empty;
    empty.size = 0;
    ASSERT_TRUE(Await(fs().SetAttributes(caller_, file, empty, std::nullopt)).result);
  }
}

// The octets of an access control list for the kernel: version 2, then { tag, permissions, id } for each entry.
std::string AclOf(std::initializer_list<std::array<uint32_t, 3>> entries) {
  std::string octets("\2\0\0\0", 4);
  for (const auto& [tag, permissions, id] : entries) {
    for (const auto& [value, size] : {std::pair{tag, 2}, {permissions, 2}, {id, 4}}) {
      for (int i = 0; i < size; ++i) octets.push_back(static_cast<char>(value >> (8 * i)));
    }
  }
  return octets;
}

TEST_P(PosixTest, AppliesAccessControlLists) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Handle file = Make(root_, "file", 0600);
  constexpr uint32_t kNoId = UINT32_MAX;
  const std::string acl =
      AclOf({{0x01, 6, kNoId}, {0x02, 4, 1003}, {0x04, 0, kNoId}, {0x10, 4, kNoId}, {0x20, 0, kNoId}});
  caller_ = As(1003, 1);
  EXPECT_EQ(suite::ErrorOf(Read(file, 0, 10).result), Error::kAccess);
  if (::setxattr((exported() / "file").c_str(), "system.posix_acl_access", acl.data(), acl.size(), 0) != 0) {
    GTEST_SKIP() << "this file system has no access control lists";
  }
  EXPECT_TRUE(Read(file, 0, 10).result);
  EXPECT_EQ(Await(fs().Access(caller_, file, 0x3f)).result, kAccessRead);
  EXPECT_EQ(suite::ErrorOf(Write(file, 0, "x").result), Error::kAccess);
  caller_ = As(1004, 1);
  EXPECT_EQ(suite::ErrorOf(Read(file, 0, 10).result), Error::kAccess);
}

// The groups of the current thread. A thread that acted as a caller keeps the groups of the caller.
std::vector<gid_t> GroupsOfThread() {
  std::vector<gid_t> groups(NGROUPS_MAX);
  const auto count = ::syscall(SYS_getgroups, groups.size(), groups.data());
  groups.resize(static_cast<size_t>(std::max<long>(count, 0)));
  return groups;
}

constexpr std::array<uint32_t, 1> kGroups = {4242};

// A thread that acted as a caller could not use its RDMA devices afterwards.
TEST_P(PosixTest, LoopThreadDoesNotActAsTheCallerToCheckAnAccessControlList) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Handle file = Make(root_, "file", 0600);
  constexpr uint32_t kNoId = UINT32_MAX;
  const std::string acl =
      AclOf({{0x01, 6, kNoId}, {0x04, 0, kNoId}, {0x08, 6, kGroups[0]}, {0x10, 6, kNoId}, {0x20, 0, kNoId}});
  if (::setxattr((exported() / "file").c_str(), "system.posix_acl_access", acl.data(), acl.size(), 0) != 0) {
    GTEST_SKIP() << "this file system has no access control lists";
  }
  const std::vector<gid_t> before = GroupsOfThread();
  caller_ = As(1003, 1, kGroups);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Write(file, 0, "octets").result);
    EXPECT_TRUE(Read(file, 0, 10).result);
    EXPECT_EQ(Await(fs().Access(caller_, file, kAccessRead)).result, kAccessRead);
  }
  EXPECT_EQ(GroupsOfThread(), before);
}

TEST_P(PosixTest, LoopThreadDoesNotActAsTheCallerWhenSpaceIsLow) {
  if (!backend_->has_callers()) GTEST_SKIP() << "the file system has only one caller: run as root for this test";
  const Scratch scratch(kDisk);
  const std::string image = scratch.outside() / "image", disk = scratch.outside() / "disk";
  stdfs::create_directory(disk);
  const bool made = posix::MakeFileSystem(image, "ext4", "8M");
  const posix::LoopDevice device(image);
  if (!made || device.name().empty() || ::mount(device.name().c_str(), disk.c_str(), "ext4", 0, nullptr) != 0) {
    GTEST_SKIP() << "cannot mount a disk from a file: run as root, with e2fsprogs, for this test";
  }
  Replace(disk.c_str(), backend().options());
  const Handle file = Make(root_, "file", 0666);
  const std::vector<gid_t> before = GroupsOfThread();
  caller_ = As(1003, 1, kGroups);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Write(file, 0, "octets").result);
  EXPECT_EQ(GroupsOfThread(), before);
  Replace(kDisk, backend().options());
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

// Each thread has its own loop, as in a server, and all use one directory.
TEST_P(PosixTest, ServesSeveralLoops) {
  constexpr int kThreads = 3, kRounds = 30;
  const Handle shared = Make(root_, "shared", 0666);
  std::atomic<int> failures = 0;
  const auto work = [](fs::FileSystem& fs, Loop& loop, Handle root, Handle file, int number,
                       std::atomic<int>& failed) -> Task<void> {
    const RequestContext caller{{0, 0, {}}, &loop};
    const Data data(Slice::Borrowed(AsBytes("text")));
    const CreateHow how;
    for (int i = 0; i < kRounds; ++i) {
      const std::string name = std::to_string(number) + "-" + std::to_string(i), moved = name + "-moved";
      const Changed<Node> made = co_await fs.Create(caller, root, name, how);
      const Handle mine = made.result ? made.result->handle : Handle();
      const Changed<WriteReply> wrote = co_await fs.Write(caller, mine, 0, data, Stability::kUnstable);
      const Changed<WriteReply> both = co_await fs.Write(caller, file, 0, data, Stability::kUnstable);
      const Observed<ReadReply> read = co_await fs.Read(caller, mine, 0, 100);
      const Renamed renamed = co_await fs.Rename(caller, root, name, root, moved);
      const Observed<Node> found = co_await fs.Lookup(caller, root, moved);
      suite::Collector collector(1000);
      const ReadDirectoryArguments arguments{Cookie(), CookieVerifier(), true};
      const auto listed = co_await fs.ReadDirectory(caller, root, arguments, collector);
      const Changed<void> removed = co_await fs.Remove(caller, root, moved);
      if (!made.result || !wrote.result || !both.result || !read.result || !renamed.result || !found.result ||
          !listed.result || !removed.result || suite::TextOf(read.result->data) != "text") {
        ++failed;
      }
    }
    loop.Stop();
  };
  std::array<Loop, kThreads> loops;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Loop& loop = loops[static_cast<size_t>(i)];
      Spawn(work(fs(), loop, root_, shared, i, failures));
      loop.Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(List(root_).size(), 3u) << "the two dots and the shared file";
  backend_.reset();  // before the loops end, because a thread of its pool may still be in Post() of one of them
}

TEST_P(PosixTest, LimitsOpenObjects) {
  posix::Options options = With(HandleMethod::kBest);
  options.objects = std::make_shared<posix::OpenObjects>(10);
  Replace(kDisk, options);
  for (int i = 0; i < 50; ++i) Make(root_, "file" + std::to_string(i));
  EXPECT_LE(backend().posix_fs().open_objects(), 10u);
}

TEST_P(PosixTest, LargeReadsReturnRangesOfTheFile) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(Write(file, 0, suite::Pattern(200'000)).result);
  const Observed<ReadReply> large = Read(file, 100, 100'000);
  const Observed<ReadReply> small = Read(file, 100, 1000);
  if (GetParam().name == "DiskWithoutCache") {
    EXPECT_FALSE(large.result->data.is_file()) << "the options forbid it";
  } else {
    EXPECT_TRUE(large.result->data.is_file());
  }
  EXPECT_FALSE(small.result->data.is_file());
  EXPECT_TRUE(suite::TextOf(large.result->data) == suite::Pattern(200'000).substr(100, 100'000));
}

TEST_P(PosixTest, ReadsUncachedDataFromTheDisk) {
  const Handle file = Make(root_, "file");
  ASSERT_TRUE(Write(file, 0, suite::Pattern(2'000'000), Stability::kFileSync).result);
  const auto forget = [&] {
    const FileDescriptor fd(::open((exported() / "file").c_str(), O_RDONLY));
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  };
  forget();
  EXPECT_TRUE(ReadText(file, 1000, 1'500'000) == suite::Pattern(2'000'000).substr(1000, 1'500'000));
  forget();
  EXPECT_TRUE(ReadText(file, 4000, 1000) == suite::Pattern(2'000'000).substr(4000, 1000));
}

TEST_P(PosixTest, SyncedMetadataDoesNotChangeResults) {
  posix::Options options = With(HandleMethod::kBest);
  options.sync_metadata = true;
  Replace(kDisk, options);
  const Handle file = Make(root_, "file");
  const Handle directory = MakeDirectory(root_, "directory");
  MakeSymlink(root_, "link", "x");
  NewAttributes values;
  values.mode = 0600;
  EXPECT_TRUE(Set(file, values).result);
  EXPECT_TRUE(Link(file, directory, "second").result);
  EXPECT_TRUE(Rename(root_, "file", directory, "third").result);
  EXPECT_TRUE(Remove(directory, "third").result);
  EXPECT_EQ(Stat(file).nlink, 1u);
}

// --- Set-up

class SetupTest : public testing::Test {
 protected:
  std::string Refusal(const stdfs::path& root, const posix::Options& options) {
    const auto opened = posix::FileSystem::Open(root, pool_, options);
    return opened ? "" : opened.error().message;
  }
  Scratch scratch_{kDisk};
  Workers pool_{1};
};

TEST_F(SetupTest, ReportsAnInvalidExportedDirectory) {
  posix::Options options;
  options.state_directory = scratch_.state();
  EXPECT_EQ(Refusal("/no/such/place", options), "no such directory: /no/such/place");
  EXPECT_EQ(Refusal("/etc/passwd", options), "not a directory: /etc/passwd");
  EXPECT_EQ(Refusal(scratch_.exported(), options), "");
}

TEST_F(SetupTest, ReportsAnInvalidStateDirectory) {
  posix::Options options;
  options.state_directory = "/dev/null/state";
  EXPECT_THAT(Refusal(scratch_.exported(), options), testing::HasSubstr("/dev/null/state"));
  options.state_directory = scratch_.state();
  std::ofstream(scratch_.state() / "handle-key") << "short";
  EXPECT_THAT(Refusal(scratch_.exported(), options), testing::HasSubstr("is damaged"));
}

// Another program may have left such a table. Earlier versions asserted that it has a row for the root.
TEST_F(SetupTest, ResetsATableWithoutARoot) {
  posix::Options options;
  options.state_directory = scratch_.state();
  options.handles = HandleMethod::kTable;
  ASSERT_EQ(Refusal(scratch_.exported(), options), "");
  stdfs::path table;
  for (const auto& entry : stdfs::directory_iterator(scratch_.state())) {
    if (entry.path().extension() == ".sqlite") table = entry.path();
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(table.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, "UPDATE objects SET id = 7", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_EQ(Refusal(scratch_.exported(), options), "");
  stdfs::resize_file(table, 100);
  EXPECT_THAT(Refusal(scratch_.exported(), options), testing::HasSubstr(table.string() + " is damaged"));
}

TEST_F(SetupTest, CreatesStateFilesForTheOwnerOnly) {
  for (const HandleMethod method : {HandleMethod::kBest, HandleMethod::kTable}) {
    posix::Options options;
    options.state_directory = scratch_.state();
    options.handles = method;
    ASSERT_EQ(Refusal(scratch_.exported(), options), "");
  }
  for (const auto& entry : stdfs::directory_iterator(scratch_.state())) {
    EXPECT_EQ(entry.status().permissions() & ~stdfs::perms::owner_all, stdfs::perms::none) << entry.path();
  }
}

}  // namespace
}  // namespace penstock::fs

PENSTOCK_FILE_SYSTEM_SUITE(Posix, penstock::fs::kPlaces);

namespace penstock::fs {
namespace {
INSTANTIATE_TEST_SUITE_P(Posix, PosixTest, kPlaces, suite::NameOf);
}
}  // namespace penstock::fs
