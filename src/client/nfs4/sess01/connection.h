// A connection of a session of 2004: it keeps the credits of its operations channel, also over TCP
// (draft-talpey-nfsv4-rdma-sess-01 §2.2.4). Calls above the credits wait, and leave in their order.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "base/task.h"
#include "client/nfs4/sess01/lost_calls.h"
#include "rpc/transport.h"

namespace penstock::client::v4::sess01 {

// Belongs to its loop. Its calls hold it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Answer = Result<rpc::Message, rpc::CallError>;

  // `lost` takes the calls that have left when the connection is lost; null: nobody asks for them.
  explicit Connection(std::unique_ptr<rpc::Channel> transport, std::shared_ptr<LostCalls> lost = nullptr)
      : transport_(std::move(transport)), lost_(std::move(lost)) {}

  // As rpc::Channel::Call().
  static Task<Answer> Call(std::shared_ptr<Connection> self, rpc::Message call, rpc::ReplyShape shape);

  // The number of calls that may be without a reply at once. Until it is set, nothing limits it.
  void set_credits(uint32_t credits);
  uint32_t credits() const { return credits_; }

  // Replaces the transport: takes it out, and puts the new one in. No call may be under way.
  std::unique_ptr<rpc::Channel> TakeTransport() { return std::exchange(transport_, nullptr); }
  rpc::Channel* transport() { return transport_.get(); }
  void set_transport(std::unique_ptr<rpc::Channel> transport) { transport_ = std::move(transport); }

  // The connection is lost: later calls, and those that wait, fail with kDisconnected.
  void End();
  // Ends the connection, and closes its transport: all calls fail with kDisconnected.
  void Close();
  // The same, but the transport stays: this may be called while the connection is running.
  void Abort();
  // Whether the connection is closed or lost, as far as a call has noticed.
  bool ended() const { return ended_; }

 private:
  struct Waiter {
    OneShot<bool> admitted;  // false: the connection has ended
  };
  void Admit();

  std::unique_ptr<rpc::Channel> transport_;
  const std::shared_ptr<LostCalls> lost_;
  uint32_t credits_ = std::numeric_limits<uint32_t>::max();
  uint32_t in_flight_ = 0;
  bool ended_ = false;
  std::deque<Waiter*> waiters_;
};

}  // namespace penstock::client::v4::sess01
