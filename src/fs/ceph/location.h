// Where an export of CephFS is: "ceph:/path[?conf=FILE&fs=NAME&user=ID]".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::fs::ceph {

struct Location {
  std::string path;    // of the exported directory in the file system: absolute, without empty components, "." or ".."
  std::string conf{};  // the cluster's configuration file; empty: where Ceph's own programs look for it
  std::string fs{};    // the name of the file system; empty: the cluster's default
  std::string user{};  // the CephX user, without "client."; empty: as for Ceph's own programs, "admin"

  bool operator==(const Location&) const = default;
};

// In the path and in the values, %XX stands for an octet. Fails with a message for the operator.
SetupResult<Location> ParseLocation(std::string_view text);
// The text that ParseLocation() reads, with the options that are not empty.
std::string ToString(const Location& location);

}  // namespace penstock::fs::ceph
