// What the operator says about an export: where it is, who may use it, and as whom.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nfs/network.h"
#include "nfs/security_flavors.h"

namespace penstock::nfs {

class UserGroups;

// Whose identity is not believed and becomes the anonymous one.
enum class Squash : uint8_t {
  kNone,
  // Root, unless it is this host's own: see IsFromLocalRoot(). What an export does that says nothing else.
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
  // Where users' groups are taken from, if UserGroups::AreOf() says so; else, or where it is null, they are those of the credentials.
  // With it, no program is called but through WithGroups.
  std::shared_ptr<const UserGroups> groups{};
};

struct ExportSpec {
  std::string path;       // as clients see it: absolute, without empty components, "." or ".."
  std::string directory;  // as this host sees it
  ExportOptions options;
};

// The path as Exports keeps it: one slash before each component, none after; the root is "/". An error where it is not
// absolute, has a component "." or "..", or is longer than MOUNT can say (RFC 1813 §5.1.4).
SetupResult<std::string> NormalizeExportPath(std::string_view path);

// "PATH=DIR[:option,option,...]" with the options
//   ro  rw  root_squash  no_root_squash  all_squash (none of them: kForeignRoot)  anonuid=N  anongid=N  client=NETWORK (may be repeated)
//   secure  insecure (ports, over TCP)  sec=FLAVOR[:FLAVOR]... of sys (the default), krb5, krb5i, krb5p, none; the best first
// A colon that belongs to DIR is written "\:".
SetupResult<ExportSpec> ParseExportSpec(std::string_view text);

}  // namespace penstock::nfs
