// Sessions (RFC 8881 §2.10): their slots, connections and backchannels, and SEQUENCE.
//
// Each session belongs to a confirmed client in Clients, and ends before that client is removed. This table also has
// the sessions of earlier runs of the server, which only repeat replies (DeadSessions).
//
// Files by subject: sessions.cc (CREATE_SESSION to SEQUENCE), callback_paths.cc (callbacks to clients),
// persistence.cc (sessions that outlive the server), slot_balance.cc (how many slots sessions should use).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/clients.h"
#include "nfs/v4/state/owed.h"
#include "nfs/v4/state/sessions/dead_sessions.h"
#include "nfs/v4/state/sessions/session.h"
#include "nfs/v4/state/sessions/slot_limit.h"
#include "nfs/v4/state/settings.h"
#include "nfs/v4/state/shards.h"

namespace penstock::nfs::v4 {

class Sessions {
 public:
  // `instance` is that of RecoveryStore::Restart. The settings, the clients and the limit outlive the table.
  Sessions(const Settings& settings, uint32_t instance, Clients& clients, const SlotLimit& slot_limit,
           DeadSessions dead_sessions);
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // ---- the operations on sessions (sessions.cc, RFC 8881 §18.34, §18.36, §18.37, §18.33)

  struct CreateRequest {
    ClientId client;
    SequenceId sequence;
    MinorVersion minor_version{1};  // callbacks of the session have this version
    bool back_channel = false;      // the connection is to carry callbacks, too (csa_flags)
    bool persist = false;           // the session is to be persistent, if there is room for another one
    nfs4::channel_attrs4 fore;      // negotiated attributes
    nfs4::channel_attrs4 back;
    uint32_t callback_program = 0;
    rpc::ClientCredential callback_credential{};
  };
  struct CreateResult {
    nfs4::CREATE_SESSION4res reply{};  // the new reply, or the repeated one
    // Set if the new session is to be persistent: make this room for its replies, then call FinishCreate(), which
    // returns the reply.
    std::optional<ReplyRoom> room{};
    SessionId session{};            // the new session
    bool has_back_channel = false;  // the backchannel of the new session has the connection
  };
  // Returns the answer to a CREATE_SESSION that creates no session: an error or a repeated reply (RFC 8881 §18.36.4).
  // Otherwise the caller confirms the client if necessary, and calls Create(). StateTables::CreateSession() does all of
  // this.
  std::optional<CreateResult> AnswerWithoutCreating(const CreateRequest& asked, const SessionConnection& connection,
                                                    const Sender& sender);
  // Creates the session. `random` makes its ID hard to guess. A repeated request gets NFS4ERR_DELAY until
  // FinishCreate().
  CreateResult Create(Client& client, CreateRequest asked, const SessionConnection& connection, uint64_t random,
                      TimePoint now);
  // Finishes the creation of a persistent session and returns the reply. Without `replies` the session is not
  // persistent after all. NFS4ERR_STALE_CLIENTID if the session has ended meanwhile; TakeEnded() then returns its
  // storage.
  nfs4::CREATE_SESSION4res FinishCreate(ClientId client, const SessionId& id, std::shared_ptr<SessionReplies> replies);
  // DESTROY_SESSION. The connection must be bound to the session (NFS4ERR_CONN_NOT_BOUND_TO_SESSION).
  nfs4::nfsstat4 Destroy(const SessionId& id, uint64_t connection, const Sender& sender);
  // BIND_CONN_TO_SESSION. See BoundConnections::Bind().
  Result<nfs4::channel_dir_from_server4, nfs4::nfsstat4> Bind(const SessionId& id, const SessionConnection& connection,
                                                              nfs4::channel_dir_from_client4 direction,
                                                              const Sender& sender);
  // Sets the program and the credential of later callbacks (BACKCHANNEL_CTL).
  nfs4::nfsstat4 ControlBackChannel(const SessionId& id, uint32_t callback_program, rpc::ClientCredential credential,
                                    const Sender& sender);
  // Ends all sessions of a client.
  void EndAll(const Client& client);

  // ---- SEQUENCE (sessions.cc, RFC 8881 §18.46)

