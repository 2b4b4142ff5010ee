// Tests of descriptors: all exports share them, unused descriptors are closed, and descriptors in use stay open.
#include "fs/posix/open_objects.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/failing_disk.h"
#include "base/test_descriptors.h"
#include "base/test_loop.h"
#include "fs/posix/test_backend.h"
#include "fs/suite/fixture.h"

namespace penstock::fs::posix {
namespace {

namespace stdfs = std::filesystem;

class OpenObjectsTest : public suite::FileSystemSuite {
 protected:
  Task<void> GetError(Handle file, std::optional<Error>& error) {
    const auto attributes = co_await fs().GetAttributes(caller_, file);
    error = suite::ErrorOf(attributes);
  }
  PosixBackend& backend() { return static_cast<PosixBackend&>(*backend_); }
  stdfs::path exported() { return backend().scratch().exported(); }
  FileSystem& posix_fs() { return backend().posix_fs(); }

  // Starts exports that share this number of descriptors. The calls of the fixture go to the first export.
  void Serve(size_t exports, size_t descriptors) {
    backend_.reset();
    others_.clear();
    objects_ = std::make_shared<OpenObjects>(descriptors);
    Options options = With(HandleMethod::kBest);
    options.objects = objects_;
    backend_ = std::make_unique<PosixBackend>(kDisk, options);
    root_ = fs().Root();
    caller_ = As(0, 0);
    for (; exports > 1; --exports) others_.push_back(std::make_unique<PosixBackend>(kDisk, options));
  }
  // Restarts the export, so that no object is open.
  void Restart() {
    ASSERT_TRUE(backend().Restart());
    root_ = fs().Root();
  }
  void TearDown() override {
    others_.clear();
    suite::FileSystemSuite::TearDown();
  }

  // Calls of the fixture go to another export from now on.
  void SwitchTo(size_t other) {
    std::swap(backend_, others_.at(other));
    root_ = fs().Root();
    caller_ = As(0, 0);
  }
  std::vector<Handle> MakeFiles(int count) {
    std::vector<Handle> files;
    for (int i = 0; i < count; ++i) files.push_back(Make(root_, "file" + std::to_string(i)));
    return files;
  }
  // Another object of the same file. Its handle means nothing to the export.
  ObjectRef Open(const std::string& name) {
    return std::make_shared<Object>(root_, FileDescriptor(::open((exported() / name).c_str(), O_PATH)),
                                    FileType::kRegular, objects_, std::make_shared<std::atomic<uint64_t>>(0));
  }
  bool CanBeExecuted(const std::string& name) {
    const int status = std::system((exported() / name).c_str());
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }
  Handle MakeProgram(const std::string& name) {
    const Handle file = Make(root_, name, 0755);
    EXPECT_TRUE(Write(file, 0, "#!/bin/sh\nexit 7\n").result);
    return file;
  }

