// The serving side of RPC over TCP.
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
#include "rpc/connection_table.h"
#include "rpc/memory_budget.h"
#include "rpc/tcp/record_socket.h"
#include "rpc/transport.h"

namespace penstock {
class DescriptorShortage;
}

namespace penstock::rpc::tcp {

struct ServerOptions {
  // The largest call: 1 MiB of payload, and what surrounds it.
  size_t max_record = 2 << 20;
  // Of the process; null: one of its own.
  std::shared_ptr<ConnectionTable> connections{};
  // Of the process; null: one of its own. A connection that may not have more of it is not read from, as below.
  std::shared_ptr<MemoryBudget> memory{};
  // Of one connection. Above any it is not read from until it is below all again. While we wait for answers of its peer
  // (see BackChannel) twice as many calls are taken, lest the answers be stuck behind calls that wait for them.
  size_t max_calls = 128;
  size_t max_call_octets = 32 << 20;   // of the memory that calls are in until they have been executed
  size_t max_queued_octets = 8 << 20;  // of the memory behind replies that the peer has not taken
  // A record that a peer has begun to send, or to take, must get to its end within this time.
  Duration stall_limit = std::chrono::seconds(60);
  // A call to the peer without a reply for so long fails.
  Duration back_call_limit = std::chrono::seconds(15);
  // Who may connect. Empty: everybody.
  std::function<bool(const IpAddress&)> allow{};
  // Told where there is no descriptor for a connection. Null: one of its own.
  std::shared_ptr<DescriptorShortage> shortage{};
};

// A listening socket. Several servers, each on its loop, may accept from the same, in turn.
class Listener {
 public:
  static SetupResult<Listener> Open(const SocketAddress& endpoint);

  // Where it listens: the port that the system chose, for port 0.
  SocketAddress local() const;
  int fd() const { return socket_.get(); }

 private:
  friend class Server;
  explicit Listener(FileDescriptor socket) : socket_(std::move(socket)) {}

  FileDescriptor socket_;
  std::shared_ptr<AcceptTurns> turns_ = std::make_shared<AcceptTurns>();
};

// Serves the connections that it accepts on one loop, and belongs to that loop.
class Server {
 public:
  // All outlive the server.
  Server(Loop& loop, CallHandler& handler, ServerOptions options = {});
  // Requires that Stop() is done, or Start() was never called.
  ~Server();

  // Accepts from a duplicate of `listener`.
  SetupResult<void> Start(const Listener& listener);

  // Takes no more connections and no more calls, lets those that run end and their replies go out, and cuts off after
  // `drain_limit` whoever does not take them. Not done before the handler has finished its calls. The loop must take one
  // more turn after that, in which closed sockets let go of their memory.
  Task<void> Stop(Duration drain_limit);

  size_t connections() const { return connections_.size(); }

 private:
  class ServedConnection;

  Task<void> Accept();
  void Adopt(asio::ip::tcp::socket socket);
  static ServerOptions Complete(ServerOptions options);
  Task<void> RunConnection(std::unique_ptr<ServedConnection> connection);
  void Sweep();

  Loop& loop_;
  CallHandler& handler_;
  const ServerOptions options_;
  asio::ip::tcp::acceptor acceptor_;
  std::unique_ptr<AcceptTurns::Member> turn_;  // while it accepts
  std::vector<ServedConnection*> connections_;
  bool accepting_ = false;
  bool stopping_ = false;
  Signal changed_;
  std::unique_ptr<Timer> sweep_;
  std::unique_ptr<Timer> accept_again_;
  const std::shared_ptr<DescriptorShortage> shortage_;
  Signal accept_signal_;
};

}  // namespace penstock::rpc::tcp
