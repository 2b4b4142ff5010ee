#include "server/listeners.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace penstock::server {
namespace {

// A port that the system chooses for one socket may be taken for another one.
constexpr int kAttempts = 16;

bool HasIpv4(const std::vector<SocketAddress>& addresses) {
  return std::ranges::any_of(addresses, [](const SocketAddress& each) { return each.address().is_v4(); });
}

// Whether a socket that listens on all IPv6 addresses accepts IPv4 as well.
bool AcceptsIpv4(int socket) {
  int only_v6 = 1;
  socklen_t size = sizeof only_v6;
  ::getsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, &size);
  return only_v6 == 0;
}

// Calls `open` for each address. `open` returns the port of the socket, or the error. Addresses with port 0 get the
// port of the first of them; if that is taken at another address, everything begins again after `forget`.
template <class Open, class Forget>
SetupResult<void> OpenEach(const std::vector<SocketAddress>& addresses, Open open, Forget forget) {
  for (int attempt = 1;; ++attempt) {
    uint16_t chosen = 0;
    SetupResult<uint16_t> opened = uint16_t{0};
    for (SocketAddress address : addresses) {
      const bool may_choose = address.port() == 0;
      if (may_choose) address.port(chosen);
      opened = open(address);
      if (!opened) break;
      if (may_choose) chosen = *opened;
    }
    if (opened) return {};
    const bool again = std::ranges::any_of(addresses, [](const SocketAddress& each) { return each.port() == 0; });
    if (!again || attempt == kAttempts) return std::unexpected(std::move(opened).error());
    forget();
  }
}

SetupResult<std::vector<rpc::tcp::Listener>> OpenTcp(const std::vector<SocketAddress>& addresses) {
  std::vector<rpc::tcp::Listener> listeners;
  const auto open = [&](const SocketAddress& address) -> SetupResult<uint16_t> {
    PENSTOCK_TRY(rpc::tcp::Listener listener,
                 rpc::tcp::Listener::Open(address, address.address().is_v6() && HasIpv4(addresses)));
    listeners.push_back(std::move(listener));
    return listeners.back().local().port();
  };
  PENSTOCK_CHECK(OpenEach(addresses, open, [&] { listeners.clear(); }));
  return listeners;
}

SetupResult<std::vector<RdmaPlace>> OpenRdma(const std::vector<SocketAddress>& addresses, const rdma::Choice& choice) {
  std::vector<RdmaPlace> places;
  for (const SocketAddress& each : addresses) {
    PENSTOCK_TRY(rdma::Chosen chosen, rdma::ChooseFor(choice, each.address()));
    places.push_back({.address = each, .chosen = std::move(chosen), .socket = std::nullopt});
  }
  std::vector<SocketAddress> software;
  for (const RdmaPlace& each : places) {
    if (each.chosen.kind == rdma::Kind::kIwarp) software.push_back(each.address);
  }
  PENSTOCK_TRY(std::vector<rpc::tcp::Listener> sockets, OpenTcp(software));
  auto next = sockets.begin();
  for (RdmaPlace& each : places) {
    if (each.chosen.kind == rdma::Kind::kIwarp) each.socket.emplace(std::move(*next++));
  }
  return places;
}

std::vector<rpc::tcp::Listener> AdoptTcp(std::vector<FileDescriptor> sockets) {
  std::vector<rpc::tcp::Listener> listeners;
  for (FileDescriptor& each : sockets) listeners.push_back(rpc::tcp::Listener::Adopt(std::move(each)));
  return listeners;
}

SetupResult<std::vector<RdmaPlace>> AdoptRdma(std::vector<FileDescriptor> sockets, const rdma::Choice& choice) {
  if (choice.kind == rdma::Kind::kVerbs || !choice.device.empty()) {
    return std::unexpected(
        SetupError{"the service manager passes a socket for RDMA, but an RDMA adapter has no sockets: its connections "
                   "come through "
                   "the RDMA CM. Leave the socket nfs-rdma out, or use software iWARP (--rdma iwarp)"});
  }
  PENSTOCK_TRY(const rdma::Chosen chosen, rdma::ChooseFor({.kind = rdma::Kind::kIwarp, .device = {}}, IpAddress()));
  std::vector<RdmaPlace> places;
  for (rpc::tcp::Listener& each : AdoptTcp(std::move(sockets))) {
    const SocketAddress local = each.local();
    places.push_back({.address = local, .chosen = chosen, .socket = std::move(each)});
  }
  return places;
}

std::string ToText(const SocketAddress& address) {
  return fmt::format("{} port {}", address.address().to_string(), address.port());
}

