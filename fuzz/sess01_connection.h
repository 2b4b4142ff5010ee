// The connections of clients of the sessions of 2004 in a fuzz target. The network holds requests up on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/connection_control.h"
#include "rpc/transport.h"

namespace penstock::fuzz {

class Way : public rpc::BackChannel {
 public:
  explicit Way(const rpc::Peer& peer) : BackChannel(peer) {}
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message, rpc::ReplyShape) override {
    co_return std::unexpected(rpc::CallError::kDisconnected);
  }
  void CloseConnection(std::string) override { set_disconnected(); }
};

// A request of a session that keeps its replies.
struct Sent {
  size_t session;  // an index
  uint32_t stream;
  rpc::Message call;
  uint64_t over_first = 0;                        // the connection over which it was sent first
  bool retried = false;                           // so the client has lost that connection, and gets no answer over it
  std::optional<std::vector<std::byte>> reply{};  // the first one of an execution
  bool over = false;                              // the client has had an answer
};

// A connection whose transport grants whatever it is asked for.
class Connection : public rpc::ConnectionControl {
 public:
  explicit Connection(BufferPool& buffers, bool is_rdma) {
    peer.buffers = &buffers;
    peer.connection = rpc::NewConnectionNumber();
    peer.transport = is_rdma ? rpc::TransportKind::kRdma : rpc::TransportKind::kTcp;
    peer.back_channel = std::make_shared<Way>(peer);
    peer.control = this;
  }
  ~Connection() override { peer.back_channel->CloseConnection(""); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  rpc::ConnectionLimits Offer(const rpc::ConnectionLimits& asked) const override { return asked; }
  void Bind(rpc::Xid, const rpc::ConnectionLimits&) override {}
  size_t ReplyRoom(rpc::Xid) const override { return room; }
  std::optional<rpc::ConnectionLimits> OfferStepUp(rpc::Xid, const rpc::ConnectionLimits& asked) const override {
    return peer.transport == rpc::TransportKind::kTcp ? std::optional(asked) : std::nullopt;
  }
  void StepUp(rpc::Xid, const rpc::ConnectionLimits&) override { peer.transport = rpc::TransportKind::kRdma; }
  bool connected() const { return peer.back_channel->connected(); }

  rpc::Peer peer;
  size_t room = SIZE_MAX;
  size_t session = SIZE_MAX;               // what it is bound to, as an index
  uint32_t channel = 0;                    // its operations channel
  std::deque<std::shared_ptr<Sent>> held;  // what the network has not delivered yet
};

}  // namespace penstock::fuzz