  std::shared_ptr<OpenObjects> objects_;
  std::vector<std::unique_ptr<suite::Backend>> others_;
  FailingDisk disk_;
};

TEST_P(OpenObjectsTest, LimitsTheDescriptorsOfAllExportsTogether) {
  Serve(3, 60);
  for (size_t other = 0; other < 3; ++other) {
    const std::vector<Handle> files = MakeFiles(50);
    for (const Handle& file : files) EXPECT_EQ(ReadText(file), "");
    EXPECT_LE(objects_->descriptors(), 60u);
    EXPECT_GT(objects_->descriptors(), 40u) << "objects within the limit stay open";
    SwitchTo(other % 2);
  }
}

TEST_P(OpenObjectsTest, ClosesIdleObjectsOfAnotherExportWhenNoDescriptorIsLeft) {
  Serve(2, 1000);
  const std::vector<Handle> files = MakeFiles(20);
  Restart();
  SwitchTo(0);
  MakeFiles(100);
  const size_t idle = posix_fs().open_objects();
  SwitchTo(0);
  {
    const AllDescriptorsTaken all;
    for (const Handle& file : files) {
      EXPECT_FALSE(StatError(file));
      EXPECT_TRUE(Read(file, 0, 10).result);
      EXPECT_TRUE(Write(file, 0, "text").result);
    }
    EXPECT_FALSE(LookupError(root_, "file0"));
    EXPECT_EQ(List(root_, 1000, true).size(), 22u);
    for (int i = 0; i < 10; ++i) Make(root_, "new" + std::to_string(i));
  }
  SwitchTo(0);
  EXPECT_LT(posix_fs().open_objects(), idle);
  SwitchTo(0);
}

TEST_P(OpenObjectsTest, ClosesTheLeastRecentlyUsedObjectsFirst) {
  Serve(2, 1000);
  MakeFiles(10);
  const Handle used = Make(root_, "used");
  SwitchTo(0);
  MakeFiles(10);
  SwitchTo(0);
  EXPECT_FALSE(StatError(used));
  const size_t here = posix_fs().open_objects();
  const size_t all = objects_->descriptors();
  EXPECT_EQ(objects_->GiveUp(20), 20u);
  EXPECT_EQ(objects_->descriptors(), all - 20);
  EXPECT_EQ(posix_fs().open_objects(), here - 10) << "each object has two descriptors";
  EXPECT_FALSE(StatError(used));
  EXPECT_EQ(objects_->descriptors(), all - 20) << "the object of `used` was still open";
}

TEST_P(OpenObjectsTest, KeepsObjectsThatArePinnedOrInUse) {
  Serve(1, 1000);
  const Handle pinned = Make(root_, "pinned");
  const Handle read = Make(root_, "read");
  ASSERT_TRUE(Write(pinned, 0, "text").result);
  ASSERT_TRUE(Write(read, 0, suite::Pattern(100'000)).result);
  const Pinned pin = *Await(fs().Pin(caller_, pinned));
  ASSERT_TRUE(Remove(root_, "pinned").result);
  const Observed<ReadReply> reply = Read(read, 0, 100'000);
  ASSERT_TRUE(reply.result->data.is_file());
  objects_->GiveUp(1000);
  EXPECT_EQ(objects_->descriptors(), 2u) << "the pinned object, and the file of the reply";
  EXPECT_EQ(ReadText(pinned), "text");
  EXPECT_TRUE(suite::TextOf(reply.result->data) == suite::Pattern(100'000));
}

TEST_P(OpenObjectsTest, PinsAtMostHalfOfTheDescriptors) {
  Serve(2, 20);
  std::vector<Pinned> pins;
  for (size_t other = 0; other < 2; ++other) {
    for (const Handle& file : MakeFiles(8)) {
      const auto pin = Await(fs().Pin(caller_, file));
      if (pin) {
        pins.push_back(*pin);
      } else {
        EXPECT_EQ(pin.error(), Error::kDelay);
      }
    }
    SwitchTo(0);
  }
  EXPECT_EQ(pins.size(), 10u);
  pins.clear();
  EXPECT_TRUE(Await(fs().Pin(caller_, Make(root_, "another"))));
}

TEST_P(OpenObjectsTest, UsesAtMostAQuarterOfTheDescriptorsForLocks) {
  Serve(2, 20);
  std::vector<std::shared_ptr<LocalLocks>> locks;
  for (size_t other = 0; other < 2; ++other) {
    for (const Handle& file : MakeFiles(4)) {
      if (auto opened = *Await(fs().OpenLocks(caller_, file, true))) locks.push_back(std::move(opened));
    }
    SwitchTo(0);
  }
  EXPECT_EQ(locks.size(), 5u);
  locks.clear();
  const Handle another = Make(root_, "another");
  EXPECT_TRUE(TurnUntil(*backend().loop(), [&] { return *Await(fs().OpenLocks(caller_, another, true)) != nullptr; }));
}

TEST_P(OpenObjectsTest, DelaysLocksWhenNoDescriptorIsLeft) {
  Serve(1, 1000);
  const Handle file = Make(root_, "file");
  const NoFreeDescriptors none;
  for (const bool exclusive : {false, true}) {
    EXPECT_EQ(Await(fs().OpenLocks(caller_, file, exclusive)), std::unexpected(Error::kDelay));
  }
}

// ETXTBSY: a program cannot be opened for writing while it runs, which may be for ever.
TEST_P(OpenObjectsTest, LocksARunningProgramByADescriptorForReading) {
  Serve(1, 1000);
  stdfs::copy_file("/bin/sleep", exported() / "program");
  const std::string path = exported() / "program";
  std::string name = "sleep", forever = "infinity";
  char* arguments[] = {name.data(), forever.data(), nullptr};
  pid_t process = 0;
  ASSERT_EQ(::posix_spawn(&process, path.c_str(), nullptr, nullptr, arguments, environ), 0);
  const Handle file = Await(fs().Lookup(caller_, root_, "program")).result->handle;
  const auto running = Await(fs().OpenLocks(caller_, file, true));
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  ASSERT_TRUE(running && *running);
  EXPECT_FALSE((*running)->CanExclude());
  const auto ended = Await(fs().OpenLocks(caller_, file, true));
  ASSERT_TRUE(ended && *ended);
  EXPECT_TRUE((*ended)->CanExclude());
}

// For all numbers of remaining descriptors, so that each step of a call fails once.
TEST_P(OpenObjectsTest, ShortageOfDescriptorsKeepsHandlesValidAndCreatesNothing) {
  for (const HandleMethod method : {HandleMethod::kBest, HandleMethod::kTable}) {
    backend_ = std::make_unique<PosixBackend>(kDisk, With(method));
    root_ = fs().Root();
    caller_ = As(0, 0);
    const Handle outer = MakeDirectory(root_, "outer");
    const Handle inner = MakeDirectory(outer, "inner");
    const Handle file = Make(inner, "file");
    stdfs::rename(exported() / "outer/inner/file", exported() / "outer/inner/renamed");
    for (unsigned left = 0; left < 6; ++left) {
      Restart();
      const NoFreeDescriptors few(left);
      for (const Handle& handle : {file, inner, outer}) {
        const std::optional<Error> error = StatError(handle);
        EXPECT_TRUE(!error || error == Error::kDelay) << left << ToString(*error);
      }
    }
    for (unsigned left = 0; left < 6; ++left) {
      Restart();
      ASSERT_FALSE(StatError(root_));
      const NoFreeDescriptors few(left);
      const auto made = Await(fs().MakeDirectory(caller_, root_, "new", {}));
      EXPECT_EQ(stdfs::exists(exported() / "new"), made.result.has_value()) << left;
      if (!made.result) {
        EXPECT_EQ(made.result.error(), Error::kDelay) << left;
      }
      stdfs::remove(exported() / "new");
      const auto linked = Await(fs().MakeSymlink(caller_, root_, "new", "target", {}));
      EXPECT_EQ(stdfs::is_symlink(exported() / "new"), linked.result.has_value()) << left;
      stdfs::remove(exported() / "new");
    }
  }
}

// The server checks by a walk up to the root that no other export covers the directory.
TEST_P(OpenObjectsTest, ShortageOfDescriptorsDoesNotMakeADirectoryBesideAnotherExportStale) {
  stdfs::create_directories(exported() / "covered");
  stdfs::create_directories(exported() / "one/two/three");
  Workers pool(1);
  Options options = With(HandleMethod::kBest);
  options.state_directory = backend().scratch().state();
  options.others = {exported() / "covered"};
  const RequestContext& caller = caller_;
  for (unsigned left = 0; left < 6; ++left) {
    Handle directory;
    for (const bool again : {false, true}) {
      const auto opened = FileSystem::Open(exported(), pool, options);
      ASSERT_TRUE(opened) << opened.error().message;
      if (again) {
        const NoFreeDescriptors few(left);
        const auto found = Await((*opened)->GetAttributes(caller, directory));
        if (!found) {
          EXPECT_EQ(found.error(), Error::kDelay) << left;
        }
        continue;
      }
      directory = (*opened)->Root();
      for (const char* name : {"one", "two", "three"}) {
        directory = Await((*opened)->Lookup(caller, directory, name)).result->handle;
      }
    }
  }
}

TEST_P(OpenObjectsTest, DoesNotRemoveAnEntryThatItCannotExamine) {
  Serve(1, 1000);
  Make(root_, "file");
  Restart();
  ASSERT_FALSE(StatError(root_));
  const NoFreeDescriptors none;
  EXPECT_EQ(suite::ErrorOf(Remove(root_, "file").result), Error::kDelay);
  EXPECT_EQ(suite::ErrorOf(Rename(root_, "file", root_, "moved").result), Error::kDelay);
  EXPECT_TRUE(stdfs::exists(exported() / "file"));
}

// --- Descriptors for writing

TEST_P(OpenObjectsTest, ClosesWhatAnotherProgramHasRemoved) {
  Serve(1, 1000);
  const std::vector<Handle> files = MakeFiles(40);
  const Handle directory = MakeDirectory(root_, "directory");
  for (const Handle& each : files) ASSERT_TRUE(Write(each, 0, "data").result);
  ASSERT_EQ(ReadText(files[0]), "data");
  const size_t open = objects_->descriptors();
  stdfs::create_hard_link(exported() / "file1", exported() / "other");
  for (int i = 0; i < 30; ++i) stdfs::remove(exported() / ("file" + std::to_string(i)));
  stdfs::remove(exported() / "directory");
  const auto look_at_all = [&](TimePoint idle_since) {
    for (int i = 0; i < 256; ++i) objects_->CloseRemoved(idle_since);
  };
  const TimePoint now = std::chrono::steady_clock::now();
  look_at_all(now - std::chrono::hours(1));
  EXPECT_EQ(objects_->descriptors(), open);
  look_at_all(now);
  // 29 files and the directory; file1 has another name.
  EXPECT_LE(objects_->descriptors(), open - 30);
  EXPECT_EQ(StatError(files[0]), Error::kStale);
  EXPECT_EQ(StatError(directory), Error::kStale);
  EXPECT_EQ(ReadText(files[1]), "data");
  EXPECT_EQ(ReadText(files[35]), "data");
}

TEST_P(OpenObjectsTest, FileCanBeExecutedAfterTheLastWrite) {
  Serve(1, 1000);
  const Handle file = MakeProgram("program");
  EXPECT_FALSE(CanBeExecuted("program")) << "a client may continue to write";
  objects_->CloseUnusedWriters();
  EXPECT_FALSE(CanBeExecuted("program")) << "it was written since the last call";
  objects_->CloseUnusedWriters();
  EXPECT_TRUE(CanBeExecuted("program"));
  ASSERT_TRUE(Write(file, 0, "#!/bin/sh\nexit 7\n\n").result) << "the file is opened again";
  EXPECT_FALSE(CanBeExecuted("program"));
  objects_->CloseUnusedWriters();
  objects_->CloseUnusedWriters();
  EXPECT_TRUE(CanBeExecuted("program"));
}

TEST_P(OpenObjectsTest, FileStaysOpenDuringWrites) {
  Serve(1, 1000);
  const Handle file = MakeProgram("program");
  for (int i = 0; i < 5; ++i) {
    objects_->CloseUnusedWriters();
    EXPECT_FALSE(CanBeExecuted("program"));
    ASSERT_TRUE(Write(file, 20, "#").result);
  }
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Await(fs().Commit(caller_, file)).result);
    ASSERT_TRUE(Write(file, 20, "#").result);
  }
  objects_->CloseUnusedWriters();
  EXPECT_FALSE(CanBeExecuted("program")) << "the number of opens since the last call does not matter";
}

TEST_P(OpenObjectsTest, FileCanBeExecutedAfterItsLastPinIsReleased) {
  Serve(1, 1000);
  Pinned pin = *Await(fs().Pin(caller_, MakeProgram("program")));
  pin.reset();
  EXPECT_TRUE(TurnUntil(*backend().loop(), [&] { return CanBeExecuted("program"); }))
      << "a thread of the pool closes the file";
}

// A client of a server of root may get a delegation instead of an open. It writes to the file that it has created
// without a pin.
TEST_P(OpenObjectsTest, FileThatItsCreatorHasNotYetWrittenStaysOpenWithoutAPin) {
  Serve(1, 1000);
  const Handle file = Make(root_, "program", 0755);
  Await(fs().Pin(caller_, file)).value().reset();
  (void)Await(fs().GetQuota(caller_, QuotaKind::kUser, 0));  // the pool has done what it was given before
  EXPECT_FALSE(CanBeExecuted("program"));
  ASSERT_TRUE(Write(file, 0, "#!/bin/sh\nexit 7\n").result);
  Await(fs().Pin(caller_, file)).value().reset();
  EXPECT_TRUE(TurnUntil(*backend().loop(), [&] { return CanBeExecuted("program"); }));
}

TEST_P(OpenObjectsTest, TheEndOfTheLastPinTellsWhetherThereIsSomethingToClose) {
  Serve(1, 1000);
  Make(root_, "file");
  ObjectCache cache(objects_);
  ObjectRef object = cache.Insert(Open("file"));
  ASSERT_TRUE(cache.Pin(object));
  EXPECT_FALSE(cache.Unpin(object)) << "nothing was written";
  ASSERT_TRUE(cache.Pin(object) && cache.Pin(object));
  ASSERT_TRUE(object->Writer());
  EXPECT_FALSE(cache.Unpin(object)) << "there is another pin";
  EXPECT_EQ(cache.Unpin(object), object) << "it was written";
  object->CloseIfUnpinned();
  ASSERT_TRUE(cache.Pin(object));
  cache.Erase(object->handle());
  EXPECT_EQ(cache.Unpin(object), object) << "it was removed";
}

TEST_P(OpenObjectsTest, PinIsOfTheObjectThatTheCacheHas) {
  Serve(1, 1000);
  Make(root_, "file");
  ObjectCache cache(objects_);
  const ObjectRef first = cache.Insert(Open("file"));
  ObjectRef object = Open("file");
  ASSERT_TRUE(cache.Pin(object));
  EXPECT_EQ(object, first);
  cache.Unpin(object);
}

// A server without root's rights may not open the file again when its mode has changed.
TEST_P(OpenObjectsTest, KeepsAFileForWritingWhileTheClientThatWritesHasItOpen) {
  Serve(1, 1000);
  Make(root_, "file");
  ObjectCache cache(objects_);
  ObjectRef object = cache.Insert(Open("file"));
  ASSERT_TRUE(cache.Pin(object));
  EXPECT_EQ(object->KeepForWriting(), nullptr) << "nobody has written to it";
  ASSERT_TRUE(object->Writer());
  object->DropWriter();
  ASSERT_FALSE(object->OpenWriter());
  {
    const Result<SharedFile> kept = object->KeepForWriting();
    ASSERT_TRUE(kept && *kept);
    EXPECT_EQ(object->CloseUnused(), 0u) << "its mode is being changed";
  }
  object->CloseIfUnpinned();
  EXPECT_TRUE(object->OpenWriter()) << "it is pinned";
  ASSERT_TRUE(cache.Unpin(object));
  object->CloseIfUnpinned();
  EXPECT_FALSE(object->OpenWriter());
}

TEST_P(OpenObjectsTest, DoesNotKeepAFileForWritingThatItsWriterHasClosed) {
  Serve(1, 1000);
  Make(root_, "file");
  ObjectCache cache(objects_);
  ObjectRef object = cache.Insert(Open("file"));
  for (const bool commits : {false, true}) {
    ASSERT_TRUE(cache.Pin(object));
    ASSERT_TRUE(object->Writer());
    if (commits) object->DropWriter();
    if (const ObjectRef last = cache.Unpin(object)) last->CloseIfUnpinned();
    ASSERT_TRUE(cache.Pin(object));
    EXPECT_EQ(object->KeepForWriting(), nullptr) << commits;
    cache.Unpin(object);
  }
}

TEST_P(OpenObjectsTest, TheEndOfAPinKeepsAFileThatNobodyHasWritten) {
  Serve(1, 1000);
  Make(root_, "file");
  ObjectCache cache(objects_);
  ObjectRef object = cache.Insert(Open("file"));
  object->Adopt(objects_->Share(FileDescriptor(::open((exported() / "file").c_str(), O_RDWR | O_CLOEXEC))));
  object->CloseIfUnpinned();
  EXPECT_TRUE(object->OpenWriter());
}

// The kernel may take long to free the space of the file.
TEST_P(OpenObjectsTest, TheLoopDoesNotCloseARemovedFile) {
  Serve(1, 1000);
  const Handle file = Make(root_, "file");
  ASSERT_FALSE(StatError(file));
  stdfs::remove(exported() / "file");
  std::optional<Error> error;
  Spawn(GetError(file, error));
  EXPECT_FALSE(error) << "the reply came without another thread";
  EXPECT_TRUE(TurnUntil(*backend().loop(), [&] { return error.has_value(); }));
  EXPECT_EQ(error, Error::kStale);
}

// The server's user may not open the file again, and its client may write more of it; but not for ever.
TEST_P(OpenObjectsTest, KeepsAWriterThatCannotBeOpenedAgainForAWhile) {
  Serve(1, 1000);
  Make(root_, "program", 0555);
  const std::string path = exported() / "program";
  FileDescriptor writer(::open(path.c_str(), O_RDWR));
  ASSERT_TRUE(writer);
  const ObjectRef object = Open("program");
  object->Adopt(objects_->Share(std::move(writer)));
  std::optional<AsCaller> without_override(std::in_place, ServerIdentity(), As(4242, 4242).credentials);
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) GTEST_SKIP() << "this user may open the file again";
  const TimePoint start{std::chrono::hours(1)};
  EXPECT_FALSE(object->CloseUnusedWriter(start)) << "it was used";
  EXPECT_FALSE(object->CloseUnusedWriter(start + Object::kKeptUnused / 2));
  object->DropWriter();
  EXPECT_TRUE(object->OpenWriter());
  EXPECT_TRUE(object->CloseUnusedWriter(start + Object::kKeptUnused));
  EXPECT_FALSE(object->OpenWriter());
}

// A descriptor knows of failed writes. This knowledge must not be lost when it is closed.
TEST_P(OpenObjectsTest, ChangesTheVerifierIfWritesWereLostBeforeADescriptorIsClosed) {
  Serve(1, 1000);
  const auto close_idle = [&] { objects_->GiveUp(1000); };
  const auto close_writers = [&] {
    objects_->CloseUnusedWriters();
    objects_->CloseUnusedWriters();
  };
  const Handle file = Make(root_, "file");
  for (const std::function<void()>& close : {std::function<void()>(close_idle), std::function<void()>(close_writers)}) {
    const WriteVerifier before = Write(file, 0, "text").result->verifier;
    close();
    EXPECT_EQ(Await(fs().Commit(caller_, file)).result, before) << "no write was lost";
    ASSERT_TRUE(Write(file, 0, "text").result);
    disk_.Fail({.call = DiskCall::kWriteBack, .path = exported() / "file", .error = EIO});
    close();
    disk_.Mend();
    const auto committed = Await(fs().Commit(caller_, file));
    ASSERT_TRUE(committed.result);
    EXPECT_NE(*committed.result, before);
  }
}

INSTANTIATE_TEST_SUITE_P(Posix, OpenObjectsTest,
                         testing::Values(suite::Parameter{
                             "Disk", [] { return std::make_unique<PosixBackend>(kDisk, With(HandleMethod::kBest)); }}),
                         suite::NameOf);

}  // namespace
}  // namespace penstock::fs::posix