  // The properties of a call that SEQUENCE looks at.
  struct RequestFacts {
    size_t size = 0;          // unreduced octets of the call, RPC header included
    uint32_t operations = 0;  // in the COMPOUND
    uint64_t digest = 0;      // see RequestDigest()
  };
  enum class Outcome : uint8_t {
    kRun,     // execute the operations that follow, then call FinishRequest()
    kReplay,  // a retry: `reply` is the reply that FinishRequest() was given
    // A retry whose reply was not kept: SEQUENCE succeeds, and the next operation gets NFS4ERR_RETRY_UNCACHED_REP,
    // unless it is illegal or not supported and gets that error (RFC 8881 §2.10.6.1.3). Execute nothing.
    kUncached,
  };
  struct StartedRequest {
    Outcome outcome;
    ClientId client;
    // SEQUENCE's result. The caller adds the status flags that depend on Files: see ShardTables::StartRequest().
    nfs4::SEQUENCE4resok sequence;
    // The limits for unreduced octets of the reply, and of a reply that is to be kept, RPC header included. The errors
    // beyond them are NFS4ERR_REP_TOO_BIG and NFS4ERR_REP_TOO_BIG_TO_CACHE (RFC 8881 §2.10.6.4).
    uint32_t max_reply = 0;
    uint32_t max_kept_reply = 0;
    xdr::Message reply{};  // kReplay
    // For kRun in a persistent session: the store that must keep the reply before the server sends it.
    std::shared_ptr<SessionReplies> replies{};
    // For kRun in a persistent session: the client may still reclaim. Its reclaims are lost if the server restarts
    // before the client sees the reply, so only replies to lasting changes are kept.
    bool reclaiming = false;
  };
  // Executes SEQUENCE: takes the slot for the request and renews the lease. Errors leave the slot unchanged:
  // NFS4ERR_BADSESSION, NFS4ERR_BADSLOT, NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY,
  // NFS4ERR_DELAY, NFS4ERR_REQ_TOO_BIG, NFS4ERR_TOO_MANY_OPS, NFS4ERR_REP_TOO_BIG, NFS4ERR_REP_TOO_BIG_TO_CACHE,
  // NFS4ERR_CONN_NOT_BOUND_TO_SESSION, NFS4ERR_DEADSESSION.
  Result<StartedRequest, nfs4::nfsstat4> StartRequest(const nfs4::SEQUENCE4args& arguments, const RequestFacts& facts,
                                                      const SessionConnection& connection, TimePoint now);
  // Executes SEQUENCE for a session that StartRequest() does not know, if it is of an earlier run of the server: see
  // DeadSessions. NFS4ERR_BADSESSION if there is none.
  Result<StartedRequest, nfs4::nfsstat4> RetryInDeadSession(const nfs4::SEQUENCE4args& arguments,
                                                            const RequestFacts& facts, TimePoint now);
  // Ends a request. `reply` is kept for retries and must own its memory. Renews the lease again, because the client has
  // waited until now.
  void FinishRequest(const SessionId& id, SlotId slot, SequenceId sequence, std::optional<xdr::Message> reply,
                     TimePoint now);
  // Whether the client has shown, by another request on the slot, that it has seen the reply to this request (RFC 8881
  // §2.10.6.3). Also true if the session has ended.
  bool HasSeenReply(const RequestName& request) const;

  // ---- persistence (persistence.cc)

  // Notes that the store could not keep a reply of the session: from now on, the session accepts no new request.
  void LosePersistence(const SessionId& id);
  // Takes the storage of sessions that have ended, and of dead sessions that no client has asked for in time. The
  // caller removes it.
  std::vector<std::shared_ptr<SessionReplies>> TakeEnded(TimePoint now);

  // ---- slots and memory (slot_balance.cc)

  // Tells all sessions the limit of slots, which has changed. Returns recalls for sessions that owe slots and have a
  // working backchannel, because an idle client does not see the change in SEQUENCE.
  std::vector<SlotRecall> FollowSlotLimit();
  // Whether the client has not yet followed a recall.
  bool OwesSlots(const SlotRecall& recall) const;
  size_t kept_octets() const {
    size_t sum = 0;
    for (const size_t octets : kept_octets_.all()) sum += octets;
    return sum;
  }

