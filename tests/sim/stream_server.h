// The server of simulated TCP connections: the place of rpc::tcp::Server in a simulation. A call may bind its
// connection to limits, or change it into an RDMA connection (rpc/connection_control.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "base/signal.h"
#include "findings.h"
#include "rdma/sim/stream.h"
#include "rpc/connection_control.h"
#include "rpc/connection_table.h"
#include "rpc/memory_budget.h"
#include "rpc/step_up.h"
#include "stream_calls.h"

namespace penstock::simulation {

class StreamServer {
 public:
  struct Options {
    std::shared_ptr<rpc::ConnectionTable> connections;
    std::shared_ptr<rpc::MemoryBudget> memory;
    // The most octets of a message, and the most calls of a connection.
    uint32_t max_message = 2 << 20;
    uint32_t max_calls = 128;
    // Takes a connection that becomes an RDMA connection. Empty: no connection does.
    std::function<void(rpc::SteppingConnection)> step_up{};
    rpc::AgreedLimits step_up_limits{};
  };
  // All arguments outlive the server.
  StreamServer(rdma::sim::Network& network, BufferPool& buffers, rpc::CallHandler& handler, Findings& findings,
               Options options);
  // Requires that Stop() has completed, or that Start() was never called.
  ~StreamServer();

  void Start(const rdma::Address& local);
  // Closes all connections. Completes when the handler has finished its calls.
  Task<void> Stop();

 private:
  class Connection;

  void Accept(std::unique_ptr<rdma::sim::StreamSocket> socket);

  rdma::sim::Network& network_;
  BufferPool& buffers_;
  rpc::CallHandler& handler_;
  Findings& findings_;
  const Options options_;
  std::optional<rdma::sim::StreamListener> listener_;
  std::set<std::shared_ptr<Connection>> connections_;
  Signal changed_;
};

}  // namespace penstock::simulation