// Opens the UDP sockets that were not passed.
SetupResult<ServiceSockets> AdoptMount(std::vector<FileDescriptor> tcp, std::vector<FileDescriptor> udp) {
  ServiceSockets sockets;
  sockets.tcp = AdoptTcp(std::move(tcp));
  for (FileDescriptor& each : udp) {
    PENSTOCK_TRY(rpc::udp::Listener listener, rpc::udp::Listener::Adopt(std::move(each)));
    if (std::ranges::find(sockets.tcp, listener.local(), &rpc::tcp::Listener::local) == sockets.tcp.end()) {
      return std::unexpected(SetupError{
          fmt::format("the service manager passes a socket for MOUNT over UDP at {}, but none for TCP there: MOUNT has "
                      "the same port for both",
                      ToText(listener.local()))});
    }
    sockets.udp.push_back(std::move(listener));
  }
  for (const rpc::tcp::Listener& each : sockets.tcp) {
    const SocketAddress local = each.local();
    if (std::ranges::find(sockets.udp, local, &rpc::udp::Listener::local) != sockets.udp.end()) continue;
    const bool only_ipv6 = local.address().is_v6() && !AcceptsIpv4(each.fd());
    PENSTOCK_TRY(rpc::udp::Listener listener, rpc::udp::Listener::Open(local, only_ipv6));
    sockets.udp.push_back(std::move(listener));
  }
  return sockets;
}

}  // namespace

SetupResult<ServiceSockets> OpenServiceSockets(const std::vector<SocketAddress>& addresses) {
  ServiceSockets sockets;
  const auto open = [&](const SocketAddress& address) -> SetupResult<uint16_t> {
    const bool only_ipv6 = address.address().is_v6() && HasIpv4(addresses);
    PENSTOCK_TRY(rpc::tcp::Listener tcp, rpc::tcp::Listener::Open(address, only_ipv6));
    PENSTOCK_TRY(rpc::udp::Listener udp, rpc::udp::Listener::Open(tcp.local(), only_ipv6));
    sockets.tcp.push_back(std::move(tcp));
    sockets.udp.push_back(std::move(udp));
    return sockets.tcp.back().local().port();
  };
  PENSTOCK_CHECK(OpenEach(addresses, open, [&] { sockets = {}; }));
  return sockets;
}

SetupResult<Listeners> OpenListeners(const Addresses& addresses, const rdma::Choice& rdma, PassedSockets passed) {
  Listeners listeners;
  if (passed.tcp.empty()) {
    PENSTOCK_TRY(listeners.tcp, OpenTcp(addresses.tcp));
  } else {
    listeners.tcp = AdoptTcp(std::move(passed.tcp));
  }
  if (passed.mount.empty() && passed.mount_udp.empty()) {
    PENSTOCK_TRY(ServiceSockets mount, OpenServiceSockets(addresses.mount));
    listeners.mount = std::move(mount.tcp);
    listeners.mount_udp = std::move(mount.udp);
  } else {
    PENSTOCK_TRY(ServiceSockets mount, AdoptMount(std::move(passed.mount), std::move(passed.mount_udp)));
    listeners.mount = std::move(mount.tcp);
    listeners.mount_udp = std::move(mount.udp);
  }
  if (passed.rdma.empty()) {
    PENSTOCK_TRY(listeners.rdma, OpenRdma(addresses.rdma, rdma));
  } else {
    PENSTOCK_TRY(listeners.rdma, AdoptRdma(std::move(passed.rdma), rdma));
  }
  return listeners;
}

size_t ListeningDescriptors(const Options& options, const PassedSockets& passed) {
  const Addresses& addresses = options.listen;
  const size_t tcp = passed.tcp.empty() ? addresses.tcp.size() : passed.tcp.size();
  const size_t rdma = passed.rdma.empty() ? addresses.rdma.size() : passed.rdma.size();
  const bool opens_mount = passed.mount.empty() && passed.mount_udp.empty();
  const size_t mount = opens_mount ? addresses.mount.size() : passed.mount.size();
  // Each loop has a duplicate of the socket of a stream; the first loop has two of a socket for datagrams. Loops share
  // the listener of an adapter, which has one descriptor and a duplicate that waits.
  constexpr size_t kForDatagrams = 2;
  constexpr size_t kForAdapter = 2;
  const size_t loops = options.threads;
  const size_t for_rdma =
      passed.rdma.empty() && options.rdma.kind != rdma::Kind::kIwarp ? std::max(loops, kForAdapter) : loops;
  size_t count = (tcp + mount) * loops + rdma * for_rdma + mount * kForDatagrams;
  // The port mapper's streams are on the first loop as well.
  if (options.port_mapper) count += HostAddressesOf(addresses).size() * (1 + kForDatagrams);
  return count;
}

std::vector<SocketAddress> ReachableAt(const rpc::tcp::Listener& listener) {
  const SocketAddress local = listener.local();
  if (!local.address().is_v6() || !local.address().is_unspecified() || !AcceptsIpv4(listener.fd())) return {local};
  return {SocketAddress(asio::ip::address_v4::any(), local.port()), local};
}

std::vector<IpAddress> HostAddressesOf(const Addresses& addresses) {
  std::vector<IpAddress> all;
  for (const auto* list : {&addresses.tcp, &addresses.rdma, &addresses.mount}) {
    for (const SocketAddress& each : *list) {
      if (std::ranges::find(all, each.address()) == all.end()) all.push_back(each.address());
    }
  }
  const std::vector<IpAddress> every = all;
  std::erase_if(all, [&](const IpAddress& each) {
    return !each.is_unspecified() && std::ranges::any_of(every, [&](const IpAddress& other) {
      return other.is_unspecified() && other.is_v4() == each.is_v4();
    });
  });
  return all;
}

}  // namespace penstock::server
