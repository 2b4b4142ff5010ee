// Receives and sends datagrams over UDP, and knows to which address of this host each one was sent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "base/bytes.h"
#include "base/data.h"
#include "base/local_port.h"
#include "base/result.h"
#include "xdr/message.h"

namespace penstock::rpc::udp {

// The two ends of a datagram, as the receiver sees them.
struct Route {
  SocketAddress from;
  SocketAddress to;        // the address of this host that the sender named
  uint32_t interface = 0;  // where the datagram arrived
};

struct Received {
  enum class Kind : uint8_t {
    kDatagram,
    kUnfit,   // a datagram was received and dropped: too long, or to a broadcast address, or without a usable sender
    kNone,    // no datagram is there
    kFailed,  // the system cannot receive now
  };
  Kind kind = Kind::kNone;
  size_t size = 0;
  int error = 0;  // kFailed: the errno
};

// A UDP socket of a server, bound to an address of this host or to all of them.
class Listener {
 public:
  // Binds a socket to the address. `only_ipv6` matters for the address ::, which otherwise means all IPv4 addresses as
  // well. The error names the address, for the operator.
  static SetupResult<Listener> Open(const SocketAddress& endpoint, bool only_ipv6 = false);
  // Takes a socket that is bound already, such as one that the service manager passes. The caller has checked it.
  static SetupResult<Listener> Adopt(FileDescriptor socket);

  // The address of the socket. If the requested port was 0, this has the port that the system has chosen.
  SocketAddress local() const { return local_; }
  int fd() const { return socket_.get(); }

  // Takes the next datagram, without waiting. A datagram that is longer than `room` is kUnfit. So is one to a broadcast
  // or multicast address: a reply to it would let one datagram cause replies of many hosts.
  Received Receive(Bytes room, Route& route) const;
  // Sends a datagram back over the route, from the address to which the received one was sent. Does not wait: if the
  // system has no room, the datagram is lost, as it may be lost in the network. `message` has no file data.
  void Reply(const xdr::Message& message, const Route& route) const;

 private:
  Listener(FileDescriptor socket, const SocketAddress& local) : socket_(std::move(socket)), local_(local) {}

  FileDescriptor socket_;
  SocketAddress local_;
};

// A UDP socket that is connected to one address, so that it receives only from there.
class ConnectedSocket {
 public:
  // LocalPort::kReserved uses a free port below 1024 if this process may, and any other port otherwise.
  static Result<ConnectedSocket, std::error_code> Open(const SocketAddress& peer, const LocalSide& from);

  int fd() const { return socket_.get(); }
  Received Receive(Bytes room) const;
  // Returns the errno, or 0. `message` has no file data.
  int Send(const xdr::Message& message) const;

 private:
  explicit ConnectedSocket(FileDescriptor socket) : socket_(std::move(socket)) {}

  FileDescriptor socket_;
};

}  // namespace penstock::rpc::udp
