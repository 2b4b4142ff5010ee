// An RPC server over TCP: listeners, and servers that accept connections from them and serve the calls.
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/accept_turns.h"
#include "base/address.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/signal.h"
#include "metrics/counts.h"
#include "rpc/connection_control.h"
#include "rpc/connection_table.h"
#include "rpc/memory_budget.h"
#include "rpc/step_up.h"
#include "rpc/tcp/handshake_gate.h"
#include "rpc/transport.h"

namespace penstock {
class DescriptorShortage;
}

namespace penstock::rpc::tls {
class Credentials;
}

namespace penstock::rpc::tcp {

class ServedConnection;

struct ServerOptions {
  // The largest record that a client may send. The default suffices for a call with 1 MiB of payload.
  size_t max_record = 2 << 20;
  // Shared by all servers of the process. Null: the server makes its own.
  std::shared_ptr<ConnectionTable> connections{};
  // Shared by all servers of the process. Null: the server makes its own. The server does not read from a connection
  // that cannot get memory.
  std::shared_ptr<MemoryBudget> memory{};
  // The limits of one connection. The server does not read from a connection that has reached one of them. While calls
  // to the client wait for replies (see BackChannel), the limit on calls is twice as high. Otherwise the replies could
  // be stuck behind calls that wait for them.
  size_t max_calls = 128;
  size_t max_call_octets = 32 << 20;   // memory of running calls
  size_t max_queued_octets = 8 << 20;  // memory behind replies that the peer has not read
  // A peer that has begun to send or to read a record must finish it within this time.
  Duration stall_limit = std::chrono::seconds(60);
  // A call to the client without a reply fails after this time.
  Duration back_call_limit = std::chrono::seconds(15);
  // Returns true if a client with this address may connect. Empty: all clients may connect.
  std::function<bool(const IpAddress&)> allow{};
  // The server reports a lack of file descriptors to it. Null: the server makes its own.
  std::shared_ptr<DescriptorShortage> shortage{};
  // Takes a connection that becomes an RDMA connection, on the loop of the server. Empty: no connection does.
  std::function<void(SteppingConnection)> step_up{};
  // The most that an RDMA connection of `step_up` can have.
  AgreedLimits step_up_limits{};
  // Clients may ask for TLS on their connections (RFC 9289). Null: the server has no TLS.
  std::shared_ptr<tls::Credentials> tls{};
  // Counts the connections and their calls.
  metrics::Recorder recorder{};
};

// A listening socket. Several servers, each on its own loop, may accept connections from it in turn.
class Listener {
 public:
  // Listens on the address. `only_ipv6` matters for the address ::, which otherwise means all IPv4 addresses as well.
  // The error names the address, for the operator.
  static SetupResult<Listener> Open(const SocketAddress& endpoint, bool only_ipv6 = false);
  // Takes a socket that listens already, such as one that the service manager passes. The caller has checked it.
  static Listener Adopt(FileDescriptor socket) { return Listener(std::move(socket)); }

  // The address of the socket. If the requested port was 0, this has the port that the system has chosen.
  SocketAddress local() const;
  int fd() const { return socket_.get(); }

 private:
  friend class Server;
  explicit Listener(FileDescriptor socket) : socket_(std::move(socket)) {}

  FileDescriptor socket_;
  std::shared_ptr<AcceptTurns> turns_ = std::make_shared<AcceptTurns>();
};

// Accepts connections and serves them on one loop. The server belongs to that loop.
class Server {
 public:
  // All arguments must outlive the server.
  Server(Loop& loop, CallHandler& handler, ServerOptions options = {});
  // Requires that Stop() has completed, or that Start() was never called.
  ~Server();

  // Starts to accept connections, from a duplicate of the listener's socket.
  SetupResult<void> Start(const Listener& listener);

  // Accepts no more connections and no more calls. Running calls end, and their replies leave. After `drain_limit` it
  // closes the connections that are left. Does not complete before the handler has finished its calls. The loop must
  // then take one more turn, in which closed sockets release their memory.
  Task<void> Stop(Duration drain_limit);

  size_t connections() const { return connections_.size(); }

 private:
  Task<void> Accept();
  void Adopt(asio::ip::tcp::socket socket);
  static ServerOptions Complete(ServerOptions options);
  Task<void> RunConnection(std::unique_ptr<ServedConnection> connection);
  // Looks for stalled connections, in parts that let other work of the loop go on.
  void Sweep();

  Loop& loop_;
  CallHandler& handler_;
  const ServerOptions options_;
  HandshakeGate handshakes_;
  asio::ip::tcp::acceptor acceptor_;
  std::unique_ptr<AcceptTurns::Member> turn_;  // only while the server accepts connections
  std::vector<ServedConnection*> connections_;
  bool accepting_ = false;
  bool stopping_ = false;
  Signal changed_;
  std::unique_ptr<Timer> sweep_;
  size_t swept_ = 0;  // the connections that this sweep has looked at: the first ones
  std::unique_ptr<Timer> accept_again_;
  const std::shared_ptr<DescriptorShortage> shortage_;
  Signal accept_signal_;
};

}  // namespace penstock::rpc::tcp
