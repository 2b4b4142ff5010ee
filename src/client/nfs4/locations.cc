#include "client/nfs4/locations.h"

#include <algorithm>
#include <asio/ip/address.hpp>

#include "nfs_protocol/path_limit.h"
#include "rpc/universal_address.h"

namespace penstock::client::v4 {
namespace {

// The longest host name (RFC 1035 §2.3.4).
constexpr size_t kLongestHost = 255;

bool IsHostOctet(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}
bool IsServerOctet(char c) { return IsHostOctet(c) || c == ':'; }

// Whether LOOKUP can take the name (RFC 8881 §18.13.3).
bool IsComponent(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

// Returns nothing if a component of the path is malformed, or if the path is too long: each component costs a call.
std::optional<std::vector<std::string>> PathOf(const nfs4::pathname4& path) {
  if (!std::ranges::all_of(path, IsComponent)) return std::nullopt;
  size_t length = 0;
  for (const std::string_view name : path) length += name.size() + 1;
  if (length > nfs_protocol::kMaxPath) return std::nullopt;
  return std::vector<std::string>(path.begin(), path.end());
}

}  // namespace

std::optional<Location> ParseServer(std::string_view text) {
  if (text.empty()) return Location();
  if (text.size() > kLongestHost || !std::ranges::all_of(text, IsServerOctet)) return std::nullopt;
  asio::error_code error;
  const auto address = asio::ip::make_address(std::string(text), error);
  if (!error) return Location{.host = address.to_string()};
  for (const bool v6 : {false, true}) {
    const auto universal = rpc::ParseUniversalAddress({rpc::TransportKind::kTcp, v6}, text);
    if (!universal) continue;
    if (universal->port() == 0) return std::nullopt;
    return Location{.host = universal->address().to_string(), .port = universal->port()};
  }
  if (!std::ranges::all_of(text, IsHostOctet)) return std::nullopt;
  return Location{.host = std::string(text)};
}

std::vector<Location> LocationsOf(const nfs4::fs_locations4& attribute) {
  std::vector<Location> locations;
  for (const nfs4::fs_location4& each : attribute.locations) {
    const auto path = PathOf(each.rootpath);
    if (!path) continue;
    for (const std::string_view server : each.server) {
      if (locations.size() == kMostLocations) return locations;
      auto parsed = ParseServer(server);
      if (!parsed) continue;
      parsed->path = *path;
      locations.push_back(*std::move(parsed));
    }
  }
  return locations;
}

}  // namespace penstock::client::v4
