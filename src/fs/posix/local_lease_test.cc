// Tests of leases on served files. This process acts as the other program too: it opens the files for writing without
// waiting.
#include "fs/posix/local_lease.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "fs/posix/test_backend.h"

namespace penstock::fs::posix {
namespace {

std::atomic<int> broken_leases = 0;  // the number of signals received

Options WithLeases(size_t max_descriptors = 1000) {
  Options options = With(HandleMethod::kBest);
  options.leases = true;
  options.objects = std::make_shared<OpenObjects>(max_descriptors);
  return options;
}

class LocalLeaseTest : public testing::TestWithParam<const char*> {
 protected:
  LocalLeaseTest() {
    broken_leases = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { ++broken_leases; };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGIO, &action, &before_);
    MakeFile("file");
  }
  ~LocalLeaseTest() override {
    backend_.reset();
    ::sigaction(SIGIO, &before_, nullptr);
  }

  std::string PathOf(const std::string& name) const { return backend_->scratch().exported() / name; }
  void MakeFile(const std::string& name) const { std::ofstream(PathOf(name)) << "text"; }
  void Replace(const Options& options) {
    backend_ = std::make_unique<PosixBackend>(GetParam(), options);
    MakeFile("file");
  }

  template <class T>
  T Await(Task<T> task) {
    return backend_->Await(std::move(task));
  }
  fs::FileSystem& fs() { return backend_->fs(); }
  RequestContext Root() { return {{0, 0, {}}, backend_->loop()}; }
  Handle HandleOf(const std::string& name = "file") {
    const RequestContext context = Root();
    return Await(fs().Lookup(context, fs().Root(), name)).result->handle;
  }
  LeaseReply OpenLease(const std::string& name = "file") {
    const RequestContext context = Root();
    const Handle handle = HandleOf(name);
    return Await(fs().OpenLease(context, handle));
  }
  Result<WriteReply> Write(const Handle& file) {
    const RequestContext context = Root();
    const Data data(Slice::Borrowed(AsBytes(std::string_view("more"))));
    return Await(fs().Write(context, file, 0, data, Stability::kUnstable)).result;
  }
  Result<WriteVerifier> Commit(const Handle& file) {
    const RequestContext context = Root();
    return Await(fs().Commit(context, file)).result;
  }

