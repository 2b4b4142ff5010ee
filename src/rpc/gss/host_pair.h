// The two hosts of a connection, for CCM: all connections between two hosts have the same protection. Ports do not
// count, so that a context outlives its connection.
#pragma once

#include "base/address.h"
#include "base/host.h"
#include "rpc/transport.h"

namespace penstock::rpc::gss {

class HostPair {
 public:
  HostPair(const IpAddress& client, const IpAddress& server) : client_(Plain(client)), server_(Plain(server)) {}
  // The hosts of a connection that the client has made.
  explicit HostPair(const Peer& client) : HostPair(client.address.address(), client.local.address()) {}

  const IpAddress& client() const { return client_; }
  const IpAddress& server() const { return server_; }
  bool operator==(const HostPair&) const = default;

 private:
  // An IPv4-mapped address is the IPv4 address. The zone of an IPv6 address has a meaning only on one host.
  static IpAddress Plain(const IpAddress& address) {
    IpAddress unmapped = Unmapped(address);
    if (unmapped.is_v4()) return unmapped;
    return asio::ip::address_v6(unmapped.to_v6().to_bytes());
  }

  IpAddress client_, server_;
};

}  // namespace penstock::rpc::gss
