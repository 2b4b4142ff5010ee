// The local file that a download writes to. A regular file is replaced as a whole or not at all: the data goes to a
// temporary file in the same directory, which is renamed to the target when all of the data is on the disk.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <mutex>

#include "base/data.h"
#include "client/error.h"

namespace penstock::cli {

class LocalTarget {
 public:
  // `mode`, less the umask, is the mode of a file that does not exist yet. `in_place`: write into the existing file.
  LocalTarget(std::filesystem::path path, mode_t mode, bool in_place)
      : path_(std::move(path)), mode_(mode), in_place_(in_place) {}
  // Calls Discard().
  ~LocalTarget() { Discard(); }
  LocalTarget(const LocalTarget&) = delete;
  LocalTarget& operator=(const LocalTarget&) = delete;

  // Open() and Commit() block. Each is called once, on any thread.

  // Opens the target. Opening a FIFO waits for a reader. Symbolic links are followed and stay in place. A new file gets
  // the owner, group, permissions and access control list of the file that it replaces; if it cannot get them, Open()
  // fails.
  client::Result<void> Open();
  // Called after all data has been written. On success, the file has the data on stable storage.
  client::Result<void> Commit();
  // Removes the temporary file, and prevents another one from being made. Any thread, at any time.
  void Discard();

  // Valid after Open().
  int fd() const { return file_.get(); }
  // Whether the target is a pipe or a device, which must be written from the beginning to the end.
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
  std::filesystem::path replaced_;   // the target: `path_` with its symbolic links followed
  std::mutex mutex_;                 // guards the members below
  std::filesystem::path temporary_;  // empty: no temporary file exists
  bool discarded_ = false;
};

}  // namespace penstock::cli
