// The sessions of 2004 (draft-talpey-nfsv4-rdma-sess-01; docs/sessions-2004.md): which connections are bound to them,
// and OPERATION_CONTROL.
//
// Files by subject: bound_sessions.cc (life and requests), bound_callbacks.cc (calls to the client),
// bound_persistence.cc (sessions that outlive the server), credit_recalls.cc (CB_CREDITRECALL).
//
// A session is one with its client: SESSION_CREATE makes both, and they end together. Until a connection is bound, the
// client is unconfirmed. Operations that also concern clients and files are methods of StateTables (bound_clients.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "nfs/v4/state/clients/clients.h"
#include "nfs/v4/state/owed.h"
#include "nfs/v4/state/sess01/chain.h"
#include "nfs/v4/state/sess01/channels.h"
#include "nfs/v4/state/sess01/request_wait.h"
#include "nfs/v4/state/sess01/stream_table.h"
#include "nfs/v4/state/sessions/bound_connections.h"
#include "nfs/v4/state/sessions/session.h"
#include "nfs/v4/state/settings.h"
#include "nfs/v4/state/stable/stream_store.h"
#include "rpc/auth.h"
#include "rpc/connection_control.h"

namespace penstock::nfs::v4::sess01 {

// Numbers that must be on stable storage: before a binding uses them, or after the client has returned streamids.
struct Reservation {
  std::shared_ptr<StreamStorage> storage;
  ChannelBlock channels;
};

struct BoundSession {
  // A live channel. `way` carries calls to the client, and closes the connection; it is null if the transport can do
  // neither.
  struct Channel {
    ChannelId id;
    nfs4::ChannelType type;
    uint64_t connection = 0;
    std::shared_ptr<rpc::BackChannel> way;
    rpc::ConnectionLimits limits;
    Chain chain;  // of an operations channel
  };
  struct StreamWait {
    StreamId stream;
    uint64_t connection = 0;  // of the request that waits
    std::shared_ptr<RequestWait> wait;
  };
  struct ChainWait {
    std::shared_ptr<ChainRun> run;
    std::shared_ptr<RequestWait> wait;
  };

  // A CB_CREDITRECALL that the client has not answered.
  struct Recall {
    uint32_t target = 0;
    std::optional<TimePoint> deadline{};  // nothing until the call begins
  };

  uint64_t id = 0;  // sessionid
  ClientId client;
  uint64_t created_over = 0;                  // the connection of its SESSION_CREATE
  std::weak_ptr<rpc::BackChannel> creator{};  // the same; nothing if it carries no calls to the client
  IpAddress host{};  // of the client that has created it. Unspecified if that was in an earlier run of the server
  StreamTable streams;
  Channels channels{};
  std::vector<Channel> live{};
  // Requests that wait for the end of another one: a retry for its first execution, a chained request for its turn.
  std::vector<StreamWait> stream_waits{};
  std::vector<ChainWait> chain_waits{};
  // For calls to the client. No credential: the server has none that the client accepts.
  std::optional<rpc::ClientCredential> callback_credential{};
  CallbackSlots callback_streams{0};
  ChannelId callbacks_since{0};  // callback_streams belongs to this back channel and later ones
  // The session outlives the server. Its storage is made before its first binding.
  bool persistent = false;
  bool creating = false;  // the storage is being made, and its success is not known yet
  std::shared_ptr<StreamStorage> storage{};
  // The most credits of an operations channel: totalrequests, or the target of the last recall.
  uint32_t most_credits = streams.count();
  std::optional<Recall> recall{};

  Channel* OperationsOf(uint64_t connection);
  const Channel* Back() const;
};

class BoundSessions {
 public:
  // Both outlive the table.
  BoundSessions(const Settings& settings, Clients& clients) : settings_(settings), clients_(clients) {}
  BoundSessions(const BoundSessions&) = delete;
  BoundSessions& operator=(const BoundSessions&) = delete;

  // ---- for the operations of StateTables

