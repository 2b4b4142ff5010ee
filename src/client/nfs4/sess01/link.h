// A link of a session of 2004: one channel, or two that share a connection, over any number of connections one after
// the other. A link binds each connection to the session before other calls use it
// (draft-talpey-nfsv4-rdma-sess-01 §2.3, §6.2), and steps up to RDMA if the server grants that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/cancellation.h"
#include "base/result.h"
#include "base/signal.h"
#include "base/timer.h"
#include "client/nfs4/sess01/bound_lease.h"
#include "client/nfs4/sess01/callbacks.h"
#include "client/nfs4/sess01/connection.h"
#include "client/nfs4/sess01/connector.h"
#include "client/nfs4/sess01/lost_calls.h"
#include "client/reconnecting_channel.h"
#include "rpc/client.h"
#include "rpc/dispatch.h"

namespace penstock::client::v4::sess01 {

class Link;

// The answer to a SESSION_BIND.
struct Bound {
  nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
  uint32_t channel = 0;
  rpc::ConnectionLimits limits{};
  nfs4::ConnectionMode mode = nfs4::ConnectionMode::STREAM;
  std::optional<Instance> instance{};
};
// Decodes the result of a SESSION_BIND. The error, a text for users, names a value that no client can work with.
Result<Bound, std::string> BoundOf(const nfs4::SESSIONBIND4res& result, const nfs4::SESSIONBIND4args& asked);

// The reason why a connection is not bound.
struct BindFailure {
  enum class Kind : uint8_t {
    kLost,     // the connection was lost, or the server refuses for a while
    kRefused,  // the server refuses this connection; another one may succeed
    kFinal,    // the server refuses every connection
  };
  SetupError why;
  Kind kind = Kind::kFinal;
};

// The parts of a session that its links use.
class LinkOwner {
 public:
  virtual const BoundLease& lease() const = 0;
  // Sends SESSION_BIND over a connection without a channel of that type.
  virtual Task<Result<Bound, BindFailure>> SendBind(rpc::Client& client, nfs4::SESSIONBIND4args arguments) = 0;
  virtual void HandleBound(nfs4::ChannelType type, const Bound& bound, uint64_t generation) = 0;
  virtual void HandleUnknownSession(uint64_t generation) = 0;
  // The connection of the link is lost.
  virtual void HandleConnectionLost(Link& link) = 0;
  // The server refuses a back channel while another one is alive: an earlier connection whose loss it has not noticed.
  virtual void HandleBackRefused(Link& link) = 0;
  // Whether the session can do with the limits of an operations channel. Sizes never shrink, because replies to earlier
  // requests must fit (§2.4).
  virtual bool Accepts(const Bound& bound) const = 0;

 protected:
  ~LinkOwner() = default;
};

// Belongs to its loop. Its owner destroys it after all calls have ended.
class Link final : private BackConnection {
 public:
  // The channels of the link: an operations channel, a back channel, or both over one connection.
  struct Roles {
    bool operations = true;
    bool back = false;
  };
  struct Surroundings {
    TimerService& timers;
    BufferPool& buffers;
    rpc::ClientCredential credential;
    Connector& connector;
    LinkOwner& owner;
    BoundReceiver& callbacks;
    CallbackReceiver& state;
    RetryPolicy retry;
    uint32_t requests = 64;    // of an operations channel
    uint32_t max_message = 0;  // of an operations channel, if the connector allows it
    uint32_t padding = 0;      // to ask for, over RDMA
    // How long the client repeats a SESSION_BIND that the server delays.
    Duration bind_limit = std::chrono::seconds(60);
    // When it is cancelled, the link closes its connection. Null: nothing does.
    Cancellation* ending = nullptr;
  };

  // A channel whose opener calls Open(), and the client of that channel. Both outlive the link.
  struct Transport {
    ReconnectingChannel& channel;
    rpc::Client& client;
  };
  // Over `transport`, or over a channel of its own if there is none. `first` is the first XID of the client.
  Link(Surroundings surroundings, Roles roles, rpc::Xid first, std::optional<Transport> transport = {});
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Makes a connection, and binds it if there is a session.
  Task<Connector::Opened> Open(Duration time_limit);
  // Makes sure that there is a connection, and that it is bound as a channel of this type to the session now.
  Task<SetupResult<void>> EnsureBound(nfs4::ChannelType type);
  // Makes sure that there is a connection, by a call of NULL.
  Task<SetupResult<void>> EnsureConnected();
  // Ends a connection that is bound to an earlier session than that of `generation`, so that the next one can be bound.
  void CloseIfBoundBefore(uint64_t generation);

