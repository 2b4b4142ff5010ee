// A Channel that outlives its connections: when one is lost, it makes another and sends again what had no reply.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/signal.h"
#include "base/timer.h"
#include "rpc/transport.h"

namespace penstock::client {

struct RetryPolicy {
  // Before a connection is tried again: one that was refused, or was lost before it carried a reply. Each delay is
  // twice the one before, up to the longest.
  Duration first_delay = std::chrono::milliseconds(100);
  Duration longest_delay = std::chrono::seconds(10);
  // How long a call is tried, measured from its beginning; after that it fails with kDisconnected.
  Duration give_up_after = std::chrono::minutes(10);
};

// A call is sent again with the XID that it had: a server that remembers replies executes it once (RFC 1813 §4.3 and
// RFC 5531 §9). Only over a new connection; over the same one nothing is ever sent twice.
//
// Belongs to one loop. Must not be destroyed while a call is under way.
class ReconnectingChannel final : public rpc::Channel {
 public:
  // Makes one connection within `time_limit`; the error is for people.
  using Opener = std::function<Task<Result<std::unique_ptr<rpc::Channel>, std::string>>(Duration time_limit)>;

  ReconnectingChannel(TimerService& timers, Opener opener, RetryPolicy policy = {})
      : timers_(timers), opener_(std::move(opener)), policy_(policy) {}

  // The first connection: tried once, so that a wrong address is told at once.
  Task<Result<void, std::string>> Connect();

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

  // How often a lost connection was replaced.
  uint64_t reconnections() const { return reconnections_; }
  // Why calls have no reply, for people: what came of the last attempt to connect, or of the connection. Empty where the last
  // call had one. Whoever watches the log at its default level is told when calls begin to wait, and when they go on.
  const std::string& trouble() const { return trouble_; }

 private:
  Task<void> Reconnect(TimePoint give_up);
  void HandleReply(const rpc::Channel& from);
  void HandleLoss(rpc::CallError error);
  Task<void> Wait(TimePoint give_up);

  TimerService& timers_;
  const Opener opener_;
  const RetryPolicy policy_;
  std::shared_ptr<rpc::Channel> channel_;  // null while there is no connection
  std::shared_ptr<rpc::Channel> lost_;     // the one before, until no code of its own can be running
  bool reconnecting_ = false;
  Duration delay_ = Duration::zero();  // before the next attempt
  uint64_t reconnections_ = 0;
  bool has_replied_ = false;  // over this connection
  std::string trouble_;
  bool told_ = false;  // of this trouble
  Signal changed_;
};

}  // namespace penstock::client
