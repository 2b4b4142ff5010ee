#include "rpcrdma/client.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/released_socket.h"

namespace penstock::rpcrdma {
namespace {

uint32_t FirstReceiveSize(const ClientOptions& options) {
  return Connection::FirstReceiveSize(options.private_data, options.requester.one_receive_first,
                                      options.max_agreed_size);
}

uint32_t ReceivesFor(const ClientOptions& options) {
  const uint32_t replies = options.requester.first_receives();
  return options.back_channel ? replies + ResponderCredits(options.responder.credits).receives_needed() : replies;
}

std::vector<rdma::ReceiveRequest> FirstReceives(const ClientOptions& options) {
  return Connection::MakeReceives(FirstReceiveSize(options), ReceivesFor(options));
}

rpc::Peer PeerOf(rdma::Endpoint& endpoint, Loop* loop) {
  rpc::Peer peer;
  peer.transport = rpc::TransportKind::kRdma;
  peer.address = endpoint.info().peer;
  peer.local = endpoint.info().local;
  peer.connection = rpc::NewConnectionNumber();
  peer.buffers = &endpoint.buffers();
  peer.loop = loop;
  return peer;
}

}  // namespace

// The connection and its roles. It deletes itself when the Client is destroyed and no activity is left on the
// connection.
class Client::Link {
 public:
  Link(std::unique_ptr<rdma::Endpoint> endpoint, const ClientOptions& options, TimerService& timers,
       std::optional<PrivateData> server = std::nullopt)
      : peer_(PeerOf(*endpoint, options.loop)),
        connection_(
            std::move(endpoint), options.private_data, ReceivesFor(options), options.limits, timers,
            [this] { HandleFinished(); }, server),
        requester_(connection_, options.requester),
        on_lost_(options.on_lost) {
    connection_.set_receive_size(FirstReceiveSize(options));
    connection_.set_requester(requester_);
    if (options.back_channel) {
      responder_.emplace(connection_, *options.back_channel, peer_, options.responder);
      connection_.set_responder(*responder_);
    }
    connection_.set_number(peer_.connection);
    connection_.Start();
  }

  void Abandon() {
    abandoned_ = true;
    if (finished_) {
      delete this;
    } else {
      connection_.Disconnect("closed");
      // Calls of the server may still arrive, but the owner may destroy the handler from here on.
      if (responder_) responder_->Stop();
    }
  }

  rpc::Peer peer_;
  Connection connection_;
  Requester requester_;
  std::optional<Responder> responder_;

 private:
  void HandleFinished() {
    finished_ = true;
    if (on_lost_) on_lost_();
    if (abandoned_) delete this;
  }

  const std::function<void()> on_lost_;
  bool finished_ = false;
  bool abandoned_ = false;
};

Client::~Client() { link_.Abandon(); }

Task<Result<rpc::Message, rpc::CallError>> Client::Call(rpc::Message call, rpc::ReplyShape shape) {
  return link_.requester_.Call(std::move(call), std::move(shape));
}

void Client::Close() { link_.connection_.Disconnect("closed"); }

void Client::Bind(const rpc::ConnectionLimits& limits) { link_.requester_.Bind(limits); }
Task<bool> Client::ReturnCredits(uint32_t target) { return link_.requester_.ReturnCredits(target); }

Requester& Client::requester() { return link_.requester_; }
const rpc::Peer& Client::peer() const { return link_.peer_; }
const Thresholds& Client::thresholds() const { return link_.connection_.thresholds(); }
const rdma::Endpoint& Client::endpoint() const { return link_.connection_.endpoint(); }
bool Client::lost() const { return link_.connection_.lost(); }
const std::string& Client::end() const { return link_.connection_.end(); }

Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> Connect(rdma::Provider& provider, rdma::Address server,
                                                                  ClientOptions options, TimerService& timers) {
  rdma::ConnectOptions connect;
  connect.private_data = options.private_data.Serialize();
  connect.ird = options.ird;
  connect.ord = options.ord;
  connect.local_port = options.local_port;
  connect.time_limit = options.connect_limit;
  connect.stop = options.stop;
  connect.receives = FirstReceives(options);
  rdma::ConnectResult endpoint = co_await provider.Connect(std::move(server), std::move(connect));
  if (!endpoint) co_return std::unexpected(std::move(endpoint).error());
  auto* link = new Client::Link(*std::move(endpoint), options, timers);
  co_return std::unique_ptr<Client>(new Client(*link));
}

Task<Result<std::unique_ptr<Client>, rdma::ConnectError>> StepUp(rdma::Provider& provider, ReleasedSocket socket,
                                                                 rpc::ConnectionLimits limits, ClientOptions options,
                                                                 TimerService& timers) {
  const PrivateData server = ServerDataOf(limits);
  options.private_data = ClientDataOf(limits);
  options.requester.credits = std::min(options.requester.credits, limits.credits);
  options.requester.one_receive_first = false;
  rdma::ConnectOptions step_up;
  step_up.ird = static_cast<uint16_t>(std::min<uint32_t>(limits.reads, options.ird));
  step_up.ord = 0;  // the server offers no memory
  step_up.time_limit = options.connect_limit;
  step_up.stop = options.stop;
  step_up.receives = FirstReceives(options);
  rdma::ConnectResult endpoint =
      co_await provider.StepUp(std::move(socket), rdma::StepUpRole::kInitiator, {}, std::move(step_up));
  if (!endpoint) co_return std::unexpected(std::move(endpoint).error());
  auto* link = new Client::Link(*std::move(endpoint), options, timers, server);
  link->requester_.SetPadding(limits.padding);
  co_return std::unique_ptr<Client>(new Client(*link));
}

}  // namespace penstock::rpcrdma
