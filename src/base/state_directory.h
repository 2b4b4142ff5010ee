// The directory in which a server keeps what must survive a restart, and the small files in it.
//
// A server has the directory for itself: two servers on one directory would forget each other's clients. Every file in
// it is its owner's alone (0600). A file is written whole or not at all, and is on stable storage when the writer
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

// $XDG_STATE_HOME/penstock, ~/.local/state/penstock, and root's /var/lib/penstock.
std::filesystem::path DefaultStateDirectory();

// A state directory while a server has it. The kernel drops the lock with the last descriptor, however the process ends.
class StateDirectory {
 public:
  // Makes the directory where it is not there, and locks it for as long as the result lives. An error where another
  // process, or this one, has it.
  static SetupResult<StateDirectory> Open(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return path_; }

 private:
  StateDirectory(std::filesystem::path path, FileDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  FileDescriptor lock_;
};

// "cannot DO FILE: WHY", with what the operator may do about `error` (an errno) where there is something.
SetupError StateFileError(std::string_view what, const std::filesystem::path& file, int error);
// For a file that says what we never wrote. `loss`: what is gone with the file.
SetupError DamagedStateFile(const std::filesystem::path& file, std::string_view how, std::string_view loss);

// Nothing: there is no such file. An error where it cannot be read, is no regular file, or is larger than `max_size`.
// Takes other users' rights to the file away.
SetupResult<std::optional<std::string>> ReadStateFile(const std::filesystem::path& file, size_t max_size,
                                                      std::string_view loss);
// In place of what is there.
SetupResult<void> WriteStateFile(const std::filesystem::path& file, std::string_view content);

// Makes the names in a directory stable. False, with errno, where that fails.
bool SyncDirectory(const std::filesystem::path& directory);

}  // namespace penstock
