// A Channel that outlives its connections. If a connection is lost, the channel makes another one and sends the calls
// again that have no reply.
#pragma once

#include <functional>
#include <memory>

#include "base/cancellation.h"
#include "base/result.h"
#include "base/signal.h"
#include "base/timer.h"
#include "client/url_options.h"
#include "rpc/transport.h"

namespace penstock::client {

struct RetryPolicy {
  // The delay before the next attempt if a connection was refused, or was lost before it carried a reply. Each delay is
  // twice the previous one, up to the longest.
  std::string server{};  // its name in the log
  Duration first_delay = std::chrono::milliseconds(100);
  Duration longest_delay = std::chrono::seconds(10);
  // A call that has no reply after this time fails with kDisconnected. kNoTimeLimit: no call does.
  Duration give_up_after = std::chrono::minutes(10);
  // The time for which a connection waits for a reply. It grows by as much with each connection that has waited in
  // vain, up to 10 minutes.
  Duration reply_limit = std::chrono::seconds(60);
};

// A repeated call keeps its XID, so that a server with a reply cache executes it once (RFC 1813 §4.3, RFC 5531 §9).
// Calls are repeated only over a new connection, never over the same one.
//
// Belongs to one loop. Must not be destroyed while a call is under way.
class ReconnectingChannel final : public rpc::Channel {
 public:
  // Makes one connection within `time_limit`.
  using Opener = std::function<Task<SetupResult<std::unique_ptr<rpc::Channel>>>(Duration time_limit)>;

  // When `ending` is cancelled, the channel closes its connection: calls that are under way or wait fail with
  // kCancelled, and later ones at once. The opener must then end early, too. `ending` outlives the channel. Null:
  // nothing ends it.
  ReconnectingChannel(TimerService& timers, Opener opener, RetryPolicy policy = {}, Cancellation* ending = nullptr);

  // Makes the first connection. It makes one attempt only, so that a wrong address is reported at once.
  Task<SetupResult<void>> Connect();

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

  // The opener calls this before it returns an error that further attempts do not change. The calls that wait for a
  // connection then fail with kRefused. Later calls make an attempt again.
  void HandleRefusal() { refused_ = true; }

  // Call it before the last calls, which tell the server that this client ends. From then on nobody waits for a server
  // that is gone: each failed attempt counts as refused, a call is not sent again when its reply is overdue, and none
  // is sent to a server that owes a reply.
  void HandleClosing();

  // The time for which the next connection should wait for a reply, for the opener.
  Duration reply_limit() const;

  // Counts the lost connections that were replaced.
  uint64_t reconnections() const { return reconnections_; }
  // Says why calls have no reply: the failure of the last connection or connection attempt. The message is empty if the
  // last call had a reply. The log tells at its default level when calls begin to wait and when they go on.
  const SetupError& trouble() const { return trouble_; }

 private:
  Task<void> Reconnect(TimePoint give_up);
  void HandleEnding();
  void CloseConnection();
  void HandleReply(const rpc::Channel& from);
  void HandleLoss(rpc::CallError error);
  Task<void> Wait(TimePoint give_up);

  TimerService& timers_;
  const Opener opener_;
  const RetryPolicy policy_;
  std::shared_ptr<rpc::Channel> channel_;  // null while there is no connection
  std::shared_ptr<rpc::Channel> lost_;     // the previous channel, kept until none of its code is running
  bool reconnecting_ = false;
  bool refused_ = false;  // by the attempt under way
  bool closing_ = false;
  uint64_t refusals_ = 0;              // attempts that were refused
  uint32_t overdue_ = 0;               // replies that were overdue since the last reply
  Duration delay_ = Duration::zero();  // before the next attempt
  uint64_t reconnections_ = 0;
  bool had_one_ = false;      // there was a connection
  bool has_replied_ = false;  // whether this connection has carried a reply
  SetupError trouble_;
  bool told_ = false;  // whether the log has this trouble
  Signal changed_;
  Cancellation* const ending_;
  const Cancellation::Entry ending_entry_;
};

}  // namespace penstock::client
