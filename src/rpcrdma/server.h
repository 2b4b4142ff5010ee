// An RPC-over-RDMA server: it accepts the connections of a listener and serves the calls on them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/address.h"
#include "base/task.h"
#include "metrics/counts.h"
#include "rdma/provider.h"
#include "rpc/connection_control.h"
#include "rpc/connection_table.h"
#include "rpc/transport.h"
#include "rpcrdma/requester.h"
#include "rpcrdma/responder.h"

namespace penstock::rpc {
struct SteppingConnection;
}

namespace penstock::rpcrdma {

struct ServerOptions {
  // RFC 8797. The sizes must not exceed the longest Send that the provider can make.
  PrivateData private_data{.remote_invalidation = true, .send_size = 4096, .receive_size = 4096};
  uint16_t ird = 16;
  uint16_t ord = 16;
  HeaderLimits limits;
  ResponderOptions responder;
  // The longest Send of either side that a program may agree on with a client (rpc::ConnectionControl). At least the
  // sizes of private_data.
  uint32_t max_agreed_size = 4096;
  // The longest call that a client may agree on that asks for few calls at once (rpc::AgreedLimits). Less than
  // max_agreed_size counts as that. A connection with one receive first begins with a receive of the larger size.
  uint32_t longest_agreed_call = 0;
  // The largest boundary that the server lets clients pad their calls to (see padding.h); 0: no padding.
  uint32_t padding = 0;
  // For calls to the clients (RFC 8167; rpc::Peer::back_channel). The first call to a client posts the receives for the
  // replies. Only short messages, because clients announce that (RFC 8267 §6.5.2).
  RequesterOptions requester{.credits = 8, .chunks = false, .call_timeout = std::chrono::seconds(15)};
  // Shared by all servers of the process. Null: the server makes its own.
  std::shared_ptr<rpc::ConnectionTable> connections;
  // Shared by all servers of the process. Null: the server makes its own. Calls that cannot get memory wait, and the
  // server does not pull their chunks meanwhile.
  std::shared_ptr<rpc::MemoryBudget> memory;
  // The memory for messages that are longer than kUsualThreshold, shared by all servers of the process and fairly by
  // hosts. A connection reserves what its credits promise, and announces kUsualThreshold if there is not enough. Null:
  // without limit.
  std::shared_ptr<rpc::MemoryBudget> messages{};
  // Returns true if a client with this address may connect. Empty: all clients may connect.
  std::function<bool(const IpAddress&)> allow;
  Loop* loop = nullptr;  // for rpc::Peer
  // A client whose connection steps up must send its MPA Request within this time.
  Duration step_up_limit = std::chrono::seconds(5);
  // Counts the connections and their calls.
  metrics::Recorder recorder{};
};

// A server belongs to the loop of the provider that its listener is of.
class Server {
 public:
  // The references must outlive the server.
  Server(TimerService& timers, rpc::CallHandler& handler, ServerOptions options = {});
  // Requires that Stop() has completed, or that Start() was never called.
  ~Server();

  void Start(std::unique_ptr<rdma::Listener> listener);

  // Accepts no more connections and no more calls. Running calls end, and their replies leave. After `drain_limit` it
  // disconnects the connections that are left. Completes when all connections are gone, and so not before the handler
  // has finished its calls.
  Task<void> Stop(Duration drain_limit);

  // Takes a TCP connection that becomes an RDMA connection. Sends its last octets, waits for the MPA Request of the
  // client, and serves the calls that follow. The connection keeps its number, its accounts and its back channel, and
  // has the limits that it brings. It is closed if the client sends anything else. `provider` must be able to step up,
  // belong to the loop of this server, and outlive the server.
  void StepUp(rdma::Provider& provider, rpc::SteppingConnection connection);
  // The most that a program may agree on with a client, for such connections and for others.
  rpc::AgreedLimits agreed_limits() const { return LimitsOf(options_); }

  size_t connections() const { return links_.size(); }
  // Changes the number of credits of every connection but the bound ones, from now on.
  void SetCredits(uint32_t credits);

 private:
  class BackChannel;
  class Link;

  // Makes the server's loop call a function with the link of this number, if the server and the link still exist. Any
  // thread may call it, also after the server is gone.
  struct PostToLink {
    Loop* loop;
    std::weak_ptr<Server*> server;
    uint64_t number;
    void operator()(std::function<void(Link&)> handle) const;
    // Runs `handle` at once, on the server's loop.
    void Run(const std::function<void(Link&)>& handle) const;
  };

  Task<void> AcceptAll();
  using Place = std::unique_ptr<rpc::ConnectionTable::Place>;
  struct Origin;
  Task<void> Accept(std::unique_ptr<rdma::ConnectionRequest> request, Place place);
  Task<void> TakeOver(rdma::Provider& provider, rpc::SteppingConnection connection);
  // Lowers the announced size of messages to what the peer can send and what options.messages has left. Returns the
  // reservation; null if there is none.
  static std::unique_ptr<rpc::MemoryBudget::Account> ReserveMessages(const rdma::ConnectionRequest& request,
                                                                     ServerOptions& options);
  void Adopt(std::unique_ptr<rdma::Endpoint> endpoint, Origin origin, const ServerOptions& options);
  static rpc::AgreedLimits LimitsOf(const ServerOptions& options);
  // The receives that a connection begins with.
  static std::vector<rdma::ReceiveRequest> FirstReceives(const ServerOptions& options);
  // Their size.
  static uint32_t FirstReceiveSize(const ServerOptions& options);
  void CheckStopped();

  TimerService& timers_;
  rpc::CallHandler& handler_;
  ServerOptions options_;
  std::unique_ptr<rdma::Listener> listener_;
  RefusedCalls refused_;
  std::map<uint64_t, std::unique_ptr<Link>> links_;  // the key is rpc::Peer::connection
  size_t accepting_ = 0;                             // AcceptAll(), and connections in set-up
  bool stopping_ = false;
  std::stop_source stop_;  // ends the waits for clients that step up
  // For functions that other threads post to the server's loop.
  const std::shared_ptr<Server*> self_ = std::make_shared<Server*>(this);
  OneShot<> stopped_;
};

}  // namespace penstock::rpcrdma
