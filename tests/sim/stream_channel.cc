#include "stream_channel.h"

#include <utility>

namespace penstock::simulation {

struct StreamChannel::Connection {
  std::shared_ptr<StreamCalls> calls;
  rpc::CallHandler* handler;
  rpc::Peer peer;
  size_t executing = 0;  // calls of the server

  static Task<void> Answer(std::shared_ptr<Connection> self, rpc::Message call) {
    ++self->executing;
    rpc::Message reply = co_await self->handler->HandleCall(std::move(call), self->peer);
    --self->executing;
    if (reply.empty()) {
      self->calls->Close();
    } else {
      self->calls->Reply(std::move(reply));
    }
  }
};

Task<std::unique_ptr<StreamChannel>> StreamChannel::Connect(rdma::sim::Network& network, rdma::Provider& provider,
                                                            rdma::Address server, Options options) {
  std::unique_ptr<rdma::sim::StreamSocket> socket =
      co_await rdma::sim::StreamSocket::Connect(network, provider, std::move(server));
  if (!socket) co_return nullptr;
  auto connection = std::make_shared<Connection>();
  connection->handler = options.back_channel;
  connection->peer.address = socket->peer();
  connection->peer.local = socket->local();
  connection->peer.connection = rpc::NewConnectionNumber();
  connection->peer.buffers = &provider.buffers();
  connection->calls =
      std::make_shared<StreamCalls>(network.world(), provider.buffers(), std::move(socket), std::chrono::seconds(60));
  const auto on_call = [weak = std::weak_ptr(connection)](rpc::Message call) {
    const auto self = weak.lock();
    if (self && self->handler) Spawn(Connection::Answer(self, std::move(call)));
  };
  connection->calls->Start(on_call, std::move(options.on_closed));
  co_return std::unique_ptr<StreamChannel>(new StreamChannel(std::move(connection)));
}

StreamChannel::~StreamChannel() { connection_->calls->Close(); }

Task<Result<rpc::Message, rpc::CallError>> StreamChannel::Call(rpc::Message call, rpc::ReplyShape /*shape*/) {
  return connection_->calls->Call(std::move(call));
}

std::optional<ReleasedSocket> StreamChannel::Release() {
  StreamCalls& calls = *connection_->calls;
  if (calls.closed() || !calls.idle() || connection_->executing > 0) return std::nullopt;
  return calls.Release();
}

}  // namespace penstock::simulation