  rpc::Client& client() { return client_; }
  const ReconnectingChannel& channel() const { return channel_; }
  // Whether the server refuses the channels of this link, as far as the client knows.
  bool is_refused() const { return is_refused_; }
  // Returns the reason for which a call has failed because the link is refused; nothing if that is not the reason.
  std::optional<SetupError> TroubleOf(const rpc::Error& error) const;
  Roles roles() const { return roles_; }
  // The channelid of the last operations channel.
  uint32_t operations_channel() const { return operations_.channel; }
  const rpc::ConnectionLimits& limits() const { return operations_.limits; }
  bool is_bound(nfs4::ChannelType type, uint64_t generation) const;
  // Whether the link has a connection, as far as the client knows.
  bool connected() const { return connection_ && !connection_->ended(); }
  bool is_rdma() const { return is_rdma_; }
  TimePoint opened_at() const { return opened_at_; }
  // CB_CREDITRECALL: uses at most `target` credits at once from now on. Over RDMA, returns the others to the server.
  Task<void> ReturnCredits(uint32_t target);

  // The calls that were lost with a connection, until no request uses the link.
  LostCalls& lost_calls() { return *lost_calls_; }

  // For the session: requests that use the link, and whether a chain has it for itself.
  uint32_t in_use = 0;
  bool chained = false;

 private:
  class Direct;  // calls over the present connection, without repetition
  class Shared;  // a connection that ReconnectingChannel and the link share
  // A channel as it was bound last.
  struct Binding {
    uint32_t channel = 0;
    uint64_t generation = 0;  // zero: never bound
    rpc::ConnectionLimits limits{};
    bool is_live = false;  // over the present connection
  };

  Binding& BindingOf(nfs4::ChannelType type) { return type == nfs4::ChannelType::BACK ? back_ : operations_; }
  bool MayBind(nfs4::ChannelType type) const;
  Connector::Ends Ends();
  nfs4::SESSIONBIND4args Arguments(nfs4::ChannelType type) const;
  using Binds = Result<void, BindFailure>;
  Task<Binds> BindAll();
  Task<Binds> Bind(nfs4::ChannelType type);
  // Judges a status that refuses a binding to the session of `generation`.
  BindFailure FailureOf(nfs4::nfsstat4 status, nfs4::ChannelType type, uint64_t generation);
  // Notes the result of a binding. Turns the last one of several refusals into a final one.
  void Judge(Binds& bound);
  Task<Binds> Apply(const Bound& bound);
  Task<Binds> EnterRdmaMode(const rpc::ConnectionLimits& limits);
  void HandleLost();

  // BackConnection
  Task<void> AwaitBinding() override;
  std::optional<uint32_t> back_channel() const override;

  const Surroundings surroundings_;
  const Roles roles_;
  CallbackProgram callbacks_;
  rpc::Dispatcher dispatcher_;
  std::unique_ptr<ReconnectingChannel> own_channel_;
  std::unique_ptr<rpc::Client> own_client_;
  ReconnectingChannel& channel_;
  rpc::Client& client_;
  std::unique_ptr<Direct> direct_;
  rpc::Client binder_;
  std::shared_ptr<Connection> connection_;
  const std::shared_ptr<LostCalls> lost_calls_ = std::make_shared<LostCalls>();
  // Tells the on_lost functions of earlier connections, and of a link that is gone, from that of the present one.
  std::shared_ptr<int> present_;
  Binding operations_;
  Binding back_;
  bool is_rdma_ = false;
  bool opening_ = false;
  bool binding_back_ = false;
  bool is_refused_ = false;
  int refusals_ = 0;  // in a row
  Signal changed_;
  TimePoint opened_at_{};
  const Cancellation::Entry ending_;
};

}  // namespace penstock::client::v4::sess01
