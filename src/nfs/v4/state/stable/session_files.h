// A directory with one file for each session that outlives the server. A file is allocated as a whole when its session
// is created, so later writes change only data, and do not run out of room.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/data.h"
#include "base/result.h"

namespace penstock::nfs::v4 {

class SessionFiles {
 public:
  // Opens the directory, and creates it if necessary.
  static SetupResult<std::unique_ptr<SessionFiles>> Open(const std::string& directory);

  // Calls `load` with each file. It returns false for a file whose creation was interrupted; no client knows of such a
  // session. The file is removed. Blocks.
  SetupResult<void> ForEach(const std::function<SetupResult<bool>(const std::filesystem::path&)>& load) const;

  struct File {
    std::filesystem::path path;
    FileDescriptor fd;
  };
  // Creates a file of `size` octets that begins with `head`; the rest are zeros. The file, its room and its name are on
  // stable storage when the call returns. If it fails, it returns no descriptor; the first failure after a success is
  // logged. Blocks; any thread.
  File Create(const std::string& name, ConstBytes head, uint64_t size);

  // Returns the errors of files that penstock has not written, or not completely.
  static std::unexpected<SetupError> Damaged(const std::filesystem::path& path, std::string_view how);

 private:
  SessionFiles(std::filesystem::path directory, FileDescriptor fd)
      : directory_(std::move(directory)), fd_(std::move(fd)) {}
  bool Prepare(int fd, ConstBytes head, uint64_t size) const;

  const std::filesystem::path directory_;
  const FileDescriptor fd_;
  std::atomic<bool> failing_ = false;
};

}  // namespace penstock::nfs::v4
