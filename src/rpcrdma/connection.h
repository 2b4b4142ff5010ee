// One RPC-over-RDMA connection. It posts receives, passes each message to its role (requester, responder, or both: RFC
// 8167), and passes each completion to the coroutine that waits for it.
//
// Life: the owner makes the connection with an endpoint, sets its roles and starts it. The connection is lost when
// either side disconnects. It is finished when it is lost and no activity is left on it: every call has returned to its
// caller, and every handler has returned its reply. Then it calls `on_finished`, and the owner may destroy it, but not
// earlier.
//
// Buffers: a receive buffer belongs to the pool until it is posted, and to the endpoint until its completion. After
// that it belongs to the message and to each holder of a Slice of the message. The connection posts a new buffer in its
// place at once, unless the responder takes the receive back.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

// A message that has arrived, with its parsed header.
struct Received {
  Slice bytes;
  Header header;
  size_t header_size = 0;

  // The Payload stream of an RDMA_MSG or RDMA_MSGP.
  Slice payload() const { return bytes.Sub(header_size, bytes.size() - header_size); }
};

class Connection {
 public:
  // `posted` is the number of receives that the endpoint was made with, each of own.receive_size octets. `timers` must
  // outlive the connection. Without `peer`, the private data of the peer is what it has sent.
  Connection(std::unique_ptr<rdma::Endpoint> endpoint, const PrivateData& own, uint32_t posted,
             const HeaderLimits& limits, TimerService& timers, std::function<void()> on_finished,
             std::optional<PrivateData> peer = std::nullopt);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The size of the receives that a connection begins with. If it begins with one, the peers may agree on messages of
  // up to `most` octets, and the receive must already hold the first of them.
  static uint32_t FirstReceiveSize(const PrivateData& own, bool one_receive_first, uint32_t most) {
    return one_receive_first ? std::max(own.receive_size, most) : own.receive_size;
  }
  // `count` receives of `size` octets for ConnectOptions.
  static std::vector<rdma::ReceiveRequest> MakeReceives(uint32_t size, uint32_t count) {
    return std::vector<rdma::ReceiveRequest>(count, {.size = size});
  }

  // Both roles must outlive the last event of the connection. Set the responder before Start(), and the requester
  // before its first call.
  void set_requester(Requester& requester) { requester_ = &requester; }
  void set_responder(Responder& responder) { responder_ = &responder; }
  // Set before Start(). The connection calls it when it is lost, before it tells its roles.
  void set_on_lost(std::function<void()> on_lost) { on_lost_ = std::move(on_lost); }
  // Set before Start(). Called with true when the first activity begins, and with false when the last activity ends.
  void set_on_activity(std::function<void(bool active)> on_activity) { on_activity_ = std::move(on_activity); }
  // The number for log lines: rpc::Peer::connection.
  void set_number(uint64_t number) { number_ = number; }
  // The peer may pad its calls to this boundary, from now on; 0: it may not. See padding.h. May be called at any time.
  void SetPadding(uint32_t boundary) { limits_.padding = boundary; }
  void Start();

  rdma::Endpoint& endpoint() { return *endpoint_; }
  const rdma::Endpoint& endpoint() const { return *endpoint_; }
  BufferPool& buffers() { return endpoint_->buffers(); }
  TimerService& timers() { return timers_; }
  const Thresholds& thresholds() const { return thresholds_; }

  // Changes the agreed sizes. The receives for longer Sends of the peer must be posted before the peer learns of them.
  void set_send_threshold(uint32_t octets) { thresholds_.send = std::min(octets, endpoint_->limits().max_message); }
  void set_receive_threshold(uint32_t octets) { thresholds_.receive = octets; }
  // The size of all receives that are posted from now on. At first it is the announced size.
  void set_receive_size(uint32_t octets) { receive_size_ = octets; }
  uint32_t announced_receive_size() const { return announced_receive_size_; }

  // Serializes a header into a new buffer, for a Send.
  Slice Serialize(const Header& header);

  // Keeps `count` more receives posted, from now on. Each role calls this for its own receives.
  void AddReceives(uint32_t count);
  // The number of receives that the roles keep posted.
  uint32_t receives() const { return needed_; }

  // Ends the connection. Returns at once; requests and calls that are under way fail later, as the completions arrive.
  void Disconnect(std::string why);
  // True once the connection is lost. Then no message can be sent, and the peer cannot access any memory.
  bool lost() const { return lost_; }
  // The reason for the end of the connection, for logs.
  const std::string& end() const { return end_; }

  // Logs the state of a call, at debug level. A call logs a line when it enters a new state, such as waiting for a
  // credit.
  template <class... Args>
  void LogState(rpc::Xid xid, fmt::format_string<Args...> state, Args&&... args) const {
    if (log::debugging(log::ModuleHere())) WriteState(xid, state, fmt::make_format_args(args...));
  }

  // An activity, such as a call. The connection does not finish while an Activity exists.
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
  // Handles completions until none is left or the connection's turn on its loop is over. Then DrainLater() continues,
  // and notifications until then change nothing, because it polls again.
  void Drain();
  void DrainLater();
  void HandleCompletion(rdma::Completion& completion);
  void HandleMessage(Slice bytes);
  void HandleUnreadable(const FixedHeader& fixed, HeaderError error);
  // Posts a receive in the place of one that has completed, or gives it up.
  void ReplaceReceive(bool give_up);
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
  HeaderLimits limits_;
  TimerService& timers_;
  const uint32_t announced_receive_size_;
  uint32_t receive_size_;
  Thresholds thresholds_;
  uint64_t number_ = 0;
  Requester* requester_ = nullptr;
  Responder* responder_ = nullptr;
  std::function<void()> on_lost_;
  std::function<void(bool active)> on_activity_;
  uint32_t posted_;  // receives that are posted, and completed ones that are about to be replaced
  uint32_t needed_ = 0;
  size_t activities_ = 0;
  bool lost_ = false;
  bool disconnecting_ = false;
  std::string end_;
  std::unique_ptr<Timer> drain_;  // calls DrainLater()
  bool draining_later_ = false;   // drain_ runs
  // Calls on_finished from the timer service, because an endpoint must not be destroyed inside a call of its own.
  std::unique_ptr<Timer> finish_;
  std::array<rdma::Completion, 16> batch_;
  size_t polled_ = 0, handled_ = 0;  // of batch_
};

}  // namespace penstock::rpcrdma
