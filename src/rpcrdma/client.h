// A client's connection to a server. Connect() sets it up, and the client then makes its calls through it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/task.h"
#include "rdma/provider.h"
#include "rpc/connection_control.h"
#include "rpc/transport.h"
#include "rpcrdma/requester.h"
#include "rpcrdma/responder.h"

namespace penstock::rpcrdma {

struct ClientOptions {
  // RFC 8797. The sizes must not exceed the longest Send that the provider can make.
  PrivateData private_data{.remote_invalidation = true, .send_size = 4096, .receive_size = 4096};
  uint16_t ird = 16;
  uint16_t ord = 16;
  HeaderLimits limits;
  RequesterOptions requester;
  // Executes the server's calls (RFC 8167). The handler must outlive the Client and every call that it has received.
  // Null: the client does not accept calls from the server.
  rpc::CallHandler* back_channel = nullptr;
  // Called when the connection has ended, for whatever reason. It must not destroy the Client. Empty: nobody is told.
  std::function<void()> on_lost{};
  ResponderOptions responder{.credits = 8, .chunks = false};
  Loop* loop = nullptr;  // for rpc::Peer
  LocalPort local_port = LocalPort::kAny;
  Duration connect_limit = std::chrono::seconds(10);  // for the server's answer; see rdma::ConnectOptions
};

// The destructor disconnects. Calls that are under way then end with kDisconnected.
class Client : public rpc::Channel {
 public:
  ~Client() override;

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

  Requester& requester();
  const rpc::Peer& peer() const;
  const Thresholds& thresholds() const;
  const rdma::Endpoint& endpoint() const;
  // Once this is true, all calls fail, and the caller must set up a new connection.
  bool lost() const;
  // The reason for the end of the connection, as text for people.
  const std::string& end() const;

 private:
  friend Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> Connect(rdma::Provider&, rdma::Address,
                                                                           ClientOptions, TimerService&);
  friend Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> StepUp(rdma::Provider&, ReleasedSocket,
                                                                          rpc::ConnectionLimits, ClientOptions,
                                                                          TimerService&);
  class Link;
  explicit Client(Link& link) : link_(link) {}
  Link& link_;  // owns itself until it has finished
};

// Connects to `server`. `timers` must outlive the connection, which may end a little later than the Client.
Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> Connect(rdma::Provider& provider, rdma::Address server,
                                                                  ClientOptions options, TimerService& timers);

// Makes an RDMA connection of a TCP connection whose server has granted that with these limits. The sizes, the credits
// and the Reads of the limits replace those of `options`. `timers` as above.
Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> StepUp(rdma::Provider& provider, ReleasedSocket socket,
                                                                 rpc::ConnectionLimits limits, ClientOptions options,
                                                                 TimerService& timers);

}  // namespace penstock::rpcrdma
