// The export table: the served trees with their paths, their permitted clients, and the mapping of users.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/published.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "nfs/export_options.h"
#include "nfs/file_handle.h"
#include "nfs/host_names.h"
#include "nfs/padded_handle.h"
#include "nfs/refusals.h"
#include "rpc/transport.h"

namespace penstock::nfs {

// Never changes.
class Export {
 public:
  // `hosts` tells the names of clients, and outlives the export. If it is null, no client belongs to a group that is
  // named by host name, pattern or netgroup.
  Export(ExportId id, std::string path, std::shared_ptr<fs::FileSystem> file_system, std::vector<Admission> admissions,
         const HostNames* hosts = nullptr, bool is_root = false);

  ExportId id() const { return id_; }
  const std::string& path() const { return path_; }
  fs::FileSystem& file_system() const { return *file_system_; }
  const std::shared_ptr<fs::FileSystem>& shared_file_system() const { return file_system_; }
  // Returns a pin that holds the file system as well, for a holder that may outlive the export.
  fs::Pinned Hold(fs::Pinned pinned) const;
  // In the operator's order.
  const std::vector<Admission>& admissions() const { return admissions_; }
  // refer= or replicas=, which are the same for all clients.
  const Locations& locations() const { return locations_; }
  // The file system is absent from this server (RFC 8881 §11.3).
  bool is_referral() const { return locations_.referral; }
  // The root of the tree that clients of version 4 see.
  bool is_root() const { return is_root_; }

  FileHandle root() const { return {id_, file_system_->Root()}; }
  // Returns the name of a file. Requires a handle that the file system has returned or identified.
  NamedFile Name(const fs::Handle& object) const;

  // Returns the handle of an object in the form of NFS version 2. If the file system's handles do not fit into it,
  // returns no value, and logs so once.
  std::optional<PaddedHandle> PaddedHandleOf(const fs::Handle& object) const;

  // Returns the options for this client's host (ClientSpec::Kind tells which have precedence), or null if there are
  // none, or if a group with precedence may have it, but its names are not known. They live as long as the export.
  // Programs must be called through WithHostNames.
  const ExportOptions* OptionsFor(const IpAddress& client) const;
  const ExportOptions* OptionsFor(const rpc::Peer& client) const { return OptionsFor(client.address.address()); }
  // Returns true if the client's host may use this export, and its port with at least one flavor. Over RDMA any port is
  // accepted: Linux's client lets the RDMA connection manager choose the port, which is above 1023 (and Linux's server
  // requires no other).
  bool Admits(const rpc::Peer& client) const;
  // The following functions with options take those of OptionsFor(). A call that decides several things asks for the
  // options once: the names of a host may change meanwhile.
  //
  // The security flavors that the client may use from its port, in the operator's order.
  static SecurityFlavors FlavorsFor(const rpc::Peer& client, const ExportOptions& options);
  SecurityFlavors FlavorsFor(const rpc::Peer& client) const;
  bool TakesFlavor(const rpc::Peer& client, const rpc::Credential& credential) const {
    return FlavorsFor(client).Admits(credential);
  }
  // Returns true if TLS protects the client's connection as the export's options xprtsec= and cert= ask (RFC 9289).
  // Otherwise calls are refused like those of a flavor that the export does not take.
  static bool AdmitsProtection(const rpc::Peer& client, const ExportOptions& options);
  bool AdmitsProtection(const rpc::Peer& client) const {
    const ExportOptions* const options = OptionsFor(client);
    return options && AdmitsProtection(client, *options);
  }
  // Admits() for the host alone.
  bool AdmitsHost(const IpAddress& client) const { return OptionsFor(client) != nullptr; }

 private:
  ExportId id_;
  std::string path_;
  std::shared_ptr<fs::FileSystem> file_system_;
  std::vector<Admission> admissions_;
  std::vector<const Admission*> by_precedence_;
  const HostNames* hosts_;  // null if none is needed
  Locations locations_;
  bool is_root_;
  mutable std::atomic<bool> told_of_long_handles_ = false;
};

// All exports at one time. It never changes once it is in use.
class ExportTable {
 public:
  // Fails if the path is not a valid export path, or is already exported.
  SetupResult<void> Add(std::string_view path, std::shared_ptr<fs::FileSystem> file_system,
                        std::vector<Admission> admissions, const HostNames* hosts = nullptr, bool is_root = false);
  // Takes over an export of another table.
  void Keep(std::shared_ptr<const Export> exported);

  // Returns null if no export has this id. The result lives as long as the table.
  const Export* Find(ExportId id) const;
  // The same, for a holder that may outlive the table.
  std::shared_ptr<const Export> FindShared(ExportId id) const;

  // The export that contains a path; the deepest one if exports are nested.
  struct Place {
    const Export* found = nullptr;  // null if no export contains the path
    std::string_view rest;          // the path within the export; a view of the argument
  };
  Place Resolve(std::string_view path) const;

  // Ordered by id.
  const std::vector<std::shared_ptr<const Export>>& all() const { return exports_; }

 private:
  using List = std::vector<std::shared_ptr<const Export>>;
  // The place of the export with this id, or where it would be.
  List::const_iterator PlaceOf(ExportId id) const;

  List exports_;
};

// The exports of a server, which may be replaced while it runs. A call keeps the table with which it began.
// Thread-safe.
class Exports {
 public:
  explicit Exports(Refusals refusals = Refusals()) : refusals_(std::move(refusals)) {}

  std::shared_ptr<const ExportTable> Get() const { return current_.Get(); }
  // Returns the table before, which has no other reference once the last call that uses it has ended.
  std::shared_ptr<const ExportTable> Replace(std::shared_ptr<const ExportTable> next) {
    return current_.Set(std::move(next));
  }
  // For one thread, as during set-up and in tests: replaces the table by one with another export, whose clients, or if
  // there are none, everyone, get the same options.
  SetupResult<void> Add(std::string_view path, std::shared_ptr<fs::FileSystem> file_system, ExportOptions options,
                        const std::vector<ClientSpec>& clients = {});
  // The current table. The reference is valid until the next change.
  const ExportTable& table() const { return *current_.Get(); }

  // Logs what clients are refused.
  const Refusals& refusals() const { return refusals_; }
  // Logs the failure of a call of version 2 or 3, or of NFSACL, if it is a refusal.
  void HandleFailure(const rpc::CallContext& call) const;

 private:
  Published<ExportTable> current_{std::make_shared<const ExportTable>()};
  const Refusals refusals_;
};

}  // namespace penstock::nfs
