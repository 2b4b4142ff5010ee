// A client's connection to a server: what Connect() gives.
#pragma once

#include <memory>
#include <string>

#include "base/task.h"
#include "rdma/provider.h"
#include "rpc/transport.h"
#include "rpcrdma/requester.h"
#include "rpcrdma/responder.h"

namespace penstock::rpcrdma {

struct ClientOptions {
  // RFC 8797. No longer Sends than the provider can make.
  PrivateData private_data{.remote_invalidation = true, .send_size = 4096, .receive_size = 4096};
  uint16_t ird = 16;
  uint16_t ord = 16;
  HeaderLimits limits;
  RequesterOptions requester;
  // Calls of the server (RFC 8167) go to this handler, which outlives the Client, and every call that it was given.
  // Null: there are none.
  rpc::CallHandler* back_channel = nullptr;
  ResponderOptions responder{.credits = 8, .chunks = false};
  Loop* loop = nullptr;  // for rpc::Peer
  LocalPort local_port = LocalPort::kAny;
  Duration connect_limit = std::chrono::seconds(10);  // until the server has answered; see rdma::ConnectOptions
};

// Destroying it disconnects. Calls that are under way then end with kDisconnected.
class Client : public rpc::Channel {
 public:
  ~Client() override;

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

  Requester& requester();
  const rpc::Peer& peer() const;
  const Thresholds& thresholds() const;
  const rdma::Endpoint& endpoint() const;
  // Once this is true all calls fail; connect anew.
  bool lost() const;
  // Why, for people.
  const std::string& end() const;

 private:
  friend Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> Connect(rdma::Provider&, rdma::Address,
                                                                           ClientOptions, TimerService&);
  class Link;
  explicit Client(Link& link) : link_(link) {}
  Link& link_;  // owns itself until it has finished
};

// `timers` outlives the connection, which may end a little later than the Client.
Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> Connect(rdma::Provider& provider, rdma::Address server,
                                                                  ClientOptions options, TimerService& timers);

}  // namespace penstock::rpcrdma
