#include "rpc/udp/datagrams.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/host.h"
#include "xdr/flatten.h"

namespace penstock::rpc::udp {
namespace {

// Room for one control message of each family.
union Control {
  char octets[CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(in_pktinfo))];
  cmsghdr align;
};

bool IsV6(const SocketAddress& endpoint) { return endpoint.address().is_v6(); }

SetupError Failure(const SocketAddress& endpoint, int error) {
  std::string message = fmt::format("cannot listen on {} port {} with UDP: {}", endpoint.address().to_string(),
                                    endpoint.port(), DescribeErrno(error));
  if (error == EADDRINUSE) message += "; is another server running there?";
  if (error == EACCES) message += "; ports below 1024 need root or CAP_NET_BIND_SERVICE";
  return SetupError{std::move(message), error};
}

// Reads the destination of a received datagram. Returns false if no single host is meant.
bool ReadDestination(msghdr& header, Route& route) {
  for (cmsghdr* each = CMSG_FIRSTHDR(&header); each; each = CMSG_NXTHDR(&header, each)) {
    if (each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_PKTINFO) {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(each), sizeof info);
      // For a broadcast, the kernel names the address from which this host would reply.
      if (info.ipi_addr.s_addr != info.ipi_spec_dst.s_addr) return false;
      route.to.address(asio::ip::address_v4(ntohl(info.ipi_addr.s_addr)));
      route.interface = static_cast<uint32_t>(info.ipi_ifindex);
      return true;
    }
    if (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info;
      std::memcpy(&info, CMSG_DATA(each), sizeof info);
      asio::ip::address_v6::bytes_type octets;
      std::memcpy(octets.data(), &info.ipi6_addr, octets.size());
      const asio::ip::address_v6 address(octets);
      if (address.is_multicast()) return false;
      route.to.address(address);
      route.interface = info.ipi6_ifindex;
      return true;
    }
  }
  return false;
}

// Writes the source of a datagram into `control` and returns its length.
size_t WriteSource(Control& control, const Route& route) {
  const auto write = [&](int level, int type, const auto& info) {
    control.align.cmsg_level = level;
    control.align.cmsg_type = type;
    control.align.cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(&control.align), &info, sizeof info);
    return CMSG_SPACE(sizeof info);
  };
  if (!IsV6(route.to)) {
    in_pktinfo info{};
    info.ipi_spec_dst.s_addr = htonl(route.to.address().to_v4().to_uint());
    return write(IPPROTO_IP, IP_PKTINFO, info);
  }
  const asio::ip::address_v6 address = route.to.address().to_v6();
  in6_pktinfo info{};
  const auto octets = address.to_bytes();
  std::memcpy(&info.ipi6_addr, octets.data(), octets.size());
  // Other addresses are routed: the way back may have another first hop.
  if (address.is_link_local()) info.ipi6_ifindex = route.interface;
  return write(IPPROTO_IPV6, IPV6_PKTINFO, info);
}

std::vector<iovec> PiecesOf(const xdr::Message& message) {
  std::vector<iovec> pieces;
  const auto add = [&](ConstBytes bytes) {
    pieces.push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});  // NOLINT: iovec has no const
  };
  struct Visitor {
    decltype(add)& to;
    void operator()(ConstBytes bytes) const { to(bytes); }
    void operator()(const Data& data) const { to(data.bytes()); }
  };
  xdr::ForEachPiece(message, Visitor{add});
  return pieces;
}

Received Receive(int fd, msghdr& header) {
  for (;;) {
    const ssize_t size = ::recvmsg(fd, &header, MSG_DONTWAIT);
    if (size >= 0) {
      const bool fits = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
      return {fits ? Received::Kind::kDatagram : Received::Kind::kUnfit, static_cast<size_t>(size)};
    }
    if (errno == EINTR) continue;
    const bool none = errno == EAGAIN || errno == EWOULDBLOCK;
    return {none ? Received::Kind::kNone : Received::Kind::kFailed, 0, errno};
  }
}