  // Returns null if there is no such session, or if the server is removing its client.
  BoundSession* Find(uint64_t id);
  // The session that a connection is bound to; null if there is none.
  BoundSession* OfConnection(uint64_t connection);
  // The session that was created over a connection; null if there is none.
  const BoundSession* CreatedOver(uint64_t connection);
  // Where a session keeps its replies: nowhere if the client has not asked for exactly-once semantics.
  enum class Keeping : uint8_t { kNothing, kInMemory, kOnStableStorage };
  // Adds the session of an unconfirmed client. kOnStableStorage requires HasPlace().
  struct NewSession {
    uint64_t id = 0;  // random; taken as it is if no other session has it
    uint32_t requests = 1;
    Keeping keeping = Keeping::kNothing;
    uint64_t connection = 0;
    std::shared_ptr<rpc::BackChannel> back_channel{};  // of the connection
    IpAddress host{};
  };
  BoundSession& Add(Client& client, const NewSession& asked);
  // Adds the session of an earlier run of the server. See StateTables::Restore().
  BoundSession& Restore(Client& client, SavedBoundSession saved);
  // Gives a session its storage; null if it could not be made. If the session has ended meanwhile, the storage is
  // removed.
  void FinishStorage(uint64_t id, std::shared_ptr<StreamStorage> storage);
  // Whether another session of a host may outlive the server. One host has at most a quarter of the places; sessions of
  // earlier runs of the server count for no host.
  bool HasPlace(const IpAddress& host) const { return !IsFull() && !HasShare(host); }
  // The session that must end first so that HasPlace() becomes true: the oldest one with a place that was never bound,
  // of this host if it has its share. Null if there is none.
  BoundSession* InTheWayOf(const IpAddress& host);
  struct BoundChannel {
    ChannelId id;
    uint32_t credits = 0;
  };
  // Binds a connection. An operations channel has no more credits than BoundSession::most_credits. See Channels::Bind()
  // for the errors.
  Result<BoundChannel, nfs4::nfsstat4> Bind(BoundSession& session, nfs4::ChannelType type, rpc::ConnectionLimits limits,
                                            const SessionConnection& connection, const rpc::Credential& credential);
  // Ends a session, and closes its connections but the connection `except`. Requests that wait go on, and find that
  // their session has ended. Its storage, if it has any, is queued for removal.
  void End(uint64_t id, uint64_t except = 0);

  // ---- OPERATION_CONTROL (§6.4)

  // The properties of a call that OPERATION_CONTROL looks at.
  struct RequestFacts {
    rpc::Xid xid;
    uint64_t digest = 0;  // see RequestDigest()
    size_t size = 0;      // unreduced octets of the call, RPC header included
    // The call came over TCP, so that maxrequestsize limits it as a whole. Over RDMA the transport knows the limit, and
    // chunks may carry parts of the call.
    bool is_stream = false;
    // An earlier request of the connection was never judged: see rpc::CallOrder::TakeGap().
    bool follows_gap = false;
    bool operator==(const RequestFacts&) const = default;
  };
  // A request under execution. It keeps its stream until FinishRequest() or WithdrawRequest().
  struct RequestRef {
    uint64_t session = 0;
    StreamId stream;
    StreamTable::Execution execution;
    uint64_t connection = 0;
    Chain::Judged chain;
  };
  struct StartedRequest {
    StreamTable::Outcome outcome;
    xdr::Message reply{};                 // kReplay
    std::shared_ptr<RequestWait> wait{};  // kWait: wait for it, then call StartRequest() again
    // kRun:
    RequestRef request{};
    ClientId client{};
    rpc::ConnectionLimits limits{};
    bool keeps_reply = false;
    bool repeats = false;                      // see StreamTable::Started
    std::shared_ptr<StreamStorage> storage{};  // not null: a change must be kept, since the session outlives the server
    // Not NFS4_OK: the chain does not allow the request. This status is the result of OPERATION_CONTROL; the request
    // ends with it, and its reply is kept like others.
    nfs4::nfsstat4 refusal = nfs4::NFS4_OK;
  };
  // Starts a request, and renews the lease. A request that names another live channel than its own closes that
  // channel's connection first. Errors: NFS4ERR_SESS01_NOT_BOUND, NFS4ERR_SESS01_BADCHANNEL, NFS4ERR_TOOSMALL, and
  // those of StreamTable::Start().
  using Started = Result<StartedRequest, nfs4::nfsstat4>;
  Started StartRequest(const nfs4::OPERATIONCONTROL4args& arguments, const RequestFacts& facts,
                       const SessionConnection& connection, Loop* loop, TimePoint now);
  // Whether the session still waits for the end of a request that has not been executed yet.
  bool IsUnderWay(const RequestRef& request);
  struct ChainTurn {
    ChainRun::Turn turn = ChainRun::Turn::kBroken;
    bool lost = false;  // kBroken: the connection of the request is no longer bound, so take the request back
    std::shared_ptr<RequestWait> wait{};  // kWait: wait for it, then ask again
    ChainRun::Filehandles filehandles{};  // kRun: of the chain so far
  };
  // Whether it is the turn of a chained request. kBroken also if the session has ended.
  ChainTurn TurnOf(const RequestRef& request, Loop* loop);
  // The results of a request for the session.
  struct RequestEnd {
    std::optional<xdr::Message> reply{};  // to keep; it owns its memory
    bool changed = false;                 // see StreamTable::Finish()
    bool executed = true;                 // false: the chain did not allow its execution
    bool complete = true;                 // see ChainRun::Finish()
    ChainRun::Filehandles filehandles{};
  };
  void FinishRequest(const RequestRef& request, RequestEnd end, TimePoint now);
  // Takes back a request that was not executed because its connection is lost.
  void WithdrawRequest(const RequestRef& request);

