// The choice of a connection's local address and port.
#pragma once

#include <cstdint>
#include <random>

#include "base/address.h"

namespace penstock {

// Lower ports need CAP_NET_BIND_SERVICE. A server that trusts its clients' hosts accepts a lower port as proof that the
// host's administrator made the connection (nfs(5), resvport; exports(5), secure).
inline constexpr uint16_t kFirstUnreservedPort = 1024;

// The reserved ports that a caller may try, each once, from a random one on: so calls of several processes do not meet.
// rresvport(3) uses the same ports; lower ones belong to services.
class ReservedPorts {
 public:
  static constexpr unsigned kCount = kFirstUnreservedPort - 600;

  uint16_t operator[](unsigned number) const { return static_cast<uint16_t>(600 + (start_ + number) % kCount); }

 private:
  const unsigned start_ = std::random_device()();
};

enum class LocalPort : uint8_t { kAny, kReserved };

struct LocalSide {
  LocalPort port = LocalPort::kAny;
  // An address of this host; unspecified for any. If it is no longer one of this host's, any other is used.
  IpAddress address{};
};

}  // namespace penstock
