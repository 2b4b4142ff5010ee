// The export table: which trees are served under which names, to whom, and as whom.
//
// Filled while the server is set up and never changed while it serves, so that any thread may read it without a lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"
#include "nfs/export_options.h"
#include "nfs/file_handle.h"
#include "nfs/refusals.h"
#include "rpc/transport.h"

namespace penstock::nfs {

class Export {
 public:
  Export(ExportId id, std::string path, std::shared_ptr<fs::FileSystem> file_system, ExportOptions options)
      : id_(id), path_(std::move(path)), file_system_(std::move(file_system)), options_(std::move(options)) {}

  ExportId id() const { return id_; }
  const std::string& path() const { return path_; }
  fs::FileSystem& file_system() const { return *file_system_; }
  const ExportOptions& options() const { return options_; }

  FileHandle root() const { return {id_, file_system_->Root()}; }
  // Of a handle that the file system gave, or has identified.
  NamedFile Name(const fs::Handle& object) const;

  // Whether the host and port that a call came from may use this export. Over RDMA the port does not count: Linux's client
  // leaves it to the RDMA connection manager, which gives it one above 1023 (and Linux's server asks for no other).
  bool Admits(const rpc::Peer& client) const;

 private:
  ExportId id_;
  std::string path_;
  std::shared_ptr<fs::FileSystem> file_system_;
  ExportOptions options_;
};

class Exports {
 public:
  // An error where the path is no export path, or is taken.
  SetupResult<void> Add(std::string_view path, std::shared_ptr<fs::FileSystem> file_system, ExportOptions options);

  // Null where no export has this id (any more).
  const Export* Find(ExportId id) const;

  // The export that a path leads into, the deepest one where exports are nested.
  struct Place {
    const Export* found = nullptr;  // null where the path leads into no export
    std::string_view rest;          // what is left of the path inside of it; views the argument
  };
  Place Resolve(std::string_view path) const;

  // Tells the operator, once, that this export does not admit this client, and why; or that none does.
  void Refuse(const SocketAddress& client, const Export& refused) const;
  void RefuseAll(const SocketAddress& client) const;
  // Likewise that the directory of an export is gone.
  void Miss(const SocketAddress& client, const Export& missed) const;

  // In the order of their ids.
  const std::vector<std::unique_ptr<const Export>>& all() const { return exports_; }

 private:
  std::vector<std::unique_ptr<const Export>> exports_;
  const std::unique_ptr<Refusals> refusals_ = std::make_unique<Refusals>();
};

}  // namespace penstock::nfs
