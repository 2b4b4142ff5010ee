// The addresses on which `penstock serve` listens: --listen, and --listen-tcp, --listen-rdma and --listen-mount for one
// transport.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "server/options.h"

namespace penstock::cli {

struct ListenOptions {
  std::vector<std::string> all{"127.0.0.1"};  // for each transport without a list of its own
  // ADDRESS[:PORT], or "none" alone: the server does not offer the transport.
  std::vector<std::string> tcp, rdma, mount;
  // For addresses without a port.
  uint16_t tcp_port = 2049;
  uint16_t rdma_port = 20049;
  uint16_t mount_port = 20048;
};

// Checks one value of --listen: an address, or "*" for all addresses of IPv4 and IPv6.
SetupResult<void> CheckListenAddress(const std::string& text);
// Checks one value of --listen-tcp, --listen-rdma or --listen-mount; `flag` is its name.
SetupResult<void> CheckListenEndpoint(const std::string& flag, const std::string& text);

// Makes the lists of addresses. "*" becomes 0.0.0.0 and, if this host has IPv6, ::. The error names the options that
// contradict each other: an address stands twice in a list, an unspecified one covers another one, TCP and MOUNT have
// the same port, or the server offers no transport for NFS.
SetupResult<server::Addresses> AddressesOf(const ListenOptions& options);

}  // namespace penstock::cli
