// The directory of the data that must survive a restart of the server, and the small files in it.
//
// One server locks the directory: two servers on one directory would forget each other's clients. Only the owner can
// read its files (0600). A write replaces the whole file or fails, and the file is on stable storage when the write
// returns.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/data.h"
#include "base/result.h"

namespace penstock {

// Returns $XDG_STATE_HOME/penstock or ~/.local/state/penstock, and /var/lib/penstock for root.
std::filesystem::path DefaultStateDirectory();

// A locked state directory. The kernel releases the lock with the last descriptor, however the process ends.
class StateDirectory {
 public:
  // Makes the directory (0700) if it does not exist, and locks it for the lifetime of the result. Fails if this or
  // another process has locked it, and if other users may replace the files in it.
  static SetupResult<StateDirectory> Open(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return path_; }

 private:
  StateDirectory(std::filesystem::path path, FileDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  FileDescriptor lock_;
};

// Returns "cannot DO FILE: WHY", with advice to the operator for some values of `error`, an errno.
SetupError StateFileError(std::string_view what, const std::filesystem::path& file, int error);
// Returns the error for a file with content that we never wrote. `loss` says what is lost with the file.
SetupError DamagedStateFile(const std::filesystem::path& file, std::string_view how, std::string_view loss);

// Returns the content of the file, or nullopt if the file does not exist. Fails if the file is unreadable, not a
// regular file, or larger than `max_size`. Removes other users' rights to the file.
SetupResult<std::optional<std::string>> ReadStateFile(const std::filesystem::path& file, size_t max_size,
                                                      std::string_view loss);
// Replaces the file, or makes it.
SetupResult<void> WriteStateFile(const std::filesystem::path& file, std::string_view content);

// Makes the names in a directory stable. Returns false and sets errno on failure.
bool SyncDirectory(const std::filesystem::path& directory);

}  // namespace penstock
