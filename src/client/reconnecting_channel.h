// A Channel that outlives its connections. It has one connection, or several that share the calls (`nconnect` of a
// URL). If a connection is lost, the channel makes another one and sends the calls again that have no reply.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/result.h"
#include "base/signal.h"
#include "base/timer.h"
#include "base/wait_limit.h"
#include "client/url_options.h"
#include "rpc/transport.h"

namespace penstock::client {

struct RetryPolicy {
  // The delay before the next attempt if a connection was refused, or was lost before it carried a reply. Each delay is
  // twice the previous one, up to the longest.
  std::string server{};  // its name in the log
  Duration first_delay = std::chrono::milliseconds(100);
  Duration longest_delay = std::chrono::seconds(10);
  // The time limit of an attempt if there may be connections of two kinds: one kind that does not answer must not hold
  // up the other for long.
  Duration longest_attempt = std::chrono::seconds(10);
  // A call that has no reply after this time fails with kDisconnected. kNoTimeLimit: no call does.
  Duration give_up_after = std::chrono::minutes(10);
  // The time for which a connection waits for a reply. It grows by as much with each connection that has waited in
  // vain, up to 10 minutes.
  Duration reply_limit = std::chrono::seconds(60);
};

// Where a call goes when its connection is lost.
enum class Repetition : uint8_t {
  // Over a connection that was made after the lost one. A server with a reply cache expects that: it takes an older
  // connection for one that the client has left (see rpc::ReplyCache).
  kOverNewerConnection,
  // Over any connection that is up, because the slots of a session recognize the call (RFC 8881 §2.10.6.2).
  kOverAnyConnection,
};

// The transport of a connection. A session of version 4.1 or later may have connections of two transports
// (RFC 8881 §2.10.3.1).
enum class ConnectionKind : uint8_t {
  kMain,   // the transport that the URL names first
  kOther,  // the one that it names besides (Url::tcp_port)
};

// A repeated call keeps its XID, so that a server with a reply cache executes it once (RFC 1813 §4.3, RFC 5531 §9). A
// call is repeated only after its connection was lost, never over the same one.
//
// Each call goes over the connection with the fewest calls under way, of several the one that was not used for longest:
// a server with a reply cache takes a connection without calls for one that the client has left. While more calls are
// under way than there are connections, the channel makes further ones in the background, up to the number that Widen()
// has set. So a connection that is lost is also replaced while the others go on.
//
// With connections of two kinds, a further connection is of the kind that lacks one, kMain first. A lost connection
// is replaced by one of its kind. While one kind cannot connect, the calls go over the other one. While no connection
// of kMain is up, each call may begin an attempt to make one.
//
// Belongs to one loop. Must not be destroyed while a call is under way, or a further connection is being made: see
// EndConnecting().
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

  // Lets the channel have so many connections at once, `others` of them of the kind kOther. Before, it has one.
  void Widen(size_t connections, Repetition repetition, size_t others = 0);
  // The connections that are up, as far as the channel knows.
  std::vector<std::shared_ptr<rpc::Channel>> connections() const;

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

  // The opener calls this before it returns an error that further attempts do not change. The calls that wait for a
  // connection then fail with kRefused. Later calls make an attempt again.
  void HandleRefusal() { refused_ = true; }

  // Call it before the last calls, which tell the server that this client ends. From then on nobody waits for a server
  // that is gone: each failed attempt counts as refused, a call is not sent again when its reply is overdue, and none
  // is sent to a server that owes a reply.
  void HandleClosing();
  // Whether a further connection is being made.
  bool connects_further() const { return making_further_; }
  // Waits until none is. Call it after HandleClosing(), with `ending` cancelled, so that it does not take long.
  Task<void> EndConnecting();

  // The time for which the next connection should wait for a reply, for the opener.
  Duration reply_limit() const;

  // For the opener: ends the attempt when the channel ends. With connections of two kinds, it also ends the attempt
  // after RetryPolicy::longest_attempt from LimitAttempt() on, and when the last connection is lost, if that one was of
  // the other kind and had replied: its kind is tried at once, but not twice in a row. The opener must then return an
  // error. Null outside of an attempt.
  Cancellation* attempt() { return attempt_ ? &*attempt_ : nullptr; }
  // For the opener: begins the time limit of the attempt. Call it when the addresses of the host are known.
  void LimitAttempt();
  // The kind that the next connection must have, for the opener.
  ConnectionKind next_kind() const { return next_kind_; }

