// Where the servers of an absent file system are: the client's side of the attribute fs_locations (RFC 8881 §11.16, RFC
// 7530 §8.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/nfs4_attributes.h"

namespace penstock::client::v4 {

// A server that has the file system.
struct Location {
  // A host name or an address, an IPv6 address without brackets. Empty: the server that was asked.
  std::string host{};
  // Absent: the default port of the transport.
  std::optional<uint16_t> port{};
  // The names that lead from the root of the server's tree to the file system. LOOKUP can take each of them.
  std::vector<std::string> path{};
  bool operator==(const Location&) const = default;
};

// The most locations that the client considers.
inline constexpr size_t kMostLocations = 16;

// Parses the name of a server: a host name, an address, or a universal address, which ends with the two octets of a
// port. Only `host` and `port` of the result are set. Returns nothing if the text is none of these.
std::optional<Location> ParseServer(std::string_view text);

// Returns the locations in the server's order. Leaves out those with a malformed server or path, and those beyond
// kMostLocations.
std::vector<Location> LocationsOf(const nfs4::fs_locations4& attribute);

}  // namespace penstock::client::v4
