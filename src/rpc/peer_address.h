// The address of a peer, with what each of its calls needs of it: Asio computes these anew whenever they are asked for.
#pragma once

#include <cstdint>
#include <functional>

#include "base/address.h"
#include "base/host.h"

namespace penstock::rpc {

class PeerAddress {
 public:
  PeerAddress() : PeerAddress(SocketAddress()) {}
  PeerAddress(const SocketAddress& endpoint)  // NOLINT(google-explicit-constructor): the same address
      : endpoint_(endpoint),
        address_(endpoint.address()),
        port_(endpoint.port()),
        host_(std::hash<IpAddress>{}(HostOf(address_))) {}
  PeerAddress(const IpAddress& address, uint16_t port) : PeerAddress(SocketAddress(address, port)) {}

  operator const SocketAddress&() const { return endpoint_; }  // NOLINT(google-explicit-constructor)
  const IpAddress& address() const { return address_; }
  uint16_t port() const { return port_; }
  // A number for the host, equal for all of its addresses that HostOf() knows to be the same host's.
  uint64_t host() const { return host_; }

 private:
  SocketAddress endpoint_;
  IpAddress address_;
  uint16_t port_;
  uint64_t host_;
};

}  // namespace penstock::rpc
