// The claims of NFSv4 clients on files, for other NFS versions that serve the same files. Operations outside of NFSv4
// must respect share denials, and must not change a delegated file before its delegation is recalled (RFC 8881 §10.2,
// §9.7).
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
  // An intended use of a file.
  enum class Use : uint8_t {
    kReadAttributes,
    kRead,
    kWrite,   // writing data or setting the size
    kChange,  // removing, renaming, replacing or linking the file, or setting other attributes
  };
  enum class Verdict : uint8_t {
    kFree,    // there is no conflict
    kLater,   // a temporary conflict: a delegation is being recalled, or may still be reclaimed after a restart
    kDenied,  // an open denies the use to other clients, for an unlimited time
  };

  virtual ~FileClaims() = default;

  // Returns true if any client has a claim on any file. This is the only cost if no client has one. Thread-safe.
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

  // Returns a mark of the present time for IsOutdated().
  virtual uint64_t Mark() const = 0;
  // Returns true if a client has, or has had since `mark`, a write delegation on the file, and so may know a newer
  // version than the file system. Replies then leave out attributes that the caller did not ask for; a caller that
  // needs them asks by GETATTR. Thread-safe. Takes a lock only if a write delegation exists.
  virtual bool IsOutdated(const NamedFile& file, uint64_t mark) const = 0;

  // Registers an operation on the file: during its lifetime, no client gets a new delegation.
  class Hold {
   public:
    virtual ~Hold() = default;
  };
  struct Checked {
    Verdict verdict;
    std::unique_ptr<Hold> hold{};  // for a change of the file: keep it until the change is done
  };
  // Recalls conflicting delegations. Thread-safe. Resumes on the caller's `loop`, which is null in a simulation.
  virtual Task<Checked> Check(Loop* loop, NamedFile file, Use use) = 0;

 protected:
  explicit FileClaims(const std::atomic<size_t>& count) : count_(count) {}

 private:
  const std::atomic<size_t>& count_;
};

}  // namespace penstock::nfs
