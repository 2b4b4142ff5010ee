// Which port a connection is made from.
#pragma once

#include <cstdint>

namespace penstock {

// The ports below this one need CAP_NET_BIND_SERVICE: a server that trusts the hosts of its clients takes such a port for
// the word of the host's administrator (nfs(5), resvport; exports(5), secure).
inline constexpr uint16_t kFirstUnreservedPort = 1024;

enum class LocalPort : uint8_t { kAny, kReserved };

}  // namespace penstock