  // Opens the file for writing as a local program that does not wait. Returns the errno, or zero.
  int ErrorOfOpen(const std::string& name = "file") const {
    const FileDescriptor opened(::open(PathOf(name).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    return opened ? 0 : errno;
  }

  static void AwaitSignal() {
    while (broken_leases == 0) std::this_thread::yield();
  }

  std::unique_ptr<PosixBackend> backend_ = std::make_unique<PosixBackend>(GetParam(), WithLeases());

 private:
  struct sigaction before_{};
};

TEST_P(LocalLeaseTest, OpenForWritingBreaksTheLeaseAndSucceedsAfterItsRelease) {
  LeaseReply held = OpenLease();
  ASSERT_TRUE(held.lease);
  EXPECT_FALSE(held.lease->IsBroken());
  FileDescriptor opened(-1);
  std::thread program([&] { opened = FileDescriptor(::open(PathOf("file").c_str(), O_WRONLY | O_CLOEXEC)); });
  while (!held.lease->IsBroken()) std::this_thread::yield();
  EXPECT_FALSE(OpenLease().lease) << "the program has precedence";
  held.lease = nullptr;
  program.join();
  EXPECT_TRUE(opened);
  AwaitSignal();
}

TEST_P(LocalLeaseTest, TruncationBreaksTheLease) {
  LeaseReply held = OpenLease();
  std::thread program([&] { EXPECT_EQ(::truncate(PathOf("file").c_str(), 0), 0); });
  while (!held.lease->IsBroken()) std::this_thread::yield();
  held.lease = nullptr;
  program.join();
}

TEST_P(LocalLeaseTest, OpenThatDoesNotWaitBreaksTheLease) {
  const LeaseReply held = OpenLease();
  EXPECT_EQ(ErrorOfOpen(), EWOULDBLOCK);
  EXPECT_TRUE(held.lease->IsBroken());
  AwaitSignal();
}

TEST_P(LocalLeaseTest, AllowsReadersAndSeveralHolders) {
  const LeaseReply one = OpenLease();
  const LeaseReply another = OpenLease();
  const FileDescriptor reader(::open(PathOf("file").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(reader);
  EXPECT_FALSE(one.lease->IsBroken() || another.lease->IsBroken());
}

TEST_P(LocalLeaseTest, ServerGetsNoLeaseWhileAProgramHasTheFileOpenForWriting) {
  const FileDescriptor writer(::open(PathOf("file").c_str(), O_WRONLY | O_CLOEXEC));
  const LeaseReply reply = OpenLease();
  EXPECT_FALSE(reply.lease);
  EXPECT_TRUE(reply.contended);
}

// The server keeps a file open for writing after a WRITE.
TEST_P(LocalLeaseTest, ServerGetsALeaseAfterItsOwnWrite) {
  const Handle file = HandleOf();
  ASSERT_TRUE(Write(file));
  EXPECT_TRUE(OpenLease().lease);
}

TEST_P(LocalLeaseTest, DelaysWritesByTheServerUntilItsRelease) {
  const Handle file = HandleOf();
  LeaseReply held = OpenLease();
  EXPECT_EQ(Write(file), std::unexpected(Error::kDelay));
  EXPECT_TRUE(held.lease->IsBroken());
  held.lease = nullptr;
  EXPECT_TRUE(Write(file));
}

TEST_P(LocalLeaseTest, CommitsAndLocksOfTheServerDoNotBreakTheLease) {
  const Handle file = HandleOf();
  const LeaseReply held = OpenLease();
  EXPECT_TRUE(Commit(file));
  const RequestContext context = Root();
  const auto locks = Await(fs().OpenLocks(context, file, false));
  ASSERT_TRUE(locks && *locks);
  EXPECT_FALSE((*locks)->Lock(0, 9, false));
  EXPECT_FALSE(held.lease->IsBroken());
  EXPECT_EQ(broken_leases, 0);
}

TEST_P(LocalLeaseTest, LocksThroughAnotherExportOrAReopenedFileDoNotBreakTheLease) {
  const RequestContext context = Root();
  const LeaseReply held = OpenLease();
  ASSERT_TRUE(held.lease);
  Workers pool(1);
  Options options = WithLeases();
  options.export_name = "/another";
  options.state_directory = backend_->scratch().state();
  auto another = FileSystem::Open(backend_->scratch().exported(), pool, options);
  ASSERT_TRUE(another) << another.error().message;
  const Handle there = Await((*another)->Lookup(context, (*another)->Root(), "file")).result->handle;
  {
    const auto locks = Await((*another)->OpenLocks(context, there, false));
    ASSERT_TRUE(locks && *locks);
    EXPECT_FALSE((*locks)->Lock(0, 9, false));
  }
  backend_->options().objects->GiveUp(1000);
  const auto locks = Await(fs().OpenLocks(context, HandleOf(), false));
  ASSERT_TRUE(locks && *locks);
  EXPECT_FALSE(held.lease->IsBroken());
  EXPECT_EQ(broken_leases, 0);
}

TEST_P(LocalLeaseTest, DelaysExclusiveLocksUntilItsRelease) {
  const RequestContext context = Root();
  const Handle file = HandleOf();
  LeaseReply held = OpenLease();
  EXPECT_EQ(Await(fs().OpenLocks(context, file, true)), std::unexpected(Error::kDelay));
  EXPECT_TRUE(held.lease->IsBroken());
  held.lease = nullptr;
  const auto locks = Await(fs().OpenLocks(context, file, true));
  ASSERT_TRUE(locks && *locks);
  EXPECT_TRUE((*locks)->CanExclude());
}

// Enough descriptors are left, so none is closed for the call.
TEST_P(LocalLeaseTest, LocksRefusedForALeaseCloseNoOpenObjects) {
  const RequestContext context = Root();
  for (const char* name : {"1", "2", "3"}) {
    MakeFile(name);
    HandleOf(name);
  }
  const Handle file = HandleOf();
  const LeaseReply held = OpenLease();
  const size_t open = backend_->posix_fs().open_objects();
  EXPECT_EQ(Await(fs().OpenLocks(context, file, true)), std::unexpected(Error::kDelay));
  EXPECT_EQ(backend_->posix_fs().open_objects(), open);
}

TEST_P(LocalLeaseTest, LeasesUseAtMostAnEighthOfTheDescriptors) {
  Replace(WithLeases(16));  // leases may use an eighth of these
  MakeFile("second");
  MakeFile("third");
  const LeaseReply first = OpenLease();
  LeaseReply second = OpenLease("second");
  EXPECT_TRUE(first.lease && second.lease);
  const LeaseReply none = OpenLease("third");
  EXPECT_FALSE(none.lease || none.contended);
  EXPECT_EQ(ErrorOfOpen("third"), 0);
  second.lease = nullptr;
  // The pool closes the file of the second lease.
  while (!OpenLease("third").lease) std::this_thread::yield();
}

TEST_P(LocalLeaseTest, ServerTakesNoLeaseWithoutTheOption) {
  Replace(With(HandleMethod::kBest));
  const LeaseReply none = OpenLease();
  EXPECT_FALSE(none.lease || none.contended);
  EXPECT_EQ(ErrorOfOpen(), 0);
}

INSTANTIATE_TEST_SUITE_P(Posix, LocalLeaseTest, testing::Values(kDisk, kMemory),
                         [](const auto& place) { return std::string(place.param == kDisk ? "Disk" : "Memory"); });

}  // namespace
}  // namespace penstock::fs::posix
