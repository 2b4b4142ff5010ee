// Tests of a served directory on a disk that fails: errors are reported, and data is synced before it is reported as
// stable. hanging_disk_test.cc tests a disk that does not answer.
#include "base/failing_disk.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "base/test_descriptors.h"
#include "fs/posix/failing_disk_test.h"
#include "fs/posix/page_cache.h"
#include "fs/posix/space_watch.h"
#include "fs/posix/test_backend.h"
#include "fs/suite/fixture.h"

namespace penstock::fs::posix {
namespace {

// --- Reading

TEST_P(FailingDiskTest, ReadFailsIfAnyPartOfTheRangeFails) {
  const Handle file = MakeLarge("file");
  for (const uint64_t at : {uint64_t{0}, uint64_t{5000}, uint64_t{500'000}, uint64_t{999'999}}) {
    FailReads({.path = PathOf("file"), .error = EIO, .from = at});
    EXPECT_EQ(ReadError(file, 0, kLarge), Error::kIo) << at;
    EXPECT_EQ(ReadError(file, at, 1), Error::kIo) << at;
    EXPECT_TRUE(at == 0 || ReadText(file, 0, static_cast<uint32_t>(at)) == suite::Pattern(kLarge).substr(0, at)) << at;
    disk_.Mend();
    EXPECT_TRUE(ReadText(file, 0, kLarge) == suite::Pattern(kLarge)) << "the disk works again";
  }
}

// The range was cached when it was returned, and could not be read when it was sent. The next READ returns its octets
// or the error.
TEST_P(FailingDiskTest, ReadLoadsTheRangeFirstAfterAFailureDuringSending) {
  const Handle file = MakeLarge("file");
  Observed<ReadReply> reply = Read(file, 0, kLarge);
  ASSERT_TRUE(reply.result->data.is_file());
  disk_.Fail({.call = DiskCall::kRead, .path = PathOf("file"), .error = EIO, .from = 500'000});
  std::vector<std::byte> to(kLarge);
  EXPECT_FALSE(reply.result->data.CopyTo(to));
  reply = Read(file, 0, kLarge);
  if (reply.result) {
    EXPECT_FALSE(reply.result->data.is_file());
    EXPECT_TRUE(suite::TextOf(reply.result->data) == suite::Pattern(kLarge));
  } else {
    EXPECT_EQ(reply.result.error(), Error::kIo);
  }
}

TEST_P(FailingDiskTest, ReadContinuesAfterShortReadsOfTheDisk) {
  const Handle file = MakeLarge("file");
  FailReads({.path = PathOf("file"), .at_most = 4999});
  EXPECT_TRUE(ReadText(file, 0, kLarge) == suite::Pattern(kLarge));
  EXPECT_TRUE(ReadText(file, 100, 20'000) == suite::Pattern(kLarge).substr(100, 20'000));
}

// The file became shorter after the server read its size.
TEST_P(FailingDiskTest, ReadReportsTheNewEndOfATruncatedFile) {
  const Handle file = MakeLarge("file");
  FailReads({.path = PathOf("file"), .at_most = 0});
  const Observed<ReadReply> reply = Read(file, 0, kLarge);
  ASSERT_TRUE(reply.result);
  EXPECT_TRUE(reply.result->data.empty());
  EXPECT_TRUE(reply.result->eof);
}

TEST_P(FailingDiskTest, DetectsAMissingPageInTheMiddleOfARange) {
  const Handle file = Make(root_, "file");
  // The kernel drops memory in pieces of this size.
  constexpr uint32_t kPiece = 32 << 10;
  constexpr uint32_t kSize = 32 * kPiece;
  for (uint32_t at = 0; at < kSize; at += kPiece) ASSERT_TRUE(Write(file, at, suite::Pattern(kPiece)).result);
  ASSERT_TRUE(Await(fs().Commit(caller_, file)).result);
  const FileDescriptor fd(::open(PathOf("file").c_str(), O_RDONLY));
  const Volume volume = *VolumeOf(fd.get(), std::make_shared<ChangeCounters>());
  if (volume.in_memory || !IsCached(fd.get(), 0, kSize, volume)) {
    GTEST_SKIP() << "the file system does not report which pages are in memory";
  }
  void* const map = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  const auto is_resident = [&] {
    unsigned char page = 0;
    return ::mincore(static_cast<std::byte*>(map) + 16 * kPiece, 1, &page) != 0 || (page & 1) != 0;
  };
  int absent = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    ::posix_fadvise(fd.get(), 16 * kPiece, kPiece, POSIX_FADV_DONTNEED);
    if (is_resident()) continue;
    ++absent;
    // The check for a missing page makes the kernel read it, and the read may end before the check.
    const bool cached = IsCached(fd.get(), 0, kSize, volume);
    EXPECT_TRUE(!cached || is_resident());
  }
  ::munmap(map, kSize);
  if (absent == 0) GTEST_SKIP() << "the file system does not drop pages on request";
  EXPECT_EQ(PullIn(fd.get(), 0, kSize), kSize);
  EXPECT_TRUE(IsCached(fd.get(), 0, kSize, volume));
}

// --- Writing

TEST_P(FailingDiskTest, FailedWriteReportsTheError) {
  const Handle file = Make(root_, "file");
  const std::pair<int, Error> kErrors[] = {
      {EIO, Error::kIo}, {ENOSPC, Error::kNoSpace}, {EDQUOT, Error::kQuota}, {EFBIG, Error::kFileTooBig}};
  for (const auto& [number, error] : kErrors) {
    disk_.Fail({.call = DiskCall::kWrite, .path = PathOf("file"), .error = number});
    for (const size_t size : {size_t{100}, size_t{100'000}}) {
      EXPECT_EQ(suite::ErrorOf(Write(file, 0, suite::Pattern(size)).result), error) << number << ' ' << size;
    }
    disk_.Mend();
  }
  EXPECT_EQ(Stat(file).size, 0u);
}

TEST_P(FailingDiskTest, InterruptedWriteReportsTheWrittenOctets) {
  const Handle file = Make(root_, "file");
  disk_.Fail({.call = DiskCall::kWrite, .path = PathOf("file"), .error = ENOSPC, .from = 70'000});
  const Changed<WriteReply> wrote = Write(file, 0, suite::Pattern(100'000));
  ASSERT_TRUE(wrote.result);
  EXPECT_EQ(wrote.result->count, 70'000u);
  EXPECT_EQ(suite::ErrorOf(Write(file, 70'000, suite::Pattern(30'000)).result), Error::kNoSpace);
  EXPECT_TRUE(ReadText(file) == suite::Pattern(100'000).substr(0, 70'000));
}

TEST_P(FailingDiskTest, AWriteOfArrivingDataReportsTheOctetsBeforeTheFailure) {
  const Handle file = Make(root_, "file");
  const std::string text = suite::Pattern(kLarge);
  for (const uint64_t at : {uint64_t{0}, uint64_t{500'000}}) {
    const auto arrival = std::make_shared<Arrival>();
    const Data data(Slice::Borrowed(AsBytes(text)), arrival);
    disk_.Fail({.call = DiskCall::kWrite, .path = PathOf("file"), .error = ENOSPC, .from = at});
    const auto wrote = AwaitWith(fs().Write(caller_, file, 0, data, Stability::kUnstable), [&] {
      if (arrival->arrived() < text.size()) arrival->Advance(arrival->arrived() + kLarge / 4);
    });
    if (at == 0) {
      EXPECT_EQ(suite::ErrorOf(wrote.result), Error::kNoSpace);
    } else {
      ASSERT_TRUE(wrote.result);
      EXPECT_EQ(wrote.result->count, at);
      EXPECT_TRUE(ReadText(file, 0, static_cast<uint32_t>(at)) == text.substr(0, at));
    }
    disk_.Mend();
  }
}

TEST_P(FailingDiskTest, CopyFailsIfTheSourceCannotBeRead) {
  const Handle from = MakeLarge("from");
  const Handle to = Make(root_, "to");
  disk_.Fail({.call = DiskCall::kCopy, .path = PathOf("from"), .error = EIO});
  EXPECT_EQ(suite::ErrorOf(Await(fs().Copy(caller_, from, 0, to, 0, kLarge)).result), Error::kIo);
  EXPECT_EQ(Stat(to).size, 0u);
}

// A copy between two exports writes the result of Read(), which may be a range of a file.
TEST_P(FailingDiskTest, WriteFailsIfItsDataCannotBeReadFromAFile) {
  MakeLarge("from");
  const Handle to = Make(root_, "to");
  const auto source = std::make_shared<const FileDescriptor>(::open(PathOf("from").c_str(), O_RDONLY));
  FailReads({.path = PathOf("from"), .error = EIO, .from = 1000});
  const Data data(source, 0, 100'000);
  EXPECT_EQ(suite::ErrorOf(Await(fs().Write(caller_, to, 0, data, Stability::kUnstable)).result), Error::kIo);
  EXPECT_EQ(Stat(to).size, 0u) << "no other octets than those of the source may be written";
}

// --- Space that is reserved for root

TEST_P(FailingDiskTest, WritesAsTheCallerWhenSpaceIsLow) {
  if (!backend_->has_callers()) GTEST_SKIP() << "only a server of root acts as its callers";
  const Handle file = Make(root_, "file", 0666);
  const auto writer = [&](uint32_t uid) {
    caller_ = As(uid, uid);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // the free space is checked ten times a second
    EXPECT_TRUE(Write(file, 0, "small").result);
    const auto small = FailingDisk::LastWriter(PathOf("file"));
    EXPECT_TRUE(Write(file, 0, suite::Pattern(100'000)).result);
    EXPECT_EQ(FailingDisk::LastWriter(PathOf("file")), small);
    return small;
  };
  FailingDisk::set_free_space(10 << 20);
  EXPECT_EQ(writer(4242), 4242u);
  EXPECT_EQ(writer(0), 0u) << "root may use the reserved space";
  FailingDisk::set_free_space(100 * SpaceWatch::kLittle);
  EXPECT_EQ(writer(4242), 0u) << "with enough space the server writes as itself, which is faster";
  FailingDisk::set_free_space({});
}

// --- Stability

TEST_P(FailingDiskTest, SyncsBeforeItReportsStableData) {
  const Handle file = Make(root_, "file");
  const auto syncs = [&] { return FailingDisk::CountSyncs(PathOf("file")); };
  const size_t before = syncs();
  ASSERT_TRUE(Write(file, 0, "unstable").result);
  EXPECT_EQ(syncs(), before) << "no call asked for a sync";
  ASSERT_EQ(Write(file, 0, "data", Stability::kDataSync).result->committed, Stability::kDataSync);
  EXPECT_EQ(syncs(), before + 1);
  ASSERT_EQ(Write(file, 0, "file", Stability::kFileSync).result->committed, Stability::kFileSync);
  EXPECT_EQ(syncs(), before + 2);
  ASSERT_TRUE(Await(fs().Commit(caller_, file)).result);
  EXPECT_EQ(syncs(), before + 3);
}

TEST_P(FailingDiskTest, FailedSyncFailsTheCallAndChangesTheVerifier) {
  const Handle file = Make(root_, "file");
  const auto verifier = [&] { return Write(file, 0, "unstable").result->verifier; };
  const auto fails = [&](auto call) {
    const WriteVerifier before = verifier();
    disk_.Fail({.call = DiskCall::kSync, .path = PathOf("file"), .error = EIO, .times = 1});
    EXPECT_EQ(call(), Error::kIo);
    EXPECT_NE(verifier(), before) << "data written before may be lost";
    const WriteVerifier after = verifier();
    EXPECT_FALSE(call()) << "the disk works again";
    EXPECT_EQ(verifier(), after);
  };
  fails([&] { return suite::ErrorOf(Write(file, 0, "data", Stability::kDataSync).result); });
  fails([&] { return suite::ErrorOf(Write(file, 0, "file", Stability::kFileSync).result); });
  fails([&] { return suite::ErrorOf(Await(fs().Commit(caller_, file)).result); });
}

// The second caller asked before the sync failed, and its own sync succeeds.
TEST_P(FailingDiskTest, CommitAfterAFailedSyncReportsAnotherVerifier) {
  const Handle file = Make(root_, "file");
  const WriteVerifier written = Write(file, 0, "unstable").result->verifier;
  disk_.Fail({.call = DiskCall::kSync, .path = PathOf("file"), .error = EIO, .slow_ms = 200, .times = 1});
  std::optional<Result<WriteVerifier>> first, second;
  const size_t before = FailingDisk::CountSyncs(PathOf("file"));
  Spawn(CommitTo(file, first));
  while (FailingDisk::CountSyncs(PathOf("file")) == before) backend_->loop()->context().poll();
  Spawn(CommitTo(file, second));
  while (!first || !second) backend_->RunOnce();
  EXPECT_EQ(suite::ErrorOf(*first), Error::kIo);
  ASSERT_TRUE(*second);
  EXPECT_NE(**second, written);
}

// --- Group commit, and metadata that must be on the disk

class SyncedMetadataTest : public FailingDiskTest {
 protected:
  void SetUp() override {
    FailingDiskTest::SetUp();
    Options options = With(HandleMethod::kBest);
    options.sync_metadata = true;
    backend_ = std::make_unique<PosixBackend>(kDisk, options);
    const FailingDisk forget;  // forgets the inode numbers of the former backend, which are reused
    root_ = fs().Root();
    caller_ = As(0, 0);
  }
  size_t Syncs(std::string_view name) { return FailingDisk::CountSyncs(PathOf(name)); }
  Task<void> CreateAndCount(const std::string& name) {
    const CreateHow how;
    const auto made = co_await fs().Create(caller_, root_, name, how);
    EXPECT_TRUE(made.result);
    ++created_;
  }

  size_t created_ = 0;
};

TEST_P(SyncedMetadataTest, SyncsNewObjectsAndTheirDirectory) {
  const auto expect = [&](std::string_view name, bool itself) {
    EXPECT_EQ(Syncs("."), 1u) << name;
    EXPECT_EQ(Syncs(name), itself ? 1u : 0u) << name;
    FailingDisk::ForgetSyncs();
  };
  FailingDisk::ForgetSyncs();
  Make(root_, "plain");
  expect("plain", false);
  CreateHow how;
  how.mode = CreateMode::kExclusive;
  how.verifier = CreateVerifier(0x123);
  ASSERT_TRUE(Await(fs().Create(caller_, root_, "exclusive", how)).result);
  expect("exclusive", true);
  how = {};
  how.attributes.uid = 4242;
  ASSERT_TRUE(Await(fs().Create(caller_, root_, "owned", how)).result);
  expect("owned", true);
  NewAttributes owned;
  owned.uid = 4242;
  ASSERT_TRUE(Await(fs().MakeDirectory(caller_, root_, "directory", owned)).result);
  expect("directory", true);
}

TEST_P(SyncedMetadataTest, FailedSyncFailsTheChange) {
  Make(root_, "file");
  disk_.Fail({.call = DiskCall::kSync, .path = PathOf("."), .error = EIO});
  EXPECT_EQ(suite::ErrorOf(Remove(root_, "file").result), Error::kIo);
  EXPECT_EQ(suite::ErrorOf(Await(fs().MakeDirectory(caller_, root_, "directory", {})).result), Error::kIo);
  EXPECT_EQ(suite::ErrorOf(Rename(root_, "directory", root_, "renamed").result), Error::kIo);
}

// A caller that is told "read-only" or "try later" believes that nothing was changed.
TEST_P(SyncedMetadataTest, FailedSyncIsNoErrorOfAChangeThatWasNotMade) {
  const auto error_with = [&](int number) {
    disk_.Mend();
    disk_.Fail({.call = DiskCall::kSync, .path = PathOf("."), .error = number});
    return suite::ErrorOf(Await(fs().Create(caller_, root_, std::to_string(number), {})).result);
  };
  EXPECT_EQ(error_with(EROFS), Error::kIo);
  EXPECT_EQ(error_with(ENOMEM), Error::kIo);
  EXPECT_EQ(error_with(ETIMEDOUT), Error::kIo);
  EXPECT_EQ(error_with(ENOSPC), Error::kNoSpace);
  EXPECT_EQ(error_with(EDQUOT), Error::kQuota);
}

// The first call may not have synced the directory, if the server has been started again meanwhile.
TEST_P(SyncedMetadataTest, ARepeatedCreationSyncsTheDirectory) {
  for (const CreateMode mode : {CreateMode::kUnchecked, CreateMode::kExclusive}) {
    CreateHow how;
    how.mode = mode;
    const std::string name = "file" + std::to_string(static_cast<int>(mode));
    ASSERT_TRUE(Await(fs().Create(caller_, root_, name, how)).result);
    FailingDisk::ForgetSyncs();
    EXPECT_TRUE(Await(fs().Create(caller_, root_, name, how)).result->existed);
    EXPECT_EQ(Syncs("."), 1u);
  }
}

TEST_P(SyncedMetadataTest, ShortageOfDescriptorsDoesNotSkipASync) {
  const Handle directory = MakeDirectory(root_, "directory");
  NewAttributes values;
  values.mode = 0750;
  bool succeeded = false;
  for (unsigned left = 0; left < 6; ++left) {
    ASSERT_TRUE(backend_->Restart());
    FailingDisk::ForgetSyncs();
    std::optional<Error> error;
    {
      const NoFreeDescriptors few(left);
      error = suite::ErrorOf(Set(directory, values).result);
    }
    EXPECT_TRUE(!error || error == Error::kDelay) << left;
    EXPECT_EQ(Syncs("directory"), error ? 0u : 1u) << left;
    succeeded = !error;
  }
  EXPECT_TRUE(succeeded);
}

TEST_P(SyncedMetadataTest, ConcurrentChangesShareSyncs) {
  constexpr size_t kChanges = 64;
  disk_.Fail({.call = DiskCall::kSync, .path = PathOf("."), .slow_ms = 20});
  const size_t before = Syncs(".");
  std::vector<std::string> names;
  for (size_t i = 0; i < kChanges; ++i) names.push_back("file" + std::to_string(i));
  for (const std::string& name : names) Spawn(CreateAndCount(name));
  while (created_ < kChanges) backend_->RunOnce();
  EXPECT_GE(Syncs("."), before + 1);
  EXPECT_LT(Syncs("."), before + kChanges / 2) << "changes share syncs";
}

TEST_P(SyncedMetadataTest, RemovesANewFileThatItCannotOpen) {
  CreateHow how;
  how.mode = CreateMode::kGuarded;
  Make(root_, "before");  // opens the directory and its descriptor for syncs
  EXPECT_TRUE(Remove(root_, "before").result);
  {
    const NoFreeDescriptors none(1);  // one descriptor is left to create the file with
    EXPECT_FALSE(Await(fs().Create(caller_, root_, "file", how)).result);
  }
  EXPECT_FALSE(std::filesystem::exists(PathOf("file")));
}

INSTANTIATE_TEST_SUITE_P(Posix, SyncedMetadataTest, testing::Values(OnDisk("Disk", HandleMethod::kBest)),
                         suite::NameOf);

INSTANTIATE_TEST_SUITE_P(Posix, FailingDiskTest,
                         testing::Values(OnDisk("Disk", HandleMethod::kBest),
                                         OnDisk("DiskWithTable", HandleMethod::kTable)),
                         suite::NameOf);

}  // namespace
}  // namespace penstock::fs::posix
