#include "base/host.h"

#include <algorithm>

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

}  // namespace penstock
