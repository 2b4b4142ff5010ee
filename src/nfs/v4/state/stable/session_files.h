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

  // Whether a file of `size` octets would leave enough room on the disk. The first failure after a success of Create()
  // is logged. Blocks; any thread.
  bool HasRoom(uint64_t size);

  struct File {
    std::filesystem::path path;
    FileDescriptor fd;
  };
  // Creates a file of `size` octets that begins with `head`; the rest are zeros. The file, its room and its name are on
  // stable storage when the call returns. If it fails, it returns no descriptor; the first failure after a success is
  // logged. Blocks; any thread.
  File Create(const std::string& name, ConstBytes head, uint64_t size);

  // The kind of a file, by its first octets.
  enum class Kind : uint8_t {
    kWhole,
    kUnfinished,  // nothing was written yet
    kForeign,
    kOtherVersion,
    kDamaged,
  };
  // Judges the head of a file by its magic number. Its last 16 bits are the version. `is_sound`: the checksum is right.
  static Kind KindOf(ConstBytes head, uint64_t found, uint64_t magic, bool is_sound);
  // Returns whether the file has the name that the store of sessions with IDs of this many octets gives.
  static bool HasNameOfSession(const std::filesystem::path& path, size_t octets);
  // Returns the error of a file that the store cannot use. Requires kForeign, kOtherVersion or kDamaged.
  static std::unexpected<SetupError> Refusal(const std::filesystem::path& path, Kind kind);
  static std::unexpected<SetupError> Damaged(const std::filesystem::path& path, std::string_view how);

 private:
  SessionFiles(std::filesystem::path directory, FileDescriptor fd)
      : directory_(std::move(directory)), fd_(std::move(fd)) {}
  bool Prepare(int fd, ConstBytes head, uint64_t size) const;
  void TellFailure(const std::filesystem::path& path, int error);

  const std::filesystem::path directory_;
  const FileDescriptor fd_;
  std::atomic<bool> failing_ = false;
};

}  // namespace penstock::nfs::v4
