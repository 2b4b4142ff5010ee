// Remembers on disk which locks of version 3 this process may hold at a server. A server of version 3 keeps the locks
// of a client that has died, because it has no leases. So the next mount of the server on this host gives them back.
//
// (Hosts that start again tell the server by SM_NOTIFY or FREE_ALL. Neither would do here: servers take them from
// privileged ports only, and Linux's then drops the locks of all clients at the host's address.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/data.h"
#include "base/result.h"

namespace penstock::client::v3 {

// An owner of locks in a file: the arguments of NLM with which all of them are given back.
struct LockRecord {
  int32_t owner = 0;
  std::vector<std::byte> file{};
  auto operator<=>(const LockRecord&) const = default;
};

// The records of one mount. The file exists while there are records. It is locked by flock(2), so that the kernel tells
// when the process has died. The methods do I/O, and must not run at the same time.
class LockRecords {
 public:
  // `server` is the URL's host and port. `client` is the name by which the server knows the mount; it names the file.
  LockRecords(std::filesystem::path directory, std::string server, std::string client);
  LockRecords(const LockRecords&) = delete;
  LockRecords& operator=(const LockRecords&) = delete;

  // Adds a record before the lock is requested, and removes it when the owner has no locks in the file any more.
  SetupResult<void> Add(LockRecord record);
  SetupResult<void> Remove(const LockRecord& record);

 private:
  // Writes all records into a new file.
  SetupResult<void> Replace();
  SetupResult<void> Write(char sign, const LockRecord& record);

  const std::filesystem::path directory_;
  const std::string server_;
  const std::string client_;
  std::set<LockRecord> records_;
  size_t lines_ = 0;         // of the file
  bool is_damaged_ = false;  // its last line is not complete, so that nothing may follow
  FileDescriptor file_;
};

// What a mount has left that has died. While this lives, no other process takes the same.
struct LeftLocks {
  std::string client;
  std::vector<LockRecord> records;
  std::filesystem::path path;
  FileDescriptor file;

  // Call it when the server has the locks back.
  void Forget() const;
};

// Finds what the dead mounts of this server have left in the directory.
std::vector<LeftLocks> FindLeftLocks(const std::filesystem::path& directory, std::string_view server);

// Parses the content of a file of records, for the fuzz target. Returns nothing for a file of another server, and for
// content that LockRecords does not write. A last line without its end was being written when the process died.
std::optional<std::vector<LockRecord>> ParseLockRecords(std::string_view content, std::string_view server);

}  // namespace penstock::client::v3
