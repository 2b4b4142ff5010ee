// Which host an address belongs to.
#pragma once

#include "base/address.h"

namespace penstock {

// An IPv4 address that came in over an IPv6 socket (::ffff:a.b.c.d) as the IPv4 address that it is; others unchanged.
IpAddress Unmapped(const IpAddress& address);

// Equal for all addresses of one host: the IPv4 address, or the network of 64 bits of an IPv6 address, the rest of which is
// zero here. A host has the network to itself in that it may take any address there, and changes its own now and then
// (RFC 8981).
IpAddress HostOf(const IpAddress& address);

}  // namespace penstock
