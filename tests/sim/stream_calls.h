// RPC over a simulated TCP connection: the calls of one end, and those that it receives. The client and the server of a
// simulation use it alike.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/timer.h"
#include "rdma/sim/stream.h"
#include "rpc/transport.h"

namespace penstock::simulation {

// A message of the connection is one RPC message, in place of a record.
class StreamCalls final : private rdma::sim::StreamSocket::Owner, public std::enable_shared_from_this<StreamCalls> {
 public:
  using Answer = Result<rpc::Message, rpc::CallError>;

  // `timers` and `buffers` outlive it. A call without a reply fails after `call_limit`.
  StreamCalls(TimerService& timers, BufferPool& buffers, std::unique_ptr<rdma::sim::StreamSocket> socket,
              Duration call_limit);

  // `on_call` receives the calls of the peer, and `on_closed` is called once when the connection is closed by either
  // side, but not by Release().
  void Start(std::function<void(rpc::Message)> on_call, std::function<void()> on_closed);

  Task<Answer> Call(rpc::Message call);
  void Reply(rpc::Message reply);
  // Returns the octets of a message as Reply() would send them.
  std::vector<std::byte> OctetsOf(rpc::Message message);
  // True if no call of this end is under way.
  bool idle() const { return pending_.empty(); }
  bool closed() const { return !socket_ || socket_->closed(); }
  const rdma::sim::StreamSocket& socket() const { return *socket_; }

  // All pending calls fail with kDisconnected.
  void Close();
  // Gives the connection away. Requires idle().
  ReleasedSocket Release();

 private:
  using Pending = OneShot<Answer>;

  void HandleReceived(std::vector<std::byte> octets) override;
  void HandleClosed() override { Close(); }

  TimerService& timers_;
  BufferPool& buffers_;
  std::unique_ptr<rdma::sim::StreamSocket> socket_;
  const Duration call_limit_;
  std::function<void(rpc::Message)> on_call_;
  std::function<void()> on_closed_;
  std::map<uint32_t, Pending*> pending_;  // by XID; they live in the frames of Call()
};

}  // namespace penstock::simulation
