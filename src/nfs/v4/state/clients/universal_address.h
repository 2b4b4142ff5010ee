// The universal address of RPC: a text for an address and a port (RFC 5665 §5.2.3.3, §5.2.3.4).
#pragma once

#include <optional>
#include <string_view>

#include "base/address.h"

namespace penstock::nfs::v4 {

// "tcp" and "192.0.2.1.8.1", "tcp6" and "2001:db8::1.8.1": port 8 * 256 + 1. Returns nothing if the text is malformed
// or belongs to another network.
std::optional<SocketAddress> ParseUniversalAddress(std::string_view network_id, std::string_view address);

}  // namespace penstock::nfs::v4
