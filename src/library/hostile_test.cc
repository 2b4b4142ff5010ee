// What a hostile or unlucky server, and an unusual host, do to the C API.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "library/library_test_support.h"
#include "penstock/penstock.h"

namespace penstock::library {
namespace {

using fs::faulty::Operation;
using testing::HasSubstr;

constexpr std::array kHostileUses{Use{"Driven3", 0, "vers=3"}, Use{"Driven41", 0, "vers=4.1"},
                                  Use{"Threads3", 1, "vers=3"}, Use{"Threads40", 2, "vers=4.0"},
                                  Use{"Threads42Rdma", 1, "vers=4.2&proto=rdma"}};

class HostileTest : public LibraryTest {
 protected:
  void Hang(Operation operation) { server.files().Add({.operation = operation, .effect = fs::faulty::Hang()}); }
  // Waits until an operation hangs at the server. Dispatches if the host drives the runtime.
  void WaitUntilOneHangs() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (server.files().waiting() == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "nothing has come to the server";
      if (penstock_runtime_fd(runtime) >= 0) penstock_runtime_dispatch(runtime, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  bool has_locks() const { return std::string_view(GetParam().options).find("vers=3") == std::string_view::npos; }
};
INSTANTIATE_TEST_SUITE_P(Uses, HostileTest, testing::ValuesIn(kHostileUses), NameOf);

struct Canceller {
  Canceller() { EXPECT_EQ(penstock_cancellation_new(&cancellation), 0); }
  ~Canceller() { penstock_cancellation_free(cancellation); }
  penstock_cancellation* cancellation = nullptr;
};

// ---- abandoned operations ----

TEST_P(HostileTest, AllOperationsGoOnThatWaitedForAbandonedOnes) {
  Write("file", "contents");
  penstock_file* const file = Open("file", O_RDONLY);
  Hang(Operation::kRead);
  constexpr size_t kCount = 600;  // more than may be abandoned at the same time
  std::vector<char> buffer(kCount);
  Canceller first, second;
  std::vector<Done> abandoned(kCount), waiting(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const penstock_call call = abandoned[i].Call(-1, first.cancellation);
    ASSERT_EQ(penstock_pread(file, &buffer[i], 1, 0, &call), 0);
  }
  penstock_cancel(first.cancellation);
  for (Done& each : abandoned) ASSERT_EQ(Wait(each), -ECANCELED);
  for (size_t i = 0; i < kCount; ++i) {
    const penstock_call call = waiting[i].Call(-1, second.cancellation);
    ASSERT_EQ(penstock_pread(file, &buffer[i], 1, 0, &call), 0);
  }
  server.Release();
  for (Done& each : waiting) ASSERT_EQ(Wait(each), 1) << each.error();
  EXPECT_EQ(std::string(buffer.begin(), buffer.end()), std::string(kCount, 'c'));
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(HostileTest, AnAbandonedFsyncHidesNoLoss) {
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  EXPECT_EQ(penstock_pwrite(file, "data", 4, 0, nullptr), 4);
  server.files().LoseUncommitted();
  Hang(Operation::kCommit);
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 50;
  EXPECT_EQ(penstock_fsync(file, &call), -ETIMEDOUT);
  server.Release();
  EXPECT_EQ(penstock_fsync(file, nullptr), -EIO) << "nobody was told yet";
  EXPECT_THAT(penstock_error_text(), HasSubstr("file: the server has restarted"));
  EXPECT_EQ(penstock_fsync(file, nullptr), 0);
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(HostileTest, ALossIsToldAtCloseAndInStableWritesMended) {
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  EXPECT_EQ(penstock_pwrite(file, "data", 4, 0, nullptr), 4);
  server.files().LoseUncommitted();
  EXPECT_EQ(penstock_pwrite(file, "more", 4, 4, nullptr), 4);
  EXPECT_EQ(penstock_close(file, nullptr), -EIO);
  penstock_file* const stable = Open("file", O_RDWR | O_SYNC);
  server.files().Add({.operation = Operation::kWrite, .effect = fs::faulty::Short(1)});
  EXPECT_EQ(penstock_pwrite(stable, "stable", 6, 0, nullptr), 6);
  server.Release();
  std::array<char, 6> read{};
  EXPECT_EQ(penstock_pread(stable, read.data(), 6, 0, nullptr), 6);
  EXPECT_EQ(std::string(read.data(), 6), "stable");
  EXPECT_EQ(penstock_close(stable, nullptr), 0);
}

// ---- closing ----

struct Closing {
  penstock_mount* mount;
  penstock_file* file;
  std::atomic<int> started = 1;
  Done closed{};
};

TEST_P(HostileTest, AFileWhoseCloseWasCancelledBeforeKeepsNoMount) {
  Canceller canceller;
  penstock_cancel(canceller.cancellation);
  Closing closing{.mount = mount, .file = Open("file", O_RDWR | O_CREAT)};
  EXPECT_EQ(penstock_pwrite(closing.file, "data", 4, 0, nullptr), 4);
  penstock_call call = PENSTOCK_CALL_INIT;
  call.cancellation = canceller.cancellation;
  call.context = &closing;
  call.done = [](void* context, int64_t result, const char* error) {
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_STREQ(error, "cancelled");
    auto& self = *static_cast<Closing*>(context);
    const penstock_call close = self.closed.Call();
    self.started = penstock_mount_close(self.mount, &close);
  };
  EXPECT_EQ(penstock_close(closing.file, &call), 0);
  while (closing.started == 1) {
    if (GetParam().threads == 0) penstock_runtime_dispatch(runtime, 1);
    std::this_thread::yield();
  }
  ASSERT_EQ(closing.started, 0);
  EXPECT_EQ(Wait(closing.closed), 0) << closing.closed.error();
  OpenMount();
  EXPECT_EQ(Read("file"), "data") << "the file was closed nevertheless";
}

TEST_P(HostileTest, ADoneFunctionClosesFreesAndCancels) {
  Write("file", "contents");
  Hang(Operation::kRead);
  struct Everything {
    penstock_file* file;
    penstock_cancellation* cancellation = nullptr;
    std::array<char, 2> buffer{};
    Done other{}, closed{};
    std::atomic<int> close = 1;
  } all{.file = Open("file", O_RDONLY)};
  ASSERT_EQ(penstock_cancellation_new(&all.cancellation), 0);
  penstock_call call = PENSTOCK_CALL_INIT;
  call.context = &all;
  call.timeout_ms = 30;
  call.cancellation = all.cancellation;
  call.done = [](void* context, int64_t result, const char*) {
    auto& self = *static_cast<Everything*>(context);
    EXPECT_EQ(result, -ETIMEDOUT);
    penstock_cancel(self.cancellation);
    penstock_cancellation_free(self.cancellation);
    const penstock_call close = self.closed.Call();
    self.close = penstock_close(self.file, &close);
  };
  const penstock_call forever = all.other.Call(-1, all.cancellation);
  EXPECT_EQ(penstock_pread(all.file, &all.buffer[0], 1, 0, &forever), 0);
  EXPECT_EQ(penstock_pread(all.file, &all.buffer[1], 1, 0, &call), 0);
  EXPECT_EQ(Wait(all.other), -ECANCELED);
  EXPECT_EQ(all.close, -EBUSY) << "the other operation has not ended";
  server.Release();
  EXPECT_EQ(penstock_close(all.file, nullptr), 0);
}

// ---- locks ----

TEST_P(HostileTest, ACancelledWaitForALockEnds) {
  if (!has_locks()) return;
  Write("file", "contents");
  penstock_file* const one = Open("file", O_RDWR);
  penstock_file* const two = Open("file", O_RDWR);
  penstock_lock_request request = PENSTOCK_LOCK_REQUEST_INIT;
  EXPECT_EQ(penstock_lock(one, &request, nullptr), 0);
  request.wait_ms = -1;
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 50;
  EXPECT_EQ(penstock_lock(two, &request, &call), -ETIMEDOUT);
  call.timeout_ms = 20'000;
  EXPECT_EQ(penstock_close(two, &call), 0) << "nothing waits any more";
  EXPECT_EQ(penstock_close(one, nullptr), 0);
}

TEST_P(HostileTest, AnAbandonedLockGivesBackNoOther) {
  if (!has_locks()) return;
  Write("file", "contents");
  penstock_file* const one = Open("file", O_RDWR);
  penstock_file* const two = Open("file", O_RDWR);
  penstock_lock_request request = PENSTOCK_LOCK_REQUEST_INIT;
  EXPECT_EQ(penstock_lock(one, &request, nullptr), 0);
  request.wait_ms = -1;
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 50;
  EXPECT_EQ(penstock_lock(two, &request, &call), -ETIMEDOUT);
  Done locked;
  const penstock_call wait = locked.Call();
  EXPECT_EQ(penstock_lock(two, &request, &wait), 0);
  EXPECT_EQ(penstock_unlock(one, &request, nullptr), 0);
  EXPECT_EQ(Wait(locked), 0) << locked.error();
  for (int i = 0; i < 15; ++i) {
    ASSERT_EQ(penstock_test_lock(one, &request, nullptr, nullptr), 1) << "the lock is lost";
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(penstock_close(one, nullptr), 0);
  EXPECT_EQ(penstock_close(two, nullptr), 0);
}

TEST_P(HostileTest, ALockThatIsGrantedAfterItsEndGivesBackNoOther) {
  if (!has_locks()) return;
  Write("file", "contents");
  penstock_file* const one = Open("file", O_RDWR);
  penstock_file* const two = Open("file", O_RDWR);
  Hang(Operation::kOpenLocks);
  penstock_lock_request request = PENSTOCK_LOCK_REQUEST_INIT;
  const Canceller canceller;
  Done ended;
  const penstock_call call = ended.Call(-1, canceller.cancellation);
  EXPECT_EQ(penstock_lock(two, &request, &call), 0);
  WaitUntilOneHangs();
  penstock_cancel(canceller.cancellation);
  EXPECT_EQ(Wait(ended), -ECANCELED);
  Done locked;
  const penstock_call again = locked.Call();
  EXPECT_EQ(penstock_lock(two, &request, &again), 0);
  server.Release();
  EXPECT_EQ(Wait(locked), 0) << locked.error();
  EXPECT_EQ(penstock_ping(mount, nullptr), 0);
  EXPECT_EQ(penstock_lock(one, &request, nullptr), -EAGAIN) << "the lock is lost";
  EXPECT_EQ(penstock_unlock(two, &request, nullptr), 0);
  EXPECT_EQ(penstock_lock(one, &request, nullptr), 0);
  EXPECT_EQ(penstock_close(one, nullptr), 0);
  EXPECT_EQ(penstock_close(two, nullptr), 0);
}

// ---- data ----

TEST_P(HostileTest, AFileThatCannotFitIsAnError) {
  // One file for each size: the client may know the attributes of a file that it has read before.
  for (const char* path : {"a", "b", "c", "shorter", "longer"}) Write(path, "contents");
  const std::map<const char*, uint64_t> sizes{{"a", UINT64_MAX}, {"b", UINT64_MAX - 1}, {"c", uint64_t{1} << 63}};
  for (const auto& [path, size] : sizes) {
    server.files().Claim(size);
    void* data = nullptr;
    size_t read = 0;
    EXPECT_EQ(penstock_read_file(mount, path, &data, &read, nullptr), -EFBIG) << size;
    EXPECT_THAT(penstock_error_text(), HasSubstr("do not fit in memory"));
    EXPECT_EQ(data, nullptr);
  }
  server.files().Claim(3);
  EXPECT_EQ(Read("longer"), "contents");
  server.files().Claim(100'000);
  EXPECT_EQ(Read("shorter"), "contents");
}

TEST_P(HostileTest, NoOctetsNeedNoMemory) {
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  EXPECT_EQ(penstock_pread(file, nullptr, 0, 0, nullptr), 0) << penstock_error_text();
  EXPECT_EQ(penstock_pwrite(file, nullptr, 0, 0, nullptr), 0) << penstock_error_text();
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 60'000;
  EXPECT_EQ(penstock_pread(file, nullptr, 0, UINT64_MAX, &call), 0) << penstock_error_text();
  EXPECT_EQ(penstock_pwrite(file, nullptr, 0, UINT64_MAX, &call), 0) << penstock_error_text();
  EXPECT_EQ(penstock_pread(file, nullptr, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(penstock_pwrite(file, nullptr, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(penstock_write_file(mount, "file", nullptr, 0, 0644, &call), 0);
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(HostileTest, OffsetsNearTheLimit) {
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  char octet = 'x';
  EXPECT_EQ(penstock_pread(file, &octet, 1, INT64_MAX, nullptr), -EINVAL);
  EXPECT_EQ(penstock_pread(file, &octet, 1, INT64_MAX - 1, nullptr), 0) << penstock_error_text();
  EXPECT_EQ(penstock_pread(file, &octet, SIZE_MAX, 0, nullptr), -EINVAL);
  EXPECT_EQ(penstock_pwrite(file, &octet, 1, INT64_MAX - 1, nullptr), 1) << penstock_error_text();
  EXPECT_EQ(penstock_pread(file, &octet, 1, INT64_MAX - 1, nullptr), 1) << penstock_error_text();
  EXPECT_LT(penstock_ftruncate(file, UINT64_MAX, nullptr), 0);
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(HostileTest, AFullDiskInTheMiddleIsAnError) {
  const std::string contents(4'000'000, 'c');
  server.files().Add({.operation = Operation::kWrite,
                      .when = fs::faulty::Nth(3),
                      .effect = fs::faulty::FailWith(fs::Error::kNoSpace)});
  EXPECT_EQ(penstock_write_file(mount, "file", contents.data(), contents.size(), 0644, nullptr), -ENOSPC);
  EXPECT_THAT(penstock_error_text(), HasSubstr("file: no space left"));
  server.Release();
  server.files().Add({.operation = Operation::kCommit, .effect = fs::faulty::FailWith(fs::Error::kIo)});
  EXPECT_EQ(penstock_write_file(mount, "file", contents.data(), contents.size(), 0644, nullptr), -EIO);
  server.Release();
  Write("file", contents);
  EXPECT_EQ(Read("file"), contents);
}

TEST_P(HostileTest, OpenFilesOutliveTheServer) {
  Write("other", "other");
  penstock_file* const file = Open("file", O_RDWR | O_CREAT);
  EXPECT_EQ(penstock_pwrite(file, "before", 6, 0, nullptr), 6);
  server.Restart();
  server.files().LoseUncommitted();
  EXPECT_EQ(penstock_fsync(file, nullptr), -EIO) << penstock_error_text();
  EXPECT_EQ(penstock_pwrite(file, "behind", 6, 0, nullptr), 6) << penstock_error_text();
  EXPECT_EQ(penstock_fsync(file, nullptr), 0) << penstock_error_text();
  server.Stop();
  Done read, stat;
  std::array<char, 6> buffer{};
  const penstock_call reading = read.Call(), asking = stat.Call();
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  EXPECT_EQ(penstock_pread(file, buffer.data(), buffer.size(), 0, &reading), 0);
  EXPECT_EQ(penstock_stat(mount, "other", 0, &attributes, &asking), 0);
  server.Start();
  EXPECT_EQ(Wait(read), 6) << read.error();
  EXPECT_EQ(std::string(buffer.data(), 6), "behind");
  EXPECT_EQ(Wait(stat), 0) << stat.error();
  EXPECT_EQ(attributes.length, 5u);
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

// ---- names ----

TEST_P(HostileTest, ListsManyLongNames) {
  ASSERT_EQ(penstock_mkdir(mount, "directory", 0755, nullptr), 0);
  constexpr int kCount = 300;
  std::vector<Done> done(kCount);
  const std::string filler(240, '\xfc');
  for (int i = 0; i < kCount; ++i) {
    const std::string path = "directory/" + std::to_string(i) + (has_locks() ? std::string(240, 'n') : filler);
    const penstock_call call = done[i].Call();
    ASSERT_EQ(penstock_symlink(mount, "target", path.c_str(), &call), 0);
  }
  for (Done& each : done) ASSERT_EQ(Wait(each), 0) << each.error();
  penstock_listing* listing = nullptr;
  EXPECT_EQ(penstock_list(mount, "directory/", &listing, nullptr), kCount);
  std::map<std::string, int> names;
  penstock_entry entry = PENSTOCK_ENTRY_INIT;
  while (penstock_listing_next(listing, &entry) == 1) ++names[entry.name];
  EXPECT_EQ(names.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(penstock_listing_next(listing, &entry), 0);
  penstock_listing_free(listing);
}

TEST_P(HostileTest, ErrorsNameThePathOnce) {
  ASSERT_EQ(penstock_mkdir(mount, "directory", 0755, nullptr), 0);
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  for (const char* path : {"missing", "/missing", "//missing"}) {
    EXPECT_EQ(penstock_stat(mount, path, 0, &attributes, nullptr), -ENOENT);
    EXPECT_STREQ(penstock_error_text(), "/missing: no such file or directory");
  }
  penstock_file* file = nullptr;
  EXPECT_EQ(penstock_open(mount, "/", O_RDONLY, 0, &file, nullptr), -EISDIR);
  EXPECT_STREQ(penstock_error_text(), "/: is a directory");
  CloseMount();
  OpenMount("/directory");
  EXPECT_EQ(penstock_stat(mount, "/missing", 0, &attributes, nullptr), -ENOENT);
  EXPECT_STREQ(penstock_error_text(), "directory/missing: no such file or directory");
}

// ---- hosts ----

TEST_P(HostileTest, ManyOperationsAtOnce) {
  constexpr size_t kCount = 2000;
  std::vector<Done> done(kCount);
  for (Done& each : done) {
    const penstock_call call = each.Call();
    ASSERT_EQ(penstock_ping(mount, &call), 0);
  }
  for (Done& each : done) ASSERT_EQ(Wait(each), 0) << each.error();
}

TEST_P(HostileTest, OneThreadAfterAnother) {
  Write("file", std::string(3'000'000, 'c'));
  for (int i = 0; i < 3; ++i) {
    std::thread([&] {
      penstock_file* const file = Open("file", O_RDWR);
      penstock_call call = PENSTOCK_CALL_INIT;
      call.timeout_ms = 60'000;
      std::string read(3'000'000, '\0');
      EXPECT_EQ(penstock_pread(file, read.data(), read.size(), 0, &call), 3'000'000);
      EXPECT_EQ(read, std::string(3'000'000, 'c'));
      EXPECT_EQ(penstock_close(file, &call), 0);
    }).join();
  }
}

TEST_P(HostileTest, ACancelFromAnotherThreadEndsAPoll) {
  if (GetParam().threads != 0) return;
  Write("file", "contents");
  penstock_file* const file = Open("file", O_RDONLY);
  Hang(Operation::kRead);
  for (int i = 0; i < 100; ++i) {
    Canceller canceller;
    Done done;
    char octet = 0;
    const penstock_call call = done.Call(-1, canceller.cancellation);
    ASSERT_EQ(penstock_pread(file, &octet, 1, 0, &call), 0);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * 50));
      penstock_cancel(canceller.cancellation);
    });
    while (!done.is_done()) {
      pollfd one{.fd = penstock_runtime_fd(runtime), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&one, 1, 20'000), 1) << "nobody wakes the host";
      ASSERT_GE(penstock_runtime_dispatch(runtime, 0), 0);
    }
    other.join();
    ASSERT_EQ(Wait(done), -ECANCELED);
  }
  server.Release();
  EXPECT_EQ(penstock_close(file, nullptr), 0);
}

TEST_P(HostileTest, ADownloadIntoAFullPipeEnds) {
  Write("file", std::string(3'000'000, 'c'));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  penstock_call call = PENSTOCK_CALL_INIT;
  call.timeout_ms = 200;
  EXPECT_EQ(penstock_download(mount, "file", ends[1], nullptr, nullptr, &call), -ETIMEDOUT);
  ::close(ends[1]);
  ::close(ends[0]);
}

}  // namespace
}  // namespace penstock::library
