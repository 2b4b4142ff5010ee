// Runs the file-system suite over served directories on a disk and in memory, with kernel handles and with a table.
// Then follow tests of properties that only a served directory has.
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

#include "base/test_descriptors.h"
#include "fs/file_system_suite.h"
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

class PosixTest : public suite::FileSystemSuite {
 protected:
  PosixBackend& backend() { return static_cast<PosixBackend&>(*backend_); }
  stdfs::path exported() { return backend().scratch().exported(); }
  stdfs::path outside() { return backend().scratch().outside(); }
  // Starts another backend for tests that need other options than their parameter has.
  void Replace(const char* where, const posix::Options& options) {
    backend_ = std::make_unique<PosixBackend>(where, options);
    root_ = fs().Root();
    caller_ = As(0, 0);
  }
  static void WriteFile(const stdfs::path& path, std::string_view text) { std::ofstream(path) << text; }
};

TEST_P(PosixTest, FindsFilesMadeByOtherPrograms) {
  WriteFile(exported() / "theirs", "text");
  EXPECT_EQ(ReadText(Lookup(root_, "theirs").result->handle), "text");
}

TEST_P(PosixTest, HandleSurvivesRenamesByOtherPrograms) {
  const Handle directory = MakeDirectory(root_, "directory");
  const Handle file = Make(directory, "file");
  stdfs::rename(exported() / "directory" / "file", exported() / "directory" / "renamed");
  stdfs::rename(exported() / "directory", exported() / "moved");
  ASSERT_TRUE(backend_->Restart());
  EXPECT_FALSE(StatError(file));
  EXPECT_EQ(Lookup(directory, "renamed").result->handle, file);
}

TEST_P(PosixTest, HandleIsStaleAfterRemovalByAnotherProgram) {
  const Handle file = Make(root_, "file");
  stdfs::remove(exported() / "file");
  EXPECT_EQ(StatError(file), Error::kStale);
  WriteFile(exported() / "file", "another");
  EXPECT_EQ(StatError(file), Error::kStale);
  ASSERT_TRUE(backend_->Restart());
  EXPECT_EQ(StatError(file), Error::kStale);
}

TEST_P(PosixTest, DirectoryThatWasMovedOutDoesNotLeadOutside) {
  const Handle directory = MakeDirectory(root_, "directory");
  WriteFile(outside() / "secret", "text");
  stdfs::rename(exported() / "directory", outside() / "directory");
  EXPECT_EQ(LookupError(directory, ".."), Error::kStale);
  for (const suite::Listed& entry : List(directory, 10, true)) {
    EXPECT_EQ(entry.handle.has_value(), entry.name != "..") << entry.name;
  }
  ASSERT_TRUE(backend_->Restart());
  EXPECT_EQ(StatError(directory), Error::kStale);
}

TEST_P(PosixTest, SiblingDirectoryWithTheRootsNameAsPrefixIsOutside) {
  const Handle directory = MakeDirectory(root_, "directory");
  stdfs::create_directory(outside() / "export2");
  stdfs::rename(exported() / "directory", outside() / "export2" / "directory");
  ASSERT_TRUE(backend_->Restart());
  EXPECT_EQ(StatError(directory), Error::kStale);
}

// Both exports use the same file system, state directory and key, but each rejects the handles of the other.
TEST_P(PosixTest, RejectsHandlesOfAnotherDirectory) {
  stdfs::create_directory(outside() / "other");
  posix::Options options;
  options.state_directory = backend().scratch().state();
  Workers pool(1);
  auto other = posix::FileSystem::Open(outside() / "other", pool, options);
  ASSERT_TRUE(other);
  WriteFile(outside() / "other" / "file", "text");
  const RequestContext& caller = caller_;
  const Observed<Node> found = Await((*other)->Lookup(caller, (*other)->Root(), "file"));
  ASSERT_TRUE(found.result);
  EXPECT_EQ(StatError(found.result->handle), Error::kBadHandle);
  EXPECT_EQ(StatError((*other)->Root()), Error::kBadHandle);
}

// The directory is exported under two names. Each file has two handles, each valid in one export, and one identity.
TEST_P(PosixTest, FileOfADirectoryExportedTwiceHasOneIdentityAndTwoHandles) {
  WriteFile(exported() / "file", "text");
  const RequestContext& caller = caller_;
  Workers pool(1);
  posix::Options options = backend().options();
  options.export_name = "/again";
  std::optional<Handle> kept;
  for (int start = 0; start < 2; ++start) {
    auto again = posix::FileSystem::Open(exported(), pool, options);
    ASSERT_TRUE(again) << again.error().message;
    const Observed<Node> theirs = Await((*again)->Lookup(caller, (*again)->Root(), "file"));
    ASSERT_TRUE(theirs.result);
    const Handle ours = Lookup(root_, "file").result->handle;
    EXPECT_EQ(StatError(theirs.result->handle), Error::kBadHandle);
    EXPECT_EQ(Await((*again)->GetAttributes(caller, ours)).error(), Error::kBadHandle);
    EXPECT_EQ((*again)->Identify(ours).error(), Error::kBadHandle);
    EXPECT_EQ(*(*again)->Identify(theirs.result->handle), *fs().Identify(ours));
    EXPECT_NE(*(*again)->Identify(theirs.result->handle), *fs().Identify(root_));
    // The handle is the same after a restart.
    if (kept) {
      EXPECT_EQ(*kept, theirs.result->handle);
    }
    kept = theirs.result->handle;
  }
}