  // ---- callbacks (bound_callbacks.cc; callback/ calls them)

  bool CanCall(const Client& client) const;
  struct CallbackStart {
    uint64_t session = 0;
    ChannelId channel;  // a repeated call names it, too
    CallbackSlots::Slot stream;
    rpc::ClientCredential credential;
    std::shared_ptr<rpc::BackChannel> way;
  };
  enum class NoCallback : uint8_t { kNoPath, kBusy };
  Result<CallbackStart, NoCallback> StartCallback(const Client& client);
  void FinishCallback(const CallbackStart& call, CallbackSlots::Fate fate);
  // The connection of the back channel now; null if there is none.
  std::shared_ptr<rpc::BackChannel> CallbackWay(uint64_t session);

  size_t size() const { return sessions_.size(); }
  // Calls look(session) for each session.
  template <class Look>
  void ForEach(Look look) const {
    for (const auto& [id, session] : sessions_) look(static_cast<const BoundSession&>(*session));
  }

  // ---- CB_CREDITRECALL (§2.4, §6.5; credit_recalls.cc)

  // The octets of the replies that all sessions keep.
  size_t kept_octets() const { return kept_octets_; }
  // The part of it that belongs to sessions that the server can ask for credits.
  size_t recallable_octets() const;
  // Drops the kept replies of sessions without a connection whose clients' leases are over. Such a client has been away
  // for long. If it comes back, the fate of its requests is unknown.
  void ForgetReplies(TimePoint now);
  // Queues recalls: a session that keeps more replies than its share of Settings::max_kept_octets shall use at most
  // `target` streamids. Sessions without a working back channel are left alone. `other_sessions`: the number of
  // sessions of RFC 8881, which have shares as well.
  void RecallCredits(uint32_t target, size_t other_sessions);
  struct RecallStart {
    TimePoint deadline{};
    // The operations channels whose credits above the target are to be withdrawn before the call.
    std::vector<std::shared_ptr<rpc::BackChannel>> ways{};
  };
  // Begins a recall. Returns nothing if it is superfluous by now, or if the client cannot be called.
  std::optional<RecallStart> BeginRecall(const CreditRecall& recall, TimePoint now);
  // Whether the client has not answered the recall, and still has time.
  bool OwesCredits(const CreditRecall& recall) const;
  // The client has answered NFS4_OK, however late: it uses no streamid of the target or above any more. Drops these and
  // their replies.
  void FinishRecall(const CreditRecall& recall);
  // Closes the connections of sessions whose clients have not followed a recall in time.
  void EndOverdueRecalls(TimePoint now);
  std::vector<CreditRecall> TakeRecalls() { return std::exchange(recalls_, {}); }
  // Takes the numbers of streamids that have fallen and belong on stable storage. If they do not get there, the session
  // has more streamids after a restart than its client uses, which only costs memory.
  std::vector<Reservation> TakeLowered() { return std::exchange(lowered_, {}); }

