// The operator's options of an export: its directory, its permitted clients, and the mapping of users.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nfs/client_spec.h"
#include "nfs/locations.h"
#include "nfs/protections.h"
#include "nfs_protocol/security_flavors.h"

namespace penstock::nfs {

using nfs_protocol::SecurityFlavor;
using nfs_protocol::SecurityFlavors;

class UserGroups;

// The users that are mapped to the anonymous user.
enum class Squash : uint8_t {
  kNone,
  // Root, except this host's own: see IsFromLocalRoot(). The default.
  kForeignRoot,
  kRoot,
  kAll,
};

// What one group of clients gets.
struct ExportOptions {
  bool read_only = false;
  Squash squash = Squash::kForeignRoot;
  uint32_t anonuid = 65534;
  uint32_t anongid = 65534;
  // Calls over TCP with other flavors than those of RPCSEC_GSS must come from ports below 1024.
  bool privileged_ports = false;
  SecurityFlavors security{SecurityFlavor::kSys};
  // Where several "sec=" have options of their own: the first two members above, for each of them. They hold for no
  // flavor that a group names.
  struct ForFlavors {
    SecurityFlavors flavors;
    bool read_only = false;
    Squash squash = Squash::kForeignRoot;
    bool operator==(const ForFlavors&) const = default;
  };
  std::vector<ForFlavors> by_flavor{};
  Protections protections{};
  // Names and addresses of which a client's certificate must have one (subjectAltName). Empty: every verified
  // certificate will do. Only if `protections` admits nothing but mutual authentication.
  std::vector<std::string> certificates{};
  // The client's certificate must have the address from which the client connects. Under the same condition.
  bool certificate_of_address = false;
  // Version 3 answers READDIRPLUS.
  bool read_directory_plus = true;
  // The source of users' groups, if UserGroups::AreOf() is true; otherwise, or if it is null, the groups are those of
  // the credential. If it is set, programs must be called through WithGroups.
  std::shared_ptr<const UserGroups> groups{};
  // refer= or replicas=; without locations if the operator gave neither.
  Locations locations{};

  bool IsReadOnlyFor(SecurityFlavor flavor) const;
  Squash SquashFor(SecurityFlavor flavor) const;
  bool operator==(const ExportOptions&) const = default;
};

// The options of a group of clients.
struct Admission {
  ClientSpec clients{};
  ExportOptions options{};
  bool operator==(const Admission&) const = default;
};

// An export as the operator describes it.
struct ExportSpec {
  std::string path;  // for clients: absolute, without empty components, "." or ".."
  // On this host, or in CephFS: see NamesCephfs(). Not used if the export is a referral.
  std::string directory;
  std::vector<Admission> admissions{{}};
  // The root of the tree that clients of version 4 see (fsid=0).
  bool is_root = false;
  // File systems that are mounted below the directory are exported, too, with the same options.
  bool crosses_mounts = false;
  // Serve the directory only if this is a mount point: "" for the directory itself, or a path.
  std::optional<std::string> mount_point{};
  std::string place{};               // where the operator wrote it, such as "/etc/exports:3"; empty on a command line
  std::vector<std::string> notes{};  // for the operator: options that have no effect, and why

  bool is_referral() const;
  bool is_cephfs() const;
  bool operator==(const ExportSpec&) const = default;
};

// Collects the options of one group of clients, as exports(5) and --export write them:
//   ro  rw  root_squash  no_root_squash  all_squash  no_all_squash  anonuid=N  anongid=N  secure  insecure (ports)
//   xprtsec=PROTECTION[:PROTECTION]... of none, tls, mtls (the default is all of them)
//   cert=NAME (may be repeated, with xprtsec=mtls): a host name or an address in a client's certificate; cert=address:
//     the address from which the client connects
//   sec=FLAVOR[:FLAVOR]... of sys (the default), krb5, krb5i, krb5p, ccm, none; preferred ones first. If it is given
//     several times, ro, rw and the squashing after it hold for its flavors
//   refer=LOCATIONS  replicas=LOCATIONS (at most one of them, see ParseLocations())
//   fsid=0  crossmnt  mountpoint[=PATH]  nordirplus
// and the other options of exports(5), which have no effect or a note.
class OptionCollector {
 public:
  // `spec` gets what concerns the whole export, and the notes. It outlives the collector. Begins with `options`.
  OptionCollector(ExportSpec& spec, ExportOptions options) : spec_(spec), options_(std::move(options)) {}
  // One option, without commas.
  SetupResult<void> Add(std::string_view option);
  SetupResult<ExportOptions> Finish();

 private:
  SetupResult<void> AddFlag(std::string_view flag);
  SetupResult<void> AddValue(std::string_view key, std::string_view value);
  SetupResult<void> AddFlavors(std::string_view value);
  void SetReadOnly(bool read_only);
  void SetSquash(Squash squash);
  void Note(std::string_view option, std::string_view why);

  ExportSpec& spec_;
  ExportOptions options_;
};

// Returns the normal form of an export path: one slash before each component, none at the end; the root is "/". Fails
// if the path is not absolute, has a component "." or "..", or is too long for MOUNT (RFC 1813 §5.1.4).
SetupResult<std::string> NormalizeExportPath(std::string_view path);

// Whether the directory of an export is one of CephFS: ceph:/path, see fs::ceph::Location.
bool NamesCephfs(std::string_view directory);

// The options of the export that CephFS has no use for: a mistake is an error. Those without an effect become notes.
SetupResult<void> CheckCephfsOptions(ExportSpec& spec);

// Parses "PATH=DIR[:option,option,...]" with the options of OptionCollector, and client=CLIENTS (ClientSpec), which may
// be repeated. The default is rw,insecure and Squash::kForeignRoot. In DIR, write a colon as "\:", but not the one at
// the beginning of ceph:/path.
SetupResult<ExportSpec> ParseExportSpec(std::string_view text);

}  // namespace penstock::nfs