// With both kinds of handles, and with handles that were given before the directory was covered.
TEST_P(PosixTest, DirectoryOfAnotherExportIsListedButNotEntered) {
  stdfs::create_directory(exported() / "covered");
  WriteFile(exported() / "covered/file", "text");
  const RequestContext& caller = caller_;
  for (const HandleMethod method : {HandleMethod::kBest, HandleMethod::kTable}) {
    Workers pool(1);
    posix::Options options;
    options.state_directory = backend().scratch().state();
    options.handles = method;
    Handle before;
    {
      auto alone = posix::FileSystem::Open(exported(), pool, options);
      ASSERT_TRUE(alone) << alone.error().message;
      const Observed<Node> directory = Await((*alone)->Lookup(caller, (*alone)->Root(), "covered"));
      ASSERT_TRUE(directory.result);
      const Observed<Node> file = Await((*alone)->Lookup(caller, directory.result->handle, "file"));
      ASSERT_TRUE(file.result);
      before = file.result->handle;
    }
    options.others = {exported() / "covered", outside()};
    auto opened = posix::FileSystem::Open(exported(), pool, options);
    ASSERT_TRUE(opened) << opened.error().message;
    const Handle root = (*opened)->Root();
    EXPECT_EQ(Await((*opened)->Lookup(caller, root, "covered")).result.error(), Error::kCovered);
    EXPECT_EQ(Await((*opened)->RemoveDirectory(caller, root, "covered")).result.error(), Error::kCovered);
    EXPECT_EQ(Await((*opened)->Rename(caller, root, "covered", root, "mine")).result.error(), Error::kCovered);
    EXPECT_EQ(Await((*opened)->GetAttributes(caller, before)).error(), Error::kStale);
  }
}

TEST_P(PosixTest, MountPointIsListedButNotEntered) {
  stdfs::create_directory(exported() / "mounted");
  if (::mount("tmpfs", (exported() / "mounted").c_str(), "tmpfs", 0, nullptr) != 0) {
    GTEST_SKIP() << "cannot mount: run as root for this test";
  }
  EXPECT_EQ(LookupError(root_, "mounted"), Error::kAccess);
  const std::vector<suite::Listed> entries = List(root_, 10, true);
  EXPECT_EQ(CountNames(entries).count("mounted"), 1u);
  for (const suite::Listed& entry : entries) {
    EXPECT_EQ(entry.handle.has_value(), entry.name != "mounted");
    EXPECT_EQ(entry.error, entry.name == "mounted" ? std::optional(Error::kAccess) : std::nullopt);
  }
  EXPECT_EQ(suite::ErrorOf(RemoveDirectory(root_, "mounted").result), Error::kAccess);
  ::umount((exported() / "mounted").c_str());
  EXPECT_FALSE(LookupError(root_, "mounted"));
}

TEST_P(PosixTest, ListsEveryEntryWithAnErrorWhenNoDescriptorIsLeft) {
  for (int i = 0; i < 300; ++i) Make(root_, "file" + std::to_string(i));
  ASSERT_TRUE(backend().Restart());  // no object is open that could be closed
  List(root_);                       // opens the directory
  std::vector<suite::Listed> entries;
  {
    const NoFreeDescriptors none;
    entries = List(root_, 1000, true);
  }
  EXPECT_EQ(entries.size(), 302u);
  for (const suite::Listed& entry : entries) {
    if (entry.name == "." || entry.name == "..") continue;
    EXPECT_EQ(entry.error, Error::kDelay) << entry.name;
    EXPECT_FALSE(entry.handle || entry.attributes) << entry.name;
  }
}

TEST_P(PosixTest, HandlesAreNotStaleWhenNoDescriptorIsLeft) {
  const Handle directory = MakeDirectory(root_, "directory");
  const Handle file = Make(directory, "file");
  ASSERT_TRUE(backend().Restart());  // only the root is open
  {
    const NoFreeDescriptors none;
    EXPECT_EQ(StatError(file), Error::kDelay);
    EXPECT_EQ(StatError(directory), Error::kDelay);
  }
  EXPECT_FALSE(StatError(file));
}

// Removes all entries of a directory when it receives the first one.
class Remover : public suite::Collector {
 public:
  explicit Remover(stdfs::path directory) : Collector(1000), directory_(std::move(directory)) {}
  bool Add(const DirectoryEntry& entry) override {
    if (entries.empty()) {
      for (const auto& found : stdfs::directory_iterator(directory_)) stdfs::remove(found);
    }
    return Collector::Add(entry);
  }

 private:
  stdfs::path directory_;
};

TEST_P(PosixTest, SkipsEntriesThatVanishWhileTheyAreListed) {
  const Handle directory = MakeDirectory(root_, "directory");
  for (int i = 0; i < 10; ++i) Make(directory, "file" + std::to_string(i));
  Remover remover(exported() / "directory");
  const auto reply =
      Await(fs().ReadDirectory(caller_, directory, {.cookie = {}, .verifier = {}, .with_nodes = true}, remover));
  ASSERT_TRUE(reply.result);
  EXPECT_TRUE(reply.result->eof);
  // The server may have read the attributes of one entry before the removal.
  EXPECT_LE(remover.entries.size(), 3u);
  for (const suite::Listed& entry : remover.entries) EXPECT_FALSE(entry.error) << entry.name;
}

TEST_P(PosixTest, CommittedFileCanBeExecuted) {
  const Handle file = Make(root_, "script", 0755);
  ASSERT_TRUE(Write(file, 0, "#!/bin/sh\nexit 7\n").result);
  ASSERT_TRUE(Await(fs().Commit(caller_, file)).result);
  EXPECT_EQ(WEXITSTATUS(std::system((exported() / "script").c_str())), 7);
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
