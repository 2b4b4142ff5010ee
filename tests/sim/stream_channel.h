// The client's end of a simulated TCP connection: the place of rpc::tcp::Channel in a simulation.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "rdma/sim/network.h"
#include "stream_calls.h"

namespace penstock::simulation {

class StreamChannel final : public rpc::Channel {
 public:
  struct Options {
    // Executes the calls of the server. It outlives the channel and its calls. Null: the channel drops these calls.
    rpc::CallHandler* back_channel = nullptr;
    // Called once when the connection is closed by either side, but not by Release(). It must not destroy the channel.
    std::function<void()> on_closed{};
  };
  // Returns null if the server cannot be reached. The arguments outlive the channel.
  static Task<std::unique_ptr<StreamChannel>> Connect(rdma::sim::Network& network, rdma::Provider& provider,
                                                      rdma::Address server, Options options);
  ~StreamChannel() override;

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

  // Gives the connection away. Returns nothing while a call is under way in either direction, or if it is closed.
  std::optional<ReleasedSocket> Release();

 private:
  struct Connection;
  explicit StreamChannel(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  const std::shared_ptr<Connection> connection_;  // its calls hold it
};

}  // namespace penstock::simulation