  // ---- the rest

  // Forgets connections that are lost, and the sessions of clients that were removed. Call it regularly.
  void Sweep();
  // Whether recalls, connections to close or ended waits are to be taken.
  bool owes() const { return !recalls_.empty() || !closings_.empty() || !ended_waits_.empty(); }
  // Takes the connections to close, and the waits that have ended.
  std::vector<ConnectionToClose> TakeClosings() { return std::exchange(closings_, {}); }
  std::vector<std::shared_ptr<RequestWait>> TakeEndedWaits() { return std::exchange(ended_waits_, {}); }
  // Takes the storage of sessions that have ended; the caller removes it.
  std::vector<std::shared_ptr<StreamStorage>> TakeEndedStorage() { return std::exchange(ended_storage_, {}); }
  // Adds storage to these.
  void RemoveStorage(std::shared_ptr<StreamStorage> storage) { ended_storage_.push_back(std::move(storage)); }
  // Describes the first inconsistency; returns null if there is none.
  const char* FindInconsistency() const;

 private:
  // StartRequest() for a request that came over a channel of the session.
  Started StartOver(BoundSession& session, BoundSession::Channel& channel, const nfs4::OPERATIONCONTROL4args& arguments,
                    const RequestFacts& facts, Loop* loop, TimePoint now);
  // Returns null if the client of the session was removed, or if the server is removing it.
  BoundSession* Living(BoundSession& session);
  void CloseConnection(BoundSession& session, uint64_t connection, std::string_view why);
  void CloseLost(BoundSession& session);
  void WakeStream(BoundSession& session, StreamId stream);
  void WakeChain(BoundSession& session, const ChainRun* run);
  void Erase(BoundSession& session);
  bool IsFull() const { return persistent_count_ >= settings_.max_persistent_sessions; }
  bool HasShare(const IpAddress& host) const;
  void TakePlace(BoundSession& session);
  void LeavePlace(BoundSession& session);
  // Calls `change(session.streams)`, and counts the requests under way and the kept octets after it.
  template <class Change>
  auto ChangeStreams(BoundSession& session, Change&& change);

  const Settings& settings_;
  Clients& clients_;
  size_t persistent_count_ = 0;  // the sessions that outlive the server
  std::map<IpAddress, size_t> persistent_of_host_;
  std::vector<uint64_t> without_storage_;  // persistent sessions that were never bound, the oldest first
  size_t kept_octets_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<BoundSession>> sessions_;
  std::unordered_map<uint64_t, BoundSession*> connections_;  // bound ones
  std::unordered_map<uint64_t, BoundSession*> created_over_;
  std::vector<ConnectionToClose> closings_;
  std::vector<std::shared_ptr<RequestWait>> ended_waits_;
  std::vector<std::shared_ptr<StreamStorage>> ended_storage_;
  std::vector<CreditRecall> recalls_;
  std::vector<Reservation> lowered_;
};

template <class Change>
auto BoundSessions::ChangeStreams(BoundSession& session, Change&& change) {
  struct Counting {
    BoundSession& session;
    Client* const client;
    size_t& kept_octets;
    const size_t busy = session.streams.busy(), kept = session.streams.kept_octets();
    ~Counting() {
      if (client) client->requests += session.streams.busy() - busy;
      kept_octets += session.streams.kept_octets() - kept;
    }
  };
  const Counting counting{session, clients_.FindAny(session.client), kept_octets_};
  return std::forward<Change>(change)(session.streams);
}

}  // namespace penstock::nfs::v4::sess01
