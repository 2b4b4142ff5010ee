// The directories that a server's exports serve. They share descriptors, and exclude each other's trees, so they are
// opened together.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/workers.h"
#include "fs/posix/file_system.h"
#include "fs/posix/open_objects.h"

namespace penstock::fs::posix {

struct DirectoryToServe {
  std::string export_name;  // see Options::export_name
  std::filesystem::path directory;
};

struct ServedDirectoriesOptions {
  // Where file handles are kept from one run to the next: the path of the server's StateDirectory.
  std::filesystem::path state_directory;
  // See Options::rights.
  CallerRights rights = CallerRights::kBest;
  // See Options::leases. The host calls Server::LookAtLocalLeases() on each SIGIO.
  bool leases = false;
  // Descriptors that the process needs for connections and other uses, see OpenObjects::MaxDescriptors.
  size_t other_descriptors = 0;
};

// One thread at a time.
class ServedDirectories {
 public:
  // `pool` outlives all file systems. See FileSystem for two settings that the host must make.
  ServedDirectories(Workers& pool, const ServedDirectoriesOptions& options);

  // Opens all directories, or returns the first error, for the operator. A file system of earlier calls that still
  // lives and would be the same now (FileSystem::IsOf) is used again. The result has the order of the requested
  // directories. Clients do not reach the directories in `hidden` through one that is served (Covers).
  //
  // This changes and restores the credentials of the calling thread; the kernel then refuses this thread the RDMA
  // devices that it had opened before. So the host calls it before Server::Make(), and later on another thread.
  SetupResult<std::vector<std::shared_ptr<FileSystem>>> Open(std::span<const DirectoryToServe> directories,
                                                             std::span<const std::filesystem::path> hidden = {});

  // Shared by all file systems.
  const std::shared_ptr<OpenObjects>& open_files() const { return open_files_; }
  // Whether the process has the rights to act as each caller (ServerIdentity). If false, it acts as the user that
  // started it.
  static bool ActsAsCallers();

 private:
  // A file system that may still be served. It is not held: whoever serves it does.
  struct Opened {
    DirectoryToServe of;
    std::weak_ptr<FileSystem> file_system;
  };

  Workers& pool_;
  const ServedDirectoriesOptions options_;
  const std::shared_ptr<OpenObjects> open_files_;
  const std::shared_ptr<ChangeCounters> changes_;
  const std::shared_ptr<KnownHandles> known_handles_;
  std::vector<Opened> opened_;
};

}  // namespace penstock::fs::posix
