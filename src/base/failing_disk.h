// A disk that fails on demand, for tests. It intercepts the program's calls of the C library's file functions.
//
// In a test program that links it, FailingDisk sets the rules. As a shared library for LD_PRELOAD, it reads the rules
// from the file that TEST_FAILING_DISK names, and reads them again whenever that file changes. It then writes the
// calls that make data stable, and the calls that hang, to the file that TEST_FAILING_DISK_LOG names. A rule is a
// line:
//
//   pread EIO /export/file            every pread of the file fails
//   sendfile EIO /export/file 1       the next sendfile fails
//   pwrite ENOSPC /export/file - 4096 octets before offset 4096 are written, later ones fail
//   fsync slow=500 /export/file       fsync takes half a second
//   pwrite hang /export/file          pwrite blocks until the rule is removed; then it succeeds
//   pwrite short=100 /export/file     pwrite moves at most 100 octets
//
// A call with RWF_NOWAIT fails with EAGAIN if a rule makes it slow or hang.
// The calls are pread, preadv (preadv2), pwrite, sendfile, fsync (fdatasync too), writeback (sync_file_range), copy
// (copy_file_range) and fallocate.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

enum class DiskCall : uint8_t { kRead, kReadVector, kWrite, kSendFile, kSync, kWriteBack, kCopy, kAllocate };

struct DiskFault {
  DiskCall call = DiskCall::kRead;
  std::string path;           // an existing file; the rule applies to all its names and descriptors
  int error = 0;              // fails with this errno, or
  size_t at_most = SIZE_MAX;  // moves at most this number of octets, or
  unsigned slow_ms = 0;       // takes this time, or
  bool hangs = false;         // blocks until Mend(), and then succeeds
  uint64_t from = 0;          // octets before this offset do not fail
  unsigned times = std::numeric_limits<unsigned>::max();
};

// Sets the faults of the test's own process. Thread-safe. The destructor ends every fault.
class FailingDisk {
 public:
  FailingDisk() = default;
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;
  ~FailingDisk() { Mend(); }

  void Fail(const DiskFault& fault);
  void Mend();
  // The number of calls that hang now.
  static size_t CountHanging();
  // The number of calls that made the file's data stable. A file that had the same inode number before is included.
  static size_t CountSyncs(const std::string& path);
  // Restarts the count of CountSyncs().
  static void ForgetSyncs();
  // The file-system uid of the thread that wrote to the file last.
  static std::optional<uid_t> LastWriter(const std::string& path);
  // Makes every file system report this number of free octets. nullopt ends that.
  static void set_free_space(std::optional<uint64_t> octets);
  // Rounds the times of files to multiples of `tick`, like a kernel with a coarse clock. Zero ends that.
  static void set_clock_tick(std::chrono::nanoseconds tick);
};

}  // namespace penstock
