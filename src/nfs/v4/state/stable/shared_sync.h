// Synchronizes a file that several threads write to, and remembers a failure.
//
// Linux reports a failed write-back once for each open file. If two threads call fdatasync() on one descriptor, the
// first one may get the error of the second one's octets, and the second one then hears of success. So one thread at a
// time synchronizes the file, for all threads that have written by then. After a failure nobody knows which octets are
// on the disk, so all later calls fail.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace penstock::nfs::v4 {

// Thread-safe.
class SharedSync {
 public:
  // `sync` synchronizes the file, and returns whether that has succeeded. Only one call is under way at a time.
  explicit SharedSync(std::function<bool()> sync) : sync_(std::move(sync)) {}
  SharedSync(const SharedSync&) = delete;
  SharedSync& operator=(const SharedSync&) = delete;

  // Returns true if the octets that the caller has written before are on stable storage. Blocks.
  bool Run();
  // Whether a synchronization has failed.
  bool failed() const;

 private:
  const std::function<bool()> sync_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t asked_ = 0;  // the calls of Run()
  uint64_t done_ = 0;   // of these, the first ones whose octets are on stable storage
  bool running_ = false;
  bool failed_ = false;
};

}  // namespace penstock::nfs::v4
