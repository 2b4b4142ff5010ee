// Tests of the names in a served directory and of the handles of its objects: after changes by other programs, in
// exports that overlap, at mount points, and when no descriptor is left.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/test_descriptors.h"
#include "base/workers.h"
#include "fs/posix/file_system.h"
#include "fs/posix/posix_test.h"
#include "fs/suite/fixture.h"

namespace penstock::fs {
namespace {

namespace stdfs = std::filesystem;
using posix::HandleMethod;

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

// The server remembers the handles of objects that were not born just now, and lists files by what it remembers.
void WaitUntilBornEarlier() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

std::optional<Handle> HandleIn(const std::vector<suite::Listed>& entries, std::string_view name) {
  const auto entry = std::ranges::find(entries, name, &suite::Listed::name);
  return entry == entries.end() ? std::nullopt : entry->handle;
}

// ext4 gives the inode number of a removed file to the next one.
TEST_P(PosixTest, FileThatReplacesAListedOneHasAHandleOfItsOwn) {
  std::vector<Handle> handles;
  for (int i = 0; i < 3; ++i) {
    WriteFile(exported() / "file", "text");
    WaitUntilBornEarlier();
    for (int times = 0; times < 2; ++times) {
      const std::optional<Handle> listed = HandleIn(List(root_, 10, true), "file");
      ASSERT_TRUE(listed);
      EXPECT_FALSE(StatError(*listed));
      EXPECT_EQ(Lookup(root_, "file").result->handle, *listed);
      for (const Handle& earlier : handles) EXPECT_NE(*listed, earlier);
    }
    handles.push_back(*HandleIn(List(root_, 10, true), "file"));
    stdfs::remove(exported() / "file");
    EXPECT_EQ(StatError(handles.back()), Error::kStale);
  }
}

// Both names lead to a file that the server knows, but one of them through another mount.
TEST_P(PosixTest, KnownFileThatIsMountedAtAnotherNameIsNotFoundThere) {
  const Handle known = Make(root_, "known");
  WriteFile(exported() / "mounted", "text");
  WaitUntilBornEarlier();
  EXPECT_EQ(HandleIn(List(root_, 10, true), "known"), known);
  if (::mount((exported() / "known").c_str(), (exported() / "mounted").c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "cannot mount: run as root for this test";
  }
  EXPECT_EQ(Lookup(root_, "known").result->handle, known);
  EXPECT_EQ(LookupError(root_, "mounted"), Error::kAccess);
  EXPECT_FALSE(HandleIn(List(root_, 10, true), "mounted"));
  ::umount((exported() / "mounted").c_str());
  EXPECT_FALSE(LookupError(root_, "mounted"));
}

TEST_P(PosixTest, KnownFileThatWasRemovedByAnotherProgramIsNotFound) {
  WriteFile(exported() / "file", "text");
  WaitUntilBornEarlier();
  const Handle file = Lookup(root_, "file").result->handle;
  EXPECT_EQ(Lookup(root_, "file").result->handle, file);
  stdfs::remove(exported() / "file");
  EXPECT_EQ(LookupError(root_, "file"), Error::kNoEnt);
  EXPECT_FALSE(HandleIn(List(root_, 10, true), "file"));
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

}  // namespace
}  // namespace penstock::fs
