// What the clients of one version of NFS may rely on, told to another version that serves the same files: that nobody
// writes what they have denied to others, and that nobody changes, unknown to them, what is delegated to them. Operations
// that are done outside of NFSv4 must respect both (RFC 8881 §10.2, §9.7).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/loop.h"
#include "base/task.h"
#include "nfs/file_handle.h"

namespace penstock::nfs {

class FileClaims {
 public:
  // What somebody is about to do with a file.
  enum class Use : uint8_t {
    kReadAttributes,
    kRead,
    kWrite,   // a new size is a write
    kChange,  // otherwise: it is removed, renamed, replaced or linked, or attributes of it are set
  };
  enum class Verdict : uint8_t {
    kFree,    // nothing is in the way
    kLater,   // something is, but not for long: a delegation is recalled, or could still be reclaimed after a restart
    kDenied,  // a client that has the file open denies it to all others, for as long as it likes
  };

  virtual ~FileClaims() = default;

  // Whether anybody claims anything, of any file. All that a server pays whose clients claim nothing. Any thread.
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

  // A moment, for IsOutdated.
  virtual uint64_t Mark() const = 0;
  // Whether a client may know a newer version of the file than its file system, or may have had one since `mark`: it has
  // the file delegated for writing. Then nobody is told attributes that nobody asked for, so that those who need them ask.
  // Any thread. Takes no lock unless somebody has.
  virtual bool IsOutdated(const NamedFile& file, uint64_t mark) const = 0;

  // Somebody is about it: while this lives, nobody else is promised that the file stays as it is.
  class Hold {
   public:
    virtual ~Hold() = default;
  };
  struct Checked {
    Verdict verdict;
    std::unique_ptr<Hold> hold{};  // where the file is to be changed: until that is done
  };
  // Recalls what is in the way. Any thread; comes back on `loop`, the caller's (none in a simulation).
  virtual Task<Checked> Check(Loop* loop, NamedFile file, Use use) = 0;

 protected:
  explicit FileClaims(const std::atomic<size_t>& count) : count_(count) {}

 private:
  const std::atomic<size_t>& count_;
};

}  // namespace penstock::nfs
