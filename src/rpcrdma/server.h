// The serving side: takes the peers of a listener and answers their calls.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "base/address.h"
#include "base/task.h"
#include "rdma/provider.h"
#include "rpc/connection_table.h"
#include "rpc/transport.h"
#include "rpcrdma/requester.h"
#include "rpcrdma/responder.h"

namespace penstock::rpcrdma {

struct ServerOptions {
  // RFC 8797. No longer Sends than the provider can make.
  PrivateData private_data{.remote_invalidation = true, .send_size = 4096, .receive_size = 4096};
  uint16_t ird = 16;
  uint16_t ord = 16;
  HeaderLimits limits;
  ResponderOptions responder;
  // Calls to the clients (RFC 8167; rpc::Peer::back_channel). Receives for their replies are posted, for each client, with the
  // first call to it. Short messages only, as clients announce it (RFC 8267 §6.5.2).
  RequesterOptions requester{.credits = 8, .chunks = false, .call_timeout = std::chrono::seconds(15)};
  // Of the process; null: one of its own.
  std::shared_ptr<rpc::ConnectionTable> connections;
  // Of the process; null: one of its own. Calls that may not have more of it wait, and what is to be pulled for them stays
  // where it is.
  std::shared_ptr<rpc::MemoryBudget> memory;
  // Who may connect. Empty: everybody.
  std::function<bool(const IpAddress&)> allow;
  Loop* loop = nullptr;  // for rpc::Peer
};

// Belongs to the loop of its provider.
class Server {
 public:
  // All outlive the server.
  Server(rdma::Provider& provider, TimerService& timers, rpc::CallHandler& handler, ServerOptions options = {});
  // Requires that Stop() is done, or Start() was never called.
  ~Server();

  void Start(std::unique_ptr<rdma::Listener> listener);

  // Takes no more connections and no more calls, lets those that run end and their replies go out, and ends after
  // `drain_limit` what is still connected then. Done when every connection has gone, which is not before the handler has
  // finished its calls.
  Task<void> Stop(Duration drain_limit);

  size_t connections() const { return links_.size(); }
  // As many credits for every connection, from now on.
  void SetCredits(uint32_t credits);

 private:
  class BackChannel;
  class Link;

  Task<void> AcceptAll();
  using Place = std::unique_ptr<rpc::ConnectionTable::Place>;
  Task<void> Accept(std::unique_ptr<rdma::ConnectionRequest> request, Place place);
  void Adopt(std::unique_ptr<rdma::Endpoint> endpoint, Place place);
  void Evict(uint64_t number);
  // Has `handle` called on our loop, later, for the link of that number if that is still there.
  std::function<void()> PostFor(uint64_t number, void (Server::*handle)(uint64_t));
  void HandleRoom(uint64_t number);
  uint32_t ReceivesPerConnection() const;
  void CheckStopped();

  rdma::Provider& provider_;
  TimerService& timers_;
  rpc::CallHandler& handler_;
  ServerOptions options_;
  std::unique_ptr<rdma::Listener> listener_;
  RefusedCalls refused_;
  std::map<uint64_t, std::unique_ptr<Link>> links_;  // by rpc::Peer::connection
  size_t accepting_ = 0;                             // AcceptAll() and connections being set up
  bool stopping_ = false;
  // For what others post to our loop.
  const std::shared_ptr<Server*> self_ = std::make_shared<Server*>(this);
  OneShot<> stopped_;
};

}  // namespace penstock::rpcrdma
