// The parts that a host process makes for a server and hands to Server::Make().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/state_directory.h"
#include "base/workers.h"
#include "fs/file_system.h"
#include "fs/open_files.h"
#include "nfs/export_options.h"

namespace penstock::server {

// One tree of files, and the terms on which clients may use it. The server does not know which kind of file system it
// is: fs/posix, fs/memory, or one of the host's own (docs/architecture.md, "A file system of your own").
struct Export {
  std::string path;  // as clients see it, see nfs::NormalizeExportPath()
  std::vector<nfs::Admission> admissions;
  std::shared_ptr<fs::FileSystem> file_system;  // not used, and may be null, if the options make it a referral
  bool is_root = false;                         // the root of the tree that clients of version 4 see (fsid=0)
};

// Members are destroyed from the last to the first: file systems before the pool that they use.
struct Parts {
  // Keeps the data that must survive a restart: the server's name, its clients and their replies. File systems may keep
  // files of their own in it. Only one server may use it at a time.
  StateDirectory state_directory;
  // Runs calls that block. File systems may use the same pool. Server::Stop() joins it, so a pool is for one server.
  std::shared_ptr<Workers> pool;
  // The descriptors that the file systems keep open between calls; null if they keep none.
  std::shared_ptr<fs::OpenFiles> open_files{};
  std::vector<Export> exports{};
};

}  // namespace penstock::server