  // The address to which the last connection was made. All connections that are up lead to it.
  const std::optional<SocketAddress>& server() const { return server_; }
  // For the opener: set it to the address to which the next connection is made.
  std::optional<SocketAddress>& reached() { return reached_; }

  // Counts the lost connections that were replaced.
  uint64_t reconnections() const { return reconnections_; }
  // Whether a connection was lost that is not replaced yet: the opener makes its successor.
  bool lacks_connection() const { return lacking_ > 0; }
  // Says why calls have no reply: the failure of the last connection or connection attempt. The message is empty if the
  // last call had a reply. The log tells at its default level when calls begin to wait and when they go on.
  const SetupError& trouble() const { return trouble_; }

 private:
  struct Connection {
    std::unique_ptr<rpc::Channel> channel;
    ConnectionKind kind = ConnectionKind::kMain;
    uint64_t number = 0;          // newer connections have higher numbers
    uint32_t overdue_before = 0;  // overdue_ when the connection was made
    size_t under_way = 0;         // calls
    uint64_t last_use = 0;        // the number of its last call
    bool has_replied = false;
  };
  using Pointer = std::shared_ptr<Connection>;

  // Returns the connection for a call that the connection number `lost_over` has lost, or null if there is none now.
  Pointer Choose(uint64_t lost_over) const;
  void Add(std::unique_ptr<rpc::Channel> channel);
  // Makes connections until one succeeds, on behalf of a call that has none.
  Task<void> Reconnect(TimePoint give_up);
  void ConnectFurther();
  bool HasUseForMore() const;
  size_t CountOf(ConnectionKind kind) const;
  // Whether fewer connections of the kind are up than the channel may have.
  bool Lacks(ConnectionKind kind) const;
  ConnectionKind ChooseKind() const;
  Task<void> MakeFurther();
  Task<void> DestroyLost();
  // Calls the opener.
  Task<SetupResult<std::unique_ptr<rpc::Channel>>> Open(Duration time_limit);
  // Makes one attempt. Returns whether that was enough: the connection is made, or further attempts are of no use now.
  Task<bool> Attempt(TimePoint give_up);
  void HandleEnding();
  void CloseConnections();
  void HandleReply(Connection& from);
  void HandleLoss(const Pointer& connection, rpc::CallError error);
  Task<void> Wait(TimePoint give_up);

  TimerService& timers_;
  const Opener opener_;
  const RetryPolicy policy_;
  size_t most_ = 1;    // connections
  size_t others_ = 0;  // those of the kind kOther among them
  ConnectionKind next_kind_ = ConnectionKind::kMain;
  // The kind of the last attempt, if that has failed or its connection was lost before it carried a reply.
  std::optional<ConnectionKind> failed_kind_;
  std::optional<ConnectionKind> cut_short_;  // the last attempt for this kind was ended early
  std::optional<SocketAddress> server_;
  std::optional<SocketAddress> reached_;  // by the last attempt
  Repetition repetition_ = Repetition::kOverNewerConnection;
  std::vector<Pointer> connections_;  // those that are up
  std::vector<Pointer> lost_;         // kept until none of their code is running
  uint64_t last_number_ = 0;          // of a connection
  uint64_t uses_ = 0;                 // calls
  bool connecting_ = false;
  bool making_further_ = false;  // connecting_, in the background
  TimePoint further_at_{};       // the next attempt to make a further connection
  bool refused_ = false;         // by the attempt under way
  bool closing_ = false;
  uint64_t refusals_ = 0;              // attempts that were refused
  uint32_t overdue_ = 0;               // replies that were overdue one after the other since the last reply
  Duration delay_ = Duration::zero();  // before the next attempt
  uint64_t lacking_ = 0;               // lost connections that are not replaced yet
  uint64_t reconnections_ = 0;
  SetupError trouble_;
  bool told_ = false;                           // whether the log has this trouble
  std::optional<ConnectionKind> told_missing_;  // the log says that no connection of this kind is up
  std::optional<Cancellation> attempt_;         // of the attempt under way
  std::optional<WaitLimit> attempt_limit_;
  Signal changed_;
  Cancellation* const ending_;
  const Cancellation::Entry ending_entry_;
};

}  // namespace penstock::client
