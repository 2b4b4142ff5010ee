#include "nfs/v4/attributes/file_system_locations.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "protocol/nfs4_attributes.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

constexpr int32_t kUnknownCurrency = -1;
constexpr size_t kInfoOctets = FSLI4BX_WRITEORDER + 1;

// Encodes an export path as a pathname4, a list of components.
void EncodePath(xdr::Encoder& to, std::string_view path) {
  path.remove_prefix(1);
  to.U32(path.empty() ? 0 : static_cast<uint32_t>(1 + std::ranges::count(path, '/')));
  while (!path.empty()) {
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), component.size() + 1));
    to.String(component);
  }
}

// Encodes a fs_locations_server4. All octets of fls_info but the general flags are zero.
void EncodeServer(xdr::Encoder& to, std::string_view server, uint8_t flags) {
  std::array<std::byte, kInfoOctets> info{};
  info[FSLI4BX_GFLAGS] = std::byte{flags};
  to.U32(static_cast<uint32_t>(kUnknownCurrency));
  to.Opaque(info);
  to.String(server);
}

}  // namespace

void EncodeLocations(xdr::Encoder& to, const FileSystemLocations& of) {
  EncodePath(to, of.path);
  to.U32(static_cast<uint32_t>(of.locations.list.size()));
  for (const Location& location : of.locations.list) {
    to.U32(static_cast<uint32_t>(location.servers.size()));
    for (const std::string& server : location.servers) to.String(server);
    EncodePath(to, location.path);
  }
}

void EncodeLocationsInfo(xdr::Encoder& to, const FileSystemLocations& of) {
  const bool present = !of.locations.referral;
  to.U32(0);  // fli_flags: paths contain no variables
  to.U32(0);  // fli_valid_for
  EncodePath(to, of.path);
  to.U32(static_cast<uint32_t>(of.locations.list.size() + (present ? 1 : 0)));
  if (present) {
    to.U32(1);
    const uint32_t writable = of.read_only ? 0 : FSLI4GF_WRITABLE;
    EncodeServer(to, "", static_cast<uint8_t>(FSLI4GF_CUR_REQ | writable));
    EncodePath(to, of.path);
  }
  for (const Location& location : of.locations.list) {
    to.U32(static_cast<uint32_t>(location.servers.size()));
    for (const std::string& server : location.servers) EncodeServer(to, server, 0);
    EncodePath(to, location.path);
  }
}

}  // namespace penstock::nfs::v4
