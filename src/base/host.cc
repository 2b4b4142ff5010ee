#include "base/host.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/data.h"

namespace penstock {

IpAddress Unmapped(const IpAddress& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address;
}

IpAddress HostOf(const IpAddress& address) {
  constexpr size_t kNetwork = 8;  // octets
  IpAddress unmapped = Unmapped(address);
  if (unmapped.is_v4()) return unmapped;
  auto octets = unmapped.to_v6().to_bytes();
  std::fill(octets.begin() + kNetwork, octets.end(), 0);
  return asio::ip::address_v6(octets);
}

bool IsAddressOfThisHost(const IpAddress& address) {
  if (address.is_unspecified()) return false;
  const FileDescriptor probe(::socket(address.is_v6() ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress end(address, 0);
  return probe && ::bind(probe.get(), end.data(), static_cast<socklen_t>(end.size())) == 0;
}

}  // namespace penstock
