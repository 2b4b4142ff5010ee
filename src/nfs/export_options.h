// The operator's options of an export: its directory, its permitted clients, and the mapping of users.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nfs/locations.h"
#include "nfs/network.h"
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

struct ExportOptions {
  bool read_only = false;
  Squash squash = Squash::kForeignRoot;
  uint32_t anonuid = 65534;
  uint32_t anongid = 65534;
  std::vector<Network> clients{};  // empty: every host
  bool privileged_ports = false;   // calls over TCP must come from ports below 1024
  SecurityFlavors security{SecurityFlavor::kSys};
  Protections protections{};
  // Names and addresses of which a client's certificate must have one (subjectAltName). Empty: every verified
  // certificate will do. Only if `protections` admits nothing but mutual authentication.
  std::vector<std::string> certificates{};
  // The client's certificate must have the address from which the client connects. Under the same condition.
  bool certificate_of_address = false;
  // The source of users' groups, if UserGroups::AreOf() is true; otherwise, or if it is null, the groups are those of
  // the credential. If it is set, programs must be called through WithGroups.
  std::shared_ptr<const UserGroups> groups{};
  // refer= or replicas=; without locations if the operator gave neither.
  Locations locations{};
};

struct ExportSpec {
  std::string path;       // for clients: absolute, without empty components, "." or ".."
  std::string directory;  // on this host; not used if the export is a referral
  ExportOptions options;
};

// Returns the normal form of an export path: one slash before each component, none at the end; the root is "/". Fails
// if the path is not absolute, has a component "." or "..", or is too long for MOUNT (RFC 1813 §5.1.4).
SetupResult<std::string> NormalizeExportPath(std::string_view path);

// Parses "PATH=DIR[:option,option,...]" with the options
//   ro  rw  root_squash  no_root_squash  all_squash (default: kForeignRoot)  anonuid=N  anongid=N
//   client=NETWORK (may be repeated)  secure  insecure (ports, over TCP)
//   xprtsec=PROTECTION[:PROTECTION]... of none, tls, mtls (the default is all of them)
//   cert=NAME (may be repeated, with xprtsec=mtls): a host name or an address in a client's certificate; cert=address:
//     the address from which the client connects
//   sec=FLAVOR[:FLAVOR]... of sys (the default), krb5, krb5i, krb5p, ccm, none; preferred ones first
//   refer=LOCATIONS  replicas=LOCATIONS (at most one of them, see ParseLocations())
// In DIR, write a colon as "\:".
SetupResult<ExportSpec> ParseExportSpec(std::string_view text);

}  // namespace penstock::nfs
