// A disk that fails on demand, for tests: it stands between the program and the C library's calls on files.
//
// Linked into a test program, it is told by FailingDisk what is to fail. Built as a shared library for LD_PRELOAD, it reads the
// same rules from the file that PENSTOCK_FAILING_DISK names, again whenever that has changed, and writes the calls that
// make data stable, and those that hang, to the file that PENSTOCK_FAILING_DISK_LOG names. A rule is a line:
//
//   pread EIO /export/file            every pread of the file fails
//   sendfile EIO /export/file 1       the next sendfile does
//   pwrite ENOSPC /export/file - 4096 octets up to 4096 are written, then none
//   fsync slow=500 /export/file       takes half a second
//   pwrite hang /export/file          does not return while the rule is there; then it goes well
//   pwrite short=100 /export/file     moves at most 100 octets
//
// Calls that are not to wait (RWF_NOWAIT) fail with EAGAIN where others are slow or hang.
// The calls are pread, preadv (preadv2), pwrite, sendfile, fsync (fdatasync too), writeback (sync_file_range), copy (copy_file_range)
// and fallocate.
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
  std::string path;           // of the file, whichever descriptor or name it is reached by; it must exist
  int error = 0;              // errno's value, or
  size_t at_most = SIZE_MAX;  // so many octets are moved, or
  unsigned slow_ms = 0;       // the call takes so long, or
  bool hangs = false;         // it waits for Mend(), and goes well then
  uint64_t from = 0;          // what lies before this octet goes well
  unsigned times = std::numeric_limits<unsigned>::max();
};

// What a test says to its own process. Any thread. Ends every fault when it goes.
class FailingDisk {
 public:
  FailingDisk() = default;
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;
  ~FailingDisk() { Mend(); }

  void Fail(const DiskFault& fault);
  void Mend();
  // How many calls hang now.
  static size_t CountHanging();
  // How many calls that make data stable there have been for the file, or for what had its inode before.
  static size_t CountSyncs(const std::string& path);
  // They are counted from here on.
  static void ForgetSyncs();
  // Whose write that was (the thread's uid for files) which came last to the file.
  static std::optional<uid_t> LastWriter(const std::string& path);
  // So many octets are free for everybody on every file system; or what there is.
  static void set_free_space(std::optional<uint64_t> octets);
  // The times of files are multiples of this, as on a kernel with a coarse clock. Zero: as they are.
  static void set_clock_tick(std::chrono::nanoseconds tick);
};

}  // namespace penstock
