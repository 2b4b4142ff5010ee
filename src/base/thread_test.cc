#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <latch>

#include "base/data.h"
#include "base/loop.h"

namespace penstock {
namespace {

// Handles a signal by counting, as long as it lives.
class CountsSignal {
 public:
  explicit CountsSignal(int signal) : signal_(signal) {
    count = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { ++count; };
    ::sigaction(signal_, &action, &before_);
  }
  ~CountsSignal() { ::sigaction(signal_, &before_, nullptr); }

  static inline std::atomic<int> count = 0;

 private:
  const int signal_;
  struct sigaction before_{};
};

bool IsBlockedHere(int signal) {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

// A socket whose peer has closed.
FileDescriptor ClosedByPeer() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  ::close(ends[1]);
  return FileDescriptor(ends[0]);
}

TEST(ThreadTest, HasItsName) {
  std::array<char, 16> name{};
  StartThread("penstock-test", [&] { ::pthread_getname_np(::pthread_self(), name.data(), name.size()); }).join();
  EXPECT_STREQ(name.data(), "penstock-test");
}

TEST(ThreadTest, TakesNoSignalOfTheProcess) {
  const CountsSignal counts(SIGUSR1);
  const bool blocked_before = IsBlockedHere(SIGUSR1);
  std::latch started(1), may_end(1);
  std::thread thread = StartThread("penstock-test", [&] {
    ::pthread_kill(::pthread_self(), SIGUSR1);
    started.count_down();
    may_end.wait();
  });
  started.wait();
  EXPECT_EQ(CountsSignal::count, 0);
  may_end.count_down();
  thread.join();
  EXPECT_EQ(IsBlockedHere(SIGUSR1), blocked_before) << "the thread that starts others keeps its mask";
}

TEST(ThreadTest, LeavesFaultsToTheHandlersOfTheProcess) {
  bool blocks_faults = true, blocks_others = false;
  StartThread("penstock-test", [&] {
    blocks_faults = IsBlockedHere(SIGSEGV) || IsBlockedHere(SIGBUS) || IsBlockedHere(SIGABRT);
    blocks_others = IsBlockedHere(SIGTERM) && IsBlockedHere(SIGIO) && IsBlockedHere(SIGALRM);
  }).join();
  EXPECT_FALSE(blocks_faults);
  EXPECT_TRUE(blocks_others);
}

TEST(ThreadTest, LogsWhereItsStarterLogs) {
  std::string text;
  const auto logger =
      std::make_shared<log::Logger>([&](const log::Record& record) { text += record.message; }, log::Level::kInfo);
  std::thread thread;
  {
    const log::ThreadLoggerScope scope(logger);
    thread = StartThread("penstock-test", [] { log::info("hello"); });
  }
  thread.join();
  log::error("not there");
  EXPECT_EQ(text, "hello");
}

TEST(ThreadTest, WriteToAClosedConnectionOnALoopRaisesNoSignal) {
  const CountsSignal counts(SIGPIPE);
  Loop loop;
  int error = 0;
  loop.Post([&] {
    const FileDescriptor socket = ClosedByPeer();
    if (::write(socket.get(), "x", 1) < 0) error = errno;
    loop.Finish();
  });
  loop.Run();
  EXPECT_EQ(error, EPIPE);
  EXPECT_EQ(CountsSignal::count, 0);
  EXPECT_FALSE(IsBlockedHere(SIGPIPE));
  // The process's own handler works as before.
  const FileDescriptor socket = ClosedByPeer();
  EXPECT_LT(::write(socket.get(), "x", 1), 0);
  EXPECT_EQ(CountsSignal::count, 1);
}

TEST(ThreadTest, WriteBeyondTheLargestSizeOfAFileFailsWithoutASignal) {
  const CountsSignal counts(SIGXFSZ);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  char name[] = "/var/tmp/penstock-thread-test-XXXXXX";
  const FileDescriptor file(::mkstemp(name));
  ::unlink(name);
  const rlimit small{.rlim_cur = 4, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  int error = 0;
  StartThread("penstock-test", [&] {
    if (::pwrite(file.get(), "x", 1, 4) < 0) error = errno;
  }).join();
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error, EFBIG);
  EXPECT_EQ(CountsSignal::count, 0);
}

}  // namespace
}  // namespace penstock
