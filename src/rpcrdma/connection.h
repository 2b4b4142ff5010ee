// One RPC-over-RDMA connection: receives are posted, messages go to the role that they are for, completions to whoever
// waits for them. Either role, requester or responder, or both (RFC 8167) may live on it.
//
// Life: made with an endpoint, given its roles, started. It ends when the connection is lost, by us or by the peer; it is
// finished when moreover nothing is under way on it any more: every call has returned to its caller, every handler has
// given its reply. Then, and only then, `on_finished` is called and the owner may destroy it.
//
// Buffers: a receive buffer is the pool's until it is posted, the endpoint's until its completion, and then belongs to the
// message in it and whoever holds a Slice of that. A fresh one is posted in its place at once.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/timer.h"
#include "rdma/provider.h"
#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"

namespace penstock::rpcrdma {

class Requester;
class Responder;

// A message that has arrived.
struct Received {
  Slice bytes;
  Header header;
  size_t header_size = 0;

  // RDMA_MSG: the Payload stream.
  Slice payload() const { return bytes.Sub(header_size, bytes.size() - header_size); }
};

class Connection {
 public:
  // `posted`: receives of own.receive_size octets that the endpoint was made with. `timers` outlives this.
  Connection(std::unique_ptr<rdma::Endpoint> endpoint, const PrivateData& own, uint32_t posted,
             const HeaderLimits& limits, TimerService& timers, std::function<void()> on_finished);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Receives for ConnectOptions.
  static std::vector<rdma::PostedReceive> MakeReceives(BufferPool& buffers, const PrivateData& own, uint32_t count);

  // The roles outlive the connection's last event. The responder is given before Start(), the requester before its first call.
  void set_requester(Requester& requester) { requester_ = &requester; }
  void set_responder(Responder& responder) { responder_ = &responder; }
  // Called when the connection is lost, before the roles are told. Before Start().
  void set_on_lost(std::function<void()> on_lost) { on_lost_ = std::move(on_lost); }
  // Called when something is under way after there was nothing, and when there is nothing any more. Before Start().
  void set_on_activity(std::function<void(bool active)> on_activity) { on_activity_ = std::move(on_activity); }
  // rpc::Peer::connection, for logs.
  void set_number(uint64_t number) { number_ = number; }
  void Start();

  rdma::Endpoint& endpoint() { return *endpoint_; }
  BufferPool& buffers() { return endpoint_->buffers(); }
  TimerService& timers() { return timers_; }
  const Thresholds& thresholds() const { return thresholds_; }

  // A header in memory of its own, to be sent.
  Slice Serialize(const Header& header);

  // Makes sure that a role always finds `count` receives posted for it, beside those of the other.
  void AddReceives(uint32_t count);

  // Ends the connection. What is under way on it gets to know by and by.
  void Disconnect(std::string why);
  // True once the connection is lost: nothing can be sent any more, and the peer reaches no memory.
  bool lost() const { return lost_; }
  // Why, for logs.
  const std::string& end() const { return end_; }

  // One line at debug level for each state that a call is in, named after what it waits for.
  template <class... Args>
  void LogState(rpc::Xid xid, fmt::format_string<Args...> state, Args&&... args) const {
    if (log::debugging()) WriteState(xid, state, fmt::make_format_args(args...));
  }

  // Something under way. The connection is not finished while there is one.
  class Activity {
   public:
    explicit Activity(Connection& connection) : connection_(&connection) { connection.BeginActivity(); }
    Activity(Activity&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
    Activity& operator=(Activity&&) = delete;
    ~Activity() {
      if (connection_) connection_->EndActivity();
    }

   private:
    Connection* connection_;
  };

 private:
  void WriteState(rpc::Xid xid, fmt::string_view state, fmt::format_args arguments) const;
  void Drain();
  void HandleCompletion(rdma::Completion& completion);
  void HandleMessage(Slice bytes);
  void HandleLost(const rdma::Completion& completion);
  void BeginActivity() {
    if (++activities_ == 1 && on_activity_) on_activity_(true);
  }
  void EndActivity() {
    if (--activities_ > 0) return;
    if (on_activity_) on_activity_(false);
    CheckFinished();
  }
  void CheckFinished();

  std::unique_ptr<rdma::Endpoint> endpoint_;
  const HeaderLimits limits_;
  TimerService& timers_;
  const uint32_t receive_size_;
  const Thresholds thresholds_;
  uint64_t number_ = 0;
  Requester* requester_ = nullptr;
  Responder* responder_ = nullptr;
  std::function<void()> on_lost_;
  std::function<void(bool active)> on_activity_;
  uint32_t posted_;  // receives that are posted, or are being replaced
  uint32_t needed_ = 0;
  size_t activities_ = 0;
  bool lost_ = false;
  bool disconnecting_ = false;
  std::string end_;
  std::unique_ptr<Timer> finish_;  // an endpoint must not be destroyed from inside its own call
  std::array<rdma::Completion, 16> batch_;
};

}  // namespace penstock::rpcrdma
