// A client's connection to a server. Connect() sets it up, and the client then makes its calls through it.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
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
  // With requester.one_receive_first: the longest reply that Bind() may agree on; not below private_data.receive_size.
  // The receives before Bind() have this size.
  uint32_t max_agreed_size = 4096;
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
  std::stop_token stop{};                             // ends the set-up early; see rdma::ConnectOptions
};

// The destructor disconnects. Calls that are under way then end with kDisconnected.
class Client : public rpc::Channel {
 public:
  ~Client() override;

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;
  void Close() override;

  // Sets the limits that the server has granted in the reply to a call, once, before the next call: the sizes of Sends
  // both ways, and the number of calls. The receives for their replies are posted now. For a connection with
  // ClientOptions::requester.one_receive_first; others can only keep their sizes or lower them. A longer reply than
  // `max_agreed_size` would end the connection, so do not ask for one.
  void Bind(const rpc::ConnectionLimits& limits);
  // Returns credits to the server until `target` of them are left, but never the last one
  // (draft-talpey-nfsv4-rdma-sess-01 §2.4): a free credit by an empty Send, and a credit in use after its call has its
  // reply. Until then, new calls use no more than the target. Later the grants of the server count again. Returns false
  // if the connection is lost. Only for a server that expects this: others ignore empty Sends, and grant the credits
  // again.
  Task<bool> ReturnCredits(uint32_t target);

  Requester& requester();
  // Pads the payloads of the next calls to this boundary, which the server has granted; 0: no pads.
  void SetPadding(uint32_t boundary) { requester().SetPadding(boundary); }
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

// Makes an RDMA connection of a TCP connection whose server has granted that with these limits. The sizes, the credits,
// the padding and the Reads of the limits replace those of `options`. `timers` as above.
Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> StepUp(rdma::Provider& provider, ReleasedSocket socket,
                                                                 rpc::ConnectionLimits limits, ClientOptions options,
                                                                 TimerService& timers);

}  // namespace penstock::rpcrdma
