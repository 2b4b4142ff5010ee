// Maps the address of a peer to its host.
#pragma once

#include "base/address.h"

namespace penstock {

// Returns the IPv4 address of an IPv4-mapped IPv6 address (::ffff:a.b.c.d), as IPv6 sockets report it. Returns other
// addresses unchanged.
IpAddress Unmapped(const IpAddress& address);

// Returns an address that is equal for all addresses of one host: the IPv4 address itself, or the /64 prefix of an IPv6
// address with zeros behind it. A host may use any address of its /64, and changes its address periodically (RFC 8981).
IpAddress HostOf(const IpAddress& address);

// Whether this host has the address now, so that a socket may be bound to it. False for the unspecified address.
bool IsAddressOfThisHost(const IpAddress& address);

}  // namespace penstock