  // ---- callbacks (callback_paths.cc; callback/ calls them)

  // Whether callbacks reach a client of minor version 1 or later. See StateTables::CanCall().
  bool CanCall(const Client& client) const;
  // A call to a client of minor version 1 or later, on a slot of the backchannel of one of its sessions.
  struct CallbackStart {
    SessionId session;
    CallbackSlots::Slot slot;
    SlotId highest_slot;
    MinorVersion minor_version;
    uint32_t program;
    rpc::ClientCredential credential;
    std::shared_ptr<rpc::BackChannel> channel;
  };
  enum class NoCallback : uint8_t { kNoClient, kNoPath, kBusy };
  // Takes a slot and a connection for a call. With `session`, only the backchannel of that session serves: a repeated
  // call stays in its session and slot.
  Result<CallbackStart, NoCallback> StartCallback(ClientId id, const std::optional<SessionId>& session = std::nullopt);
  // Returns the slot of a call.
  void FinishCallback(const CallbackStart& call, CallbackSlots::Fate fate);
  bool Has(const SessionId& session) const { return Find(session) != nullptr; }
  // The attributes of the session's fore channel. Empty if there is no such session.
  std::optional<nfs4::channel_attrs4> ForeChannel(const SessionId& session) const;
  // The program that a session's client runs, and the credential that it expects.
  struct CallbackProgram {
    uint32_t number;
    rpc::ClientCredential credential;
  };
  // Returns nothing if the client cannot be called, or the session has ended.
  std::optional<CallbackProgram> FindCallbackProgram(const SessionId& session) const;
  // Returns the next connection for a call after its connection was lost. Returns null if the backchannel has no
  // connection now.
  std::shared_ptr<rpc::BackChannel> CallbackChannel(const SessionId& session) const;
  // Notes that a call over this connection got no reply: the server does not use the connection for calls until the
  // client binds it again.
  void SuspectChannel(const SessionId& session, const rpc::BackChannel& channel);

  size_t session_count() const { return session_count_; }
  // The slots of all sessions, and those with a request under way. Takes time for each session.
  struct SlotCounts {
    size_t slots = 0;
    size_t busy = 0;
  };
  SlotCounts CountSlots() const;
  // Calls look(session) for each session of a client of this run of the server.
  template <class Look>
  void ForEach(Look look) const {
    for (const auto& each : sessions_) {
      if (each) look(static_cast<const Session&>(*each));
    }
  }
  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  Session* Find(const SessionId& id);
  const Session* Find(const SessionId& id) const;
  Session& Add(Client& client, CreateRequest asked, uint64_t random);
  void End(const SessionId& id);
  // Checks the state protection of the session's client. NFS4_OK if the session does not exist.
  nfs4::nfsstat4 CheckProtection(const SessionId& id, nfs4::nfs_opnum4 operation, const Sender& sender) const;
  uint32_t SlotTarget(const Session& session) const;
  uint32_t StatusFlags(const Session& session, TimePoint now) const;

  const Settings& settings_;
  const uint32_t instance_;
  Clients& clients_;
  const SlotLimit& slot_limit_;
  std::deque<std::unique_ptr<Session>> sessions_;  // a session's ID holds its index
  std::vector<uint32_t> free_sessions_;
  size_t session_count_ = 0;
  PerShard<size_t> kept_octets_;  // of the replies that the sessions of a shard keep
  DeadSessions dead_sessions_;
  size_t persistent_count_ = 0;  // among sessions_
  std::vector<std::shared_ptr<SessionReplies>> ended_;
};

// Returns a digest of a request. It tells the request from another one with the same sequence ID (RFC 8881
// §2.10.6.1.3.1) by its caller, its length, its number of operations, and the octets that follow SEQUENCE. The digest
// ignores payloads, because a retry over another transport carries them differently. `rest` is the reduced stream after
// SEQUENCE; `size` is the number of unreduced octets after SEQUENCE.
uint64_t RequestDigest(const rpc::Credential& credential, uint32_t operations, size_t size, ConstBytes rest);

}  // namespace penstock::nfs::v4