int Send(int fd, msghdr& header, const xdr::Message& message) {
  std::vector<iovec> pieces = PiecesOf(message);
  header.msg_iov = pieces.data();
  header.msg_iovlen = pieces.size();
  while (::sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

bool Bind(int fd, const SocketAddress& local) {
  return ::bind(fd, local.data(), static_cast<socklen_t>(local.size())) == 0;
}

// Binds the socket to a free reserved port if there is one that this process may use.
void BindReserved(int fd, const IpAddress& address) {
  const ReservedPorts ports;
  for (unsigned i = 0; i < ReservedPorts::kCount; ++i) {
    const SocketAddress local(address, ports[i]);
    if (Bind(fd, local) || errno != EADDRINUSE) return;
  }
}

}  // namespace

SetupResult<Listener> Listener::Open(const SocketAddress& endpoint, bool only_ipv6) {
  FileDescriptor fd(
      ::socket(IsV6(endpoint) ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!fd) return std::unexpected(Failure(endpoint, errno));
  const int on = 1;
  if (only_ipv6 && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0) {
    return std::unexpected(Failure(endpoint, errno));
  }
  if (!Bind(fd.get(), endpoint)) return std::unexpected(Failure(endpoint, errno));
  return Adopt(std::move(fd));
}

SetupResult<Listener> Listener::Adopt(FileDescriptor socket) {
  SocketAddress local;
  auto size = static_cast<socklen_t>(local.capacity());
  if (::getsockname(socket.get(), local.data(), &size) != 0) return std::unexpected(Failure(local, errno));
  local.resize(size);
  const int on = 1;
  const int failed = IsV6(local) ? ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on)
                                 : ::setsockopt(socket.get(), IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
  if (failed != 0) return std::unexpected(Failure(local, errno));
  return Listener(std::move(socket), local);
}

Received Listener::Receive(Bytes room, Route& route) const {
  iovec into{room.data(), room.size()};
  Control control{};
  route.from = SocketAddress();
  msghdr header{};
  header.msg_name = route.from.data();
  header.msg_namelen = static_cast<socklen_t>(route.from.capacity());
  header.msg_iov = &into;
  header.msg_iovlen = 1;
  header.msg_control = control.octets;
  header.msg_controllen = sizeof control.octets;
  Received received = udp::Receive(fd(), header);
  if (received.kind != Received::Kind::kDatagram) return received;
  route.from.resize(header.msg_namelen);
  route.to = local_;
  // Nobody can be reached at port 0: such a sender is forged.
  if (!ReadDestination(header, route) || route.from.port() == 0) received.kind = Received::Kind::kUnfit;
  return received;
}

void Listener::Reply(const xdr::Message& message, const Route& route) const {
  SocketAddress to = route.from;
  Control control{};
  msghdr header{};
  header.msg_name = to.data();
  header.msg_namelen = static_cast<socklen_t>(to.size());
  header.msg_control = control.octets;
  header.msg_controllen = WriteSource(control, route);
  Send(fd(), header, message);
}

Result<ConnectedSocket, std::error_code> ConnectedSocket::Open(const SocketAddress& peer, const LocalSide& from) {
  const auto failure = [] { return std::unexpected(std::error_code(errno, std::generic_category())); };
  FileDescriptor fd(::socket(IsV6(peer) ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!fd) return failure();
  IpAddress local = IsV6(peer) ? IpAddress(asio::ip::address_v6::any()) : IpAddress(asio::ip::address_v4::any());
  if (from.address.is_v6() == IsV6(peer) && IsAddressOfThisHost(from.address)) local = from.address;
  if (from.port == LocalPort::kReserved) {
    BindReserved(fd.get(), local);
  } else if (!local.is_unspecified()) {
    Bind(fd.get(), {local, 0});
  }
  if (::connect(fd.get(), peer.data(), static_cast<socklen_t>(peer.size())) != 0) return failure();
  return ConnectedSocket(std::move(fd));
}

Received ConnectedSocket::Receive(Bytes room) const {
  iovec into{room.data(), room.size()};
  msghdr header{};
  header.msg_iov = &into;
  header.msg_iovlen = 1;
  return udp::Receive(fd(), header);
}

int ConnectedSocket::Send(const xdr::Message& message) const {
  msghdr header{};
  return udp::Send(fd(), header, message);
}

}  // namespace penstock::rpc::udp
