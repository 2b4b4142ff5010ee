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

// Where the servers of a cluster keep what they share: "NAME[?conf=FILE&pool=POOL&user=ID&node=NODE]".
struct ClusterLocation {
  std::string name;    // of the cluster of servers: the namespace of its objects
  std::string conf{};  // see Location
  std::string pool{};  // of RADOS
  std::string user{};  // see Location
  std::string node{};  // the name of this server in the cluster

  bool operator==(const ClusterLocation&) const = default;
};

// As ParseLocation(). Without pool=, the pool is "penstock"; without node=, the server has the name of its host.
SetupResult<ClusterLocation> ParseClusterLocation(std::string_view text);

}  // namespace penstock::fs::ceph
