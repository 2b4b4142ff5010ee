// The local file that a download goes to. A regular file is replaced as a whole or not at all: what comes is written
// under another name in the same directory, which becomes the file's when all of it is on the disk.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <mutex>

#include "base/data.h"
#include "client/error.h"

namespace penstock::cli {

class LocalTarget {
 public:
  // `mode`: of a file that is not there yet, less the umask. `in_place`: writes into the file itself.
  LocalTarget(std::filesystem::path path, mode_t mode, bool in_place)
      : path_(std::move(path)), mode_(mode), in_place_(in_place) {}
  // Discards what was not committed.
  ~LocalTarget() { Discard(); }
  LocalTarget(const LocalTarget&) = delete;
  LocalTarget& operator=(const LocalTarget&) = delete;

  // Open() and Commit() block, and are called once each, by any thread.

  // Of a FIFO: waits until somebody reads from it. Follows symbolic links, so that a link stays one. What replaces a file
  // has its owner, group, permissions and access control list; where it cannot have them, this is an error.
  client::Result<void> Open();
  // All octets have been written. When this has succeeded, the file has them on stable storage.
  client::Result<void> Commit();
  // Any thread, at any time: removes the temporary file, and lets no other come to be.
  void Discard();

  // From Open() on.
  int fd() const { return file_.get(); }
  // It is a pipe or a device, which takes octets in their order.
  bool is_stream() const { return is_stream_; }

 private:
  client::Result<void> OpenItself(int flags);
  client::Result<void> OpenTemporary(const struct stat* old);
  int CreateTemporary(mode_t mode);
  client::Result<void> KeepAccess(const struct stat& old) const;

  const std::filesystem::path path_;
  const mode_t mode_;
  const bool in_place_;
  FileDescriptor file_{-1};
  bool is_stream_ = false;
  std::filesystem::path replaced_;   // what the temporary file becomes: `path_`, its symbolic links followed
  std::mutex mutex_;                 // over these
  std::filesystem::path temporary_;  // empty: there is none
  bool discarded_ = false;
};

}  // namespace penstock::cli
