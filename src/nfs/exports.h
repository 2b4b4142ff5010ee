// The export table: the served trees with their paths, their permitted clients, and the mapping of users.
//
// It is filled during set-up and does not change while the server runs, so any thread may read it without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"
#include "nfs/export_options.h"
#include "nfs/file_handle.h"
#include "nfs/padded_handle.h"
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
  // The file system is absent from this server (RFC 8881 §11.3).
  bool is_referral() const { return options_.locations.referral; }

  FileHandle root() const { return {id_, file_system_->Root()}; }
  // Returns the name of a file. Requires a handle that the file system has returned or identified.
  NamedFile Name(const fs::Handle& object) const;

  // Returns the handle of an object in the form of NFS version 2. If the file system's handles do not fit into it,
  // returns no value, and logs so once.
  std::optional<PaddedHandle> PaddedHandleOf(const fs::Handle& object) const;

  // Returns true if the client's host and port may use this export. Over RDMA any port is accepted: Linux's client lets
  // the RDMA connection manager choose the port, which is above 1023 (and Linux's server requires no other).
  bool Admits(const rpc::Peer& client) const;
  // Returns true if TLS protects the client's connection as the export's options xprtsec= and cert= ask (RFC 9289).
  // Otherwise calls are refused like those of a flavor that the export does not take.
  bool AdmitsProtection(const rpc::Peer& client) const;
  // Admits() for the host alone.
  bool AdmitsHost(const IpAddress& client) const;

 private:
  ExportId id_;
  std::string path_;
  std::shared_ptr<fs::FileSystem> file_system_;
  ExportOptions options_;
  mutable std::atomic<bool> told_of_long_handles_ = false;
};

class Exports {
 public:
  // Fails if the path is not a valid export path, or is already exported.
  SetupResult<void> Add(std::string_view path, std::shared_ptr<fs::FileSystem> file_system, ExportOptions options);

  // Returns null if no export has this id.
  const Export* Find(ExportId id) const;

  // The export that contains a path; the deepest one if exports are nested.
  struct Place {
    const Export* found = nullptr;  // null if no export contains the path
    std::string_view rest;          // the path within the export; a view of the argument
  };
  Place Resolve(std::string_view path) const;

  // Log, once, that this export or that every export refuses the client, and why.
  void Refuse(const SocketAddress& client, const Export& refused) const;
  // Logs, once, why AdmitsProtection() is false.
  void RefuseProtection(const rpc::Peer& client, const Export& refused) const;
  void RefuseAll(const SocketAddress& client) const;
  // Logs, once, that the directory of an export is gone.
  void Miss(const SocketAddress& client, const Export& missed) const;
  // Logs, once, that the client's version of NFS has no referrals.
  void CannotRefer(const SocketAddress& client, const Export& referral) const;

  // Ordered by id.
  const std::vector<std::unique_ptr<const Export>>& all() const { return exports_; }

 private:
  std::vector<std::unique_ptr<const Export>> exports_;
  const std::unique_ptr<Refusals> refusals_ = std::make_unique<Refusals>();
};

}  // namespace penstock::nfs
