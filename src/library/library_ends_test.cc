// How operations, mounts and processes end that use the C API.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "library/library_test_support.h"
#include "penstock/penstock.h"

namespace penstock::library {
namespace {

using testing::HasSubstr;

// ---- ends ----

TEST_P(LibraryTest, AnOperationEndsWhenItsTimeIsOver) {
  Write("file", "contents");
  penstock_file* const file = Open("file", O_RDONLY);
  server.files().Add({.operation = fs::faulty::Operation::kRead, .effect = fs::faulty::Hang()});
  std::array<char, 8> buffer{'u', 'n', 't', 'o', 'u', 'c', 'h', 0};
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 50;
  EXPECT_EQ(penstock_pread(file, buffer.data(), buffer.size(), 0, &call), -ETIMEDOUT);
  EXPECT_STREQ(penstock_error_text(), "the time limit of the operation is over");
  Done done;
  const penstock_call later = done.Call(0);
  EXPECT_EQ(penstock_pread(file, buffer.data(), buffer.size(), 0, &later), 0);
  EXPECT_EQ(Wait(done), -ETIMEDOUT);
  // The mount goes on meanwhile.
  EXPECT_EQ(penstock_ping(mount, nullptr), 0);
  server.Release();
  EXPECT_EQ(penstock_close(file, nullptr), 0);
  EXPECT_STREQ(buffer.data(), "untouch") << "the replies came after the operations had ended";
}

TEST_P(LibraryTest, OneCancellationEndsManyOperations) {
  Write("file", "contents");
  penstock_file* const file = Open("file", O_RDONLY);
  server.files().Add({.operation = fs::faulty::Operation::kRead, .effect = fs::faulty::Hang()});
  penstock_cancellation* cancellation = nullptr;
  ASSERT_EQ(penstock_cancellation_new(&cancellation), 0);
  constexpr size_t kCount = 600;  // more than may be abandoned at the same time
  std::vector<Done> done(kCount);
  std::vector<char> buffer(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const penstock_call call = done[i].Call(-1, cancellation);
    ASSERT_EQ(penstock_pread(file, &buffer[i], 1, 0, &call), 0);
  }
  std::thread canceller([&] { penstock_cancel(cancellation); });
  for (Done& each : done) EXPECT_EQ(Wait(each), -ECANCELED);
  canceller.join();
  Done after;
  const penstock_call call = after.Call(-1, cancellation);
  EXPECT_EQ(penstock_pread(file, buffer.data(), 1, 0, &call), 0);
  EXPECT_EQ(Wait(after), -ECANCELED) << "it was cancelled before";
  penstock_cancellation_free(cancellation);
  // Further operations that can be abandoned wait for the others, and end in time.
  penstock_call limited = PENSTOCK_CALL_INIT;
  limited.timeout_ms = 20;
  EXPECT_EQ(penstock_pread(file, buffer.data(), 1, 0, &limited), -ETIMEDOUT);
  server.Release();
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(LibraryTest, AnAbandonedOpenLeavesNoFile) {
  Write("file", "contents");
  server.files().Add({.operation = fs::faulty::Operation::kLookup, .effect = fs::faulty::Hang()});
  penstock_file* file = nullptr;
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 20;
  EXPECT_EQ(penstock_open(mount, "file", O_RDWR, 0, &file, &call), -ETIMEDOUT);
  server.Release();
  CloseMount();
  EXPECT_EQ(file, nullptr);
  OpenMount();
}

TEST_P(LibraryTest, AMountClosesAlthoughTheServerIsGone) {
  Write("file", "contents");
  penstock_file* const file = Open("file", O_RDWR);
  server.Stop();
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 30;
  char octet = 0;
  EXPECT_EQ(penstock_pread(file, &octet, 1, 0, &call), -ETIMEDOUT);
  EXPECT_LT(penstock_close(file, &call), 0);
  EXPECT_LE(penstock_mount_close(mount, &call), 0);
  mount = nullptr;
}

TEST_P(LibraryTest, ACallThatIsUnderWayKeepsAMount) {
  Write("file", "contents");
  server.files().Add({.operation = fs::faulty::Operation::kGetAttributes, .effect = fs::faulty::Hang()});
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  Done done;
  const penstock_call call = done.Call();
  EXPECT_EQ(penstock_stat(mount, "", 0, &attributes, &call), 0);
  EXPECT_EQ(penstock_mount_close(mount, nullptr), -EBUSY);
  server.Release();
  EXPECT_EQ(Wait(done), 0);
}

struct Chain {
  penstock_mount* mount;
  penstock_runtime* runtime;
  std::atomic<int> left;
  std::atomic<int> blocking_result = 1;
  Done last{};
};
void NextLink(void* context, int64_t result, const char* error) {
  auto& chain = *static_cast<Chain*>(context);
  EXPECT_EQ(result, 0) << error;
  chain.blocking_result = penstock_ping(chain.mount, nullptr);
  EXPECT_EQ(penstock_runtime_free(chain.runtime), -EDEADLK);
  penstock_call call = chain.last.Call();
  if (--chain.left > 0) {
    call.done = &NextLink;
    call.context = context;
  }
  EXPECT_EQ(penstock_ping(chain.mount, &call), 0);
}

TEST_P(LibraryTest, ADoneFunctionStartsOperationsButDoesNotWait) {
  Chain chain{.mount = mount, .runtime = runtime, .left = 50};
  penstock_call call = PENSTOCK_CALL_INIT;
  call.done = &NextLink;
  call.context = &chain;
  EXPECT_EQ(penstock_ping(mount, &call), 0);
  EXPECT_EQ(Wait(chain.last), 0);
  EXPECT_EQ(chain.blocking_result, -EDEADLK);
}

TEST_P(LibraryTest, AChildOfForkGetsAnError) {
  Write("file", "contents");
  penstock_file* const file = Open("file", O_RDONLY);
  const pid_t child = ::fork();
  if (child == 0) {
    char octet = 0;
    const bool refused = penstock_ping(mount, nullptr) == -EPERM &&
                         penstock_pread(file, &octet, 1, 0, nullptr) == -EPERM &&
                         penstock_close(file, nullptr) == -EPERM && penstock_mount_close(mount, nullptr) == -EPERM &&
                         penstock_runtime_free(runtime) == -EPERM;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

// The descriptors of this process that a program which it executes would inherit.
std::set<std::string> Inherited() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC)) continue;
    std::error_code gone;
    found.insert(entry.path().filename().string() + " " + std::filesystem::read_symlink(entry.path(), gone).string());
  }
  return found;
}

TEST_P(LibraryTest, ProgramsThatTheHostExecutesInheritNothing) {
  CloseMount();
  const std::set<std::string> before = Inherited();
  OpenMount();
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  EXPECT_EQ(Inherited(), before);
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(LibraryTest, NullAndNonsenseAreErrors) {
  EXPECT_EQ(penstock_ping(nullptr, nullptr), -EINVAL);
  EXPECT_EQ(penstock_stat(mount, nullptr, 0, nullptr, nullptr), -EINVAL);
  EXPECT_EQ(penstock_pread(nullptr, nullptr, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(penstock_close(nullptr, nullptr), 0);
  EXPECT_EQ(penstock_mount_close(nullptr, nullptr), 0);
  EXPECT_EQ(penstock_runtime_free(nullptr), 0);
  penstock_cancel(nullptr);
  penstock_cancellation_free(nullptr);
  penstock_listing_free(nullptr);
  penstock_free(nullptr);
  penstock_call call{};
  EXPECT_EQ(penstock_ping(mount, &call), -EINVAL) << "the size is not set";
  struct {
    penstock_call known = PENSTOCK_CALL_INIT;
    uint64_t later = 0;
  } longer;
  longer.known.size = sizeof longer;
  EXPECT_EQ(penstock_ping(mount, &longer.known), 0);
  longer.later = 1;
  EXPECT_EQ(penstock_ping(mount, &longer.known), -E2BIG);
  penstock_mount* other = nullptr;
  EXPECT_EQ(penstock_mount_open(runtime, "http://host/", nullptr, &other, nullptr), -EINVAL);
  EXPECT_THAT(penstock_error_text(), HasSubstr("nfs://"));
  EXPECT_EQ(penstock_runtime_dispatch(runtime, 0), GetParam().threads == 0 ? 0 : -EINVAL);
}

}  // namespace
}  // namespace penstock::library
