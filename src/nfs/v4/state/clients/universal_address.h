// The universal address of RPC: a text for an address and a port (RFC 5665 §5.2.3.3, §5.2.3.4).
#pragma once

#include <optional>
#include <string_view>

#include "base/address.h"

namespace penstock::nfs::v4 {

// Parses an address of the network "tcp" or "tcp6". For example, "192.0.2.1.8.1" and "2001:db8::1.8.1" have the port
// 8 * 256 + 1. Returns nothing if the text is malformed or does not belong to the network.
std::optional<SocketAddress> ParseUniversalAddress(std::string_view network_id, std::string_view address);

}  // namespace penstock::nfs::v4
