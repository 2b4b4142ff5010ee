// The text of a socket's address: "192.0.2.7:2049", "[2001:db8::1]:2049".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"

namespace penstock {

// Returns nullopt for any other text. The port is required; host names are not addresses.
std::optional<SocketAddress> ParseSocketAddress(std::string_view text);

std::string ToText(const SocketAddress& address);

}  // namespace penstock
