// The choice of a connection's local address and port.
#pragma once

#include <cstdint>

#include "base/address.h"

namespace penstock {

// Lower ports need CAP_NET_BIND_SERVICE. A server that trusts its clients' hosts accepts a lower port as proof that the
// host's administrator made the connection (nfs(5), resvport; exports(5), secure).
inline constexpr uint16_t kFirstUnreservedPort = 1024;

enum class LocalPort : uint8_t { kAny, kReserved };

struct LocalSide {
  LocalPort port = LocalPort::kAny;
  // An address of this host; unspecified for any. If it is no longer one of this host's, any other is used.
  IpAddress address{};
};

}  // namespace penstock
