// The surroundings of a server of the sessions of 2004 in a fuzz target: time, callbacks, and connections on which the
// network holds requests up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/timer.h"
#include "nfs/v4/callback/callbacks.h"
#include "rpc/connection_control.h"
#include "rpc/transport.h"

namespace penstock::fuzz {

// Time that passes between COMPOUNDs.
class Clock : public TimerService {
 public:
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return nullptr; }
  TimePoint now{};
};

// Callbacks to clients that never answer.
class SilentCallbacks : public nfs::v4::Callbacks {
 public:
  void Recall(nfs::v4::ClientId, const nfs4::stateid4&, const nfs::FileHandle&,
              const std::optional<nfs::v4::RequestName>&) override {}
  Task<nfs::v4::HolderAttributes> GetAttributes(Loop*, nfs::v4::ClientId, const nfs::FileHandle&) override {
    co_return nfs::v4::HolderAttributes{};
  }
  void NotifyLock(nfs::v4::ClientId, const nfs::FileHandle&, ConstBytes) override {}
  void OffloadDone(nfs::v4::ClientId, const nfs::FileHandle&, const nfs4::stateid4&,
                   const nfs4::offload_info4&) override {}
};

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
