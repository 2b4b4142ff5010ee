// The directories of CephFS that a server's exports serve. They exclude each other's trees, so they are opened
// together.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fs/ceph/file_system.h"
#include "fs/ceph/location.h"
#include "fs/ceph/module.h"

namespace penstock::fs::ceph {

struct DirectoryToServe {
  std::string export_name;  // see Options::export_name
  Location location;
};

// One thread at a time.
class ServedDirectories {
 public:
  using Load = std::function<SetupResult<Module*>()>;

  // `load` returns the module, which lives as long as the process. It is called when a directory is opened.
  // `server`: the name of the server, which its mounts have in the cluster (Module::Mount); may be empty.
  explicit ServedDirectories(Load load, std::string server = "") : load_(std::move(load)), server_(std::move(server)) {}

  // The results have the order of the directories; the errors are for the operator. A file system of earlier calls that
  // still lives and would be the same now is used again. Waits for all clusters at the same time.
  std::vector<SetupResult<std::shared_ptr<FileSystem>>> Open(std::span<const DirectoryToServe> directories);

 private:
  std::vector<std::shared_ptr<FileSystem>> Known(const DirectoryToServe& directory) const;

  // A name that no living mount of this directory has.
  std::string NameFor(const DirectoryToServe& directory, std::span<const std::shared_ptr<FileSystem>> known) const;

  const Load load_;
  const std::string server_;
  // File systems that may still be served. They are not held: whoever serves them does.
  std::vector<std::weak_ptr<FileSystem>> opened_;
};

}  // namespace penstock::fs::ceph
