// Opens the directories of this machine that one server exports. The directories share descriptors and change counters,
// and each one hides the directories that others export (Covers); so they are opened together.
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
  // See Options::leases. The host calls Server::LookAtLocalLeases() on each SIGIO.
  bool leases = false;
  // Further directories that no client reaches through one that is served (Covers).
  std::vector<std::filesystem::path> hidden{};
  // Descriptors that the process needs for connections and other uses, see OpenObjects::MaxDescriptors.
  size_t other_descriptors = 0;
};

struct ServedDirectories {
  std::vector<std::unique_ptr<FileSystem>> file_systems;  // in the order of the requested directories
  std::shared_ptr<OpenObjects> open_files;                // shared by all file systems
  // Whether the process has the rights to act as each caller (ServerIdentity). If false, every caller acts as the user
  // that started the process.
  bool acts_as_callers = false;
};

// Opens all directories, or returns the first error, for the operator. `pool` outlives the file systems. This changes
// and restores the credentials of the calling thread; the kernel then refuses this thread the RDMA devices that it had
// opened before. So the host calls it before Server::Make(). See FileSystem for two settings of the process that the
// host must make.
SetupResult<ServedDirectories> OpenDirectories(std::span<const DirectoryToServe> directories, Workers& pool,
                                               const ServedDirectoriesOptions& options);

}  // namespace penstock::fs::posix
