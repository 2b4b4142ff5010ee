// The universal address of RPC: a text for an address and a port, and the identifiers of the networks that it belongs
// to (RFC 5665 §5.1.1, §5.2.3.3, §5.2.3.4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// A registered network identifier: a transport with the version of IP that its addresses have.
struct Netid {
  TransportKind transport = TransportKind::kTcp;
  bool v6 = false;

  bool operator==(const Netid&) const = default;
};
// Returns "tcp", "tcp6", "udp", "udp6", "rdma" or "rdma6".
std::string_view ToString(const Netid& netid);
std::optional<Netid> ParseNetid(std::string_view text);

// Parses an address of the network. For example, "192.0.2.1.8.1" and "2001:db8::1.8.1" have the port 8 * 256 + 1.
// Returns nothing if the text is malformed or does not belong to the network.
std::optional<SocketAddress> ParseUniversalAddress(const Netid& netid, std::string_view address);
std::optional<SocketAddress> ParseUniversalAddress(std::string_view netid, std::string_view address);
std::string UniversalAddress(const SocketAddress& address);

}  // namespace penstock::rpc
