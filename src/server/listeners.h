// The sockets on which a server listens: opens those of its addresses, or takes those that the service manager passes.
#pragma once

#include <optional>
#include <vector>

#include "base/address.h"
#include "base/data.h"
#include "base/result.h"
#include "rdma/choice/choice.h"
#include "rpc/tcp/server.h"
#include "rpc/udp/datagrams.h"
#include "server/options.h"
#include "server/parts.h"

namespace penstock::server {

// A place where the server listens for RDMA connections.
struct RdmaPlace {
  SocketAddress address;  // with the port of the options, which may be 0
  rdma::Chosen chosen;
  // The listening socket of software iWARP, which has the actual port. None for an adapter: its provider listens.
  std::optional<rpc::tcp::Listener> socket;
};

struct Listeners {
  std::vector<rpc::tcp::Listener> tcp;
  std::vector<RdmaPlace> rdma;
  std::vector<rpc::tcp::Listener> mount;
  std::vector<rpc::udp::Listener> mount_udp;
};

// Opens all sockets of the addresses, or takes the passed sockets of a transport. The error names the address, for the
// operator: it is taken, it is not an address of this host, and so on. `rdma` chooses the device of each RDMA address;
// it fails if it requires an adapter and there is a passed socket for RDMA.
SetupResult<Listeners> OpenListeners(const Addresses& addresses, const rdma::Choice& rdma, PassedSockets passed = {});

// Sockets for one service over TCP and UDP, on the same ports.
struct ServiceSockets {
  std::vector<rpc::tcp::Listener> tcp;
  std::vector<rpc::udp::Listener> udp;
};
// If a port is 0, the system chooses one that is free for TCP and UDP, for all addresses whose port is 0.
SetupResult<ServiceSockets> OpenServiceSockets(const std::vector<SocketAddress>& addresses);

// The descriptors with which a server of these options listens, for connections and datagrams, once it has started.
// `passed` takes the place of addresses. An upper bound if an RDMA adapter may have one of the addresses; else exact.
size_t ListeningDescriptors(const Options& options, const PassedSockets& passed = {});

// Returns the addresses at which clients reach the socket: its own, and all IPv4 addresses if the socket has the
// address
// :: and accepts IPv4.
std::vector<SocketAddress> ReachableAt(const rpc::tcp::Listener& listener);

// Returns the hosts' addresses of all lists, each once, but no address that an unspecified one of its kind covers.
std::vector<IpAddress> HostAddressesOf(const Addresses& addresses);

}  // namespace penstock::server
