// The choice of a connection's local port.
#pragma once

#include <cstdint>

namespace penstock {

// Lower ports need CAP_NET_BIND_SERVICE. A server that trusts its clients' hosts accepts a lower port as proof that the
// host's administrator made the connection (nfs(5), resvport; exports(5), secure).
inline constexpr uint16_t kFirstUnreservedPort = 1024;

enum class LocalPort : uint8_t { kAny, kReserved };

}  // namespace penstock
