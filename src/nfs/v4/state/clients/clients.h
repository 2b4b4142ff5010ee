// The clients of the server, their leases and their sessions (RFC 8881 §8, §2.10; RFC 7530 §9.1, §9.6).
//
// A client is in the table unconfirmed, then confirmed, then gone. Its lease may be over for a long time while its
// state stays: it is a courtesy that ends when the state stands in another client's way, or when there are too many
// such clients (RFC 8881 §8.4.3). Whoever makes a client go from this table sees to it that its files' state goes, too:
// see Gone.
//
// Files by subject: clients.cc (look-ups, leases, grace), clients_0.cc and clients_1.cc (client IDs of minor version 0,
// and of 1 and later), sessions.cc (sessions, SEQUENCE), persistence.cc (sessions that outlive the server), slot_balance.cc, callback_paths.cc (how clients are called).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "nfs/v4/state/clients/client.h"
#include "nfs/v4/state/clients/grace.h"
#include "nfs/v4/state/owed.h"
#include "nfs/v4/state/sessions/dead_sessions.h"
#include "nfs/v4/state/sessions/session.h"
#include "nfs/v4/state/settings.h"

namespace penstock::nfs::v4 {

// Whether a client has opens, locks or delegations: Files knows.
using HasState = std::function<bool(ClientId)>;

// The name under which the recovery store may have a client that is going or gone; none where it does not.
using OldRecord = std::optional<std::string>;

// A client that has just gone from the table, or none: Files::ForgetClient() is to be called before the lock is let go.
using Gone = std::optional<ClientId>;

class Clients {
 public:
  // `instance` is that of RecoveryStore::Restart. The settings outlive the table.
  Clients(const Settings& settings, uint32_t instance, Grace grace = {}, DeadSessions dead_sessions = {});

  // ---- for every operation (clients.cc) ----

  // Null where there is none, where it is not confirmed, and where its state is being given away.
  const Client* Find(ClientId id) const;
  bool Has(ClientId id) const { return clients_.contains(id); }
  // The errors of a client ID in an argument of minor version 0 (RFC 7530 §9.1.1, §13.1.4): NFS4ERR_STALE_CLIENTID
  // where it is from another run of the server, NFS4ERR_EXPIRED where it was given by this one and has gone.
  nfs4::nfsstat4 Check(ClientId id) const;
  // Also NFS4ERR_STALE_CLIENTID where the call does not come from the client's machine. Where it does after all, and the
  // machine's address is another one now, the client sets its client ID again, and keeps what it has.
  nfs4::nfsstat4 Check(ClientId id, const Origin& origin) const;
  // Minor version 0: RENEW, and whatever names the client or a stateid of its (RFC 7530 §9.5). Later ones renew by
  // SEQUENCE.
  void Renew(ClientId id, TimePoint now);
  // The lease is over and the client has no request under way: what it holds must not stand in another's way. Also true
  // of clients that are gone.
  bool IsExpired(ClientId id, TimePoint now) const;
  // Of the clients whose lease is over and that still hold something, the one that has been silent longest: the first to go where room is
  // short (RFC 8881 §8.4.3).
  std::optional<ClientId> LongestSilent(TimePoint now, const HasState& has_state) const;

  bool InGrace() const { return grace_.on(); }
  // Before a client gets an open, lock or delegation that it did not have: NFS4ERR_GRACE in the grace period, and
  // before its RECLAIM_COMPLETE (RFC 8881 §18.51.3).
  nfs4::nfsstat4 CheckNew(ClientId id) const;
  // Before it reclaims one: NFS4ERR_NO_GRACE out of the grace period, after its RECLAIM_COMPLETE, and for a client that
  // the server did not have before its restart or that lost its lease then (RFC 8881 §8.4.3).
  nfs4::nfsstat4 CheckReclaim(ClientId id) const;
  // Whether a delegation can be called back (RFC 8881 §10.2: none is given before that is known).
  bool CanCall(ClientId id) const;

  // True where the recovery store has to have the client and does not yet. See RecordClient() in nfs/v4/operations/lease.h.
  bool NeedsRecord(ClientId id) const;
  // Those that need one and hold something.
  std::vector<ClientId> Unrecorded(const HasState& has_state) const;
  void SetRecorded(ClientId id);

  // ---- minor version 0 (clients_0.cc, RFC 7530 §16.33, §16.34) ----

  struct SetClientId {
    nfs4::verifier4 verifier;
    std::string_view id;
    CallbackAddress callback;
    IpAddress address{};  // that it comes from
  };
  struct SetClientIdResult {
    ClientId id;
    nfs4::verifier4 confirmation;
  };
  // `random` becomes the confirmation.
  Result<SetClientIdResult, nfs4::nfsstat4> Set(const SetClientId& asked, const Principal& principal, uint64_t random,
                                                TimePoint now, const HasState& has_state);
  Result<Gone, nfs4::nfsstat4> Confirm(ClientId id, const nfs4::verifier4& confirmation, const Principal& principal,
                                       TimePoint now, const HasState& has_state);

  // ---- minor version 1 and later (clients_1.cc, RFC 8881 §18.35, §18.50, §18.51) ----

  struct ExchangeId {
    nfs4::verifier4 verifier;
    std::string_view owner;
    bool update = false;  // EXCHGID4_FLAG_UPD_CONFIRMED_REC_A
    uint32_t minor_version = 1;
    StateProtection protection{};
  };
  struct ExchangeIdResult {
    ClientId id;
    SequenceId sequence;  // for CREATE_SESSION
    bool confirmed = false;
    Gone gone{};
    StateProtection protection{};  // as it is, and stays
  };
  Result<ExchangeIdResult, nfs4::nfsstat4> Exchange(const ExchangeId& asked, const Sender& sender, TimePoint now,
                                                    const HasState& has_state);
  // NFS4ERR_CLIENTID_BUSY, NFS4ERR_STALE_CLIENTID; else the client is gone, and this is what the recovery store may
  // know of it.
  Result<OldRecord, nfs4::nfsstat4> Destroy(ClientId id, const Sender& sender, TimePoint now,
                                            const HasState& has_state);
  // A global RECLAIM_COMPLETE. NFS4ERR_COMPLETE_ALREADY.
  nfs4::nfsstat4 CompleteReclaim(ClientId id);

  // ---- state protection (clients_1.cc, RFC 8881 §2.10.8.3) ----

  // NFS4ERR_WRONG_CRED where the operation is for the client's machine credential, and the sender is another
  // (§15.1.6.4; §15.2 has no error for that in BIND_CONN_TO_SESSION and BACKCHANNEL_CTL, and this one everywhere else).
  // Whether there is such a client is the operation's to say.
  nfs4::nfsstat4 CheckProtection(ClientId id, nfs4::nfs_opnum4 operation, const Sender& sender) const;
  // Whether the sender may do this as the client's machine, whosever the object is (spo_must_allow).
  bool MachineMay(ClientId id, nfs4::nfs_opnum4 operation, const Sender& sender) const;

  // ---- sessions (sessions.cc, RFC 8881 §18.34, §18.36, §18.37, §18.33) ----

  struct CreateSession {
    ClientId client;
    SequenceId sequence;
    uint32_t minor_version = 1;
    // Of csa_flags: the connection is to carry callbacks, too.
    bool back_channel = false;
    // The session is to be persistent, if there is room for another.
    bool persist = false;
    nfs4::channel_attrs4 fore;  // as negotiated
    nfs4::channel_attrs4 back;
    uint32_t callback_program = 0;
    // None: the client wants to be called in no way that we can.
    std::optional<rpc::ClientCredential> callback_credential{std::in_place};
  };
  struct CreateSessionResult {
    nfs4::CREATE_SESSION4res reply;  // new, or that of the first time
    Gone gone{};
    // The session that was made is to be persistent: the reply is that of FinishCreate(), which is to be called with a
    // place for so much.
    std::optional<ReplyRoom> room{};
    SessionId session{};  // that was made
    // That, and its backchannel has the connection.
    bool has_back_channel = false;
  };
  // `random` makes the session's ID hard to guess. A retry gets NFS4ERR_DELAY until FinishCreate().
  CreateSessionResult Create(CreateSession asked, const SessionConnection& connection, const Sender& sender,
                             uint64_t random, TimePoint now);
  // Without `replies` the session is not persistent after all. Where it has gone meanwhile: NFS4ERR_STALE_CLIENTID, and
  // its storage will be among TakeEnded().
  nfs4::CREATE_SESSION4res FinishCreate(ClientId client, const SessionId& id, std::shared_ptr<SessionReplies> replies);
  // A reply of the session could not be kept: nothing new is taken on it.
  void LosePersistence(const SessionId& id);
  // Storage of sessions that have ended, or of which nobody has heard since the server was started: to be removed.
  std::vector<std::shared_ptr<SessionReplies>> TakeEnded(TimePoint now);
  // The session must be bound to the connection (NFS4ERR_CONN_NOT_BOUND_TO_SESSION).
  nfs4::nfsstat4 DestroySession(const SessionId& id, uint64_t connection, const Sender& sender);
  Result<nfs4::channel_dir_from_server4, nfs4::nfsstat4> Bind(const SessionId& id, const SessionConnection& connection,
                                                              nfs4::channel_dir_from_client4 direction,
                                                              const Sender& sender);
  // `credential` as in CreateSession.
  nfs4::nfsstat4 ControlBackChannel(const SessionId& id, uint32_t callback_program,
                                    std::optional<rpc::ClientCredential> credential, const Sender& sender);

  // ---- SEQUENCE (sessions.cc, RFC 8881 §18.46) ----

  // What SEQUENCE must know of its call.
  struct RequestFacts {
    size_t size = 0;          // unreduced octets of the call, RPC header included
    uint32_t operations = 0;  // of the COMPOUND
    uint64_t digest = 0;      // see RequestDigest()
  };
  enum class Outcome : uint8_t {
    kRun,     // execute what follows, then FinishRequest()
    kReplay,  // a retry: `reply` is what FinishRequest() was given
    // A retry whose reply was not kept: SEQUENCE succeeds, and the next operation gets NFS4ERR_RETRY_UNCACHED_REP,
    // unless it is one that is illegal or not supported and gets that error (RFC 8881 §2.10.6.1.3). Nothing is
    // executed.
    kUncached,
  };
  struct StartedRequest {
    Outcome outcome;
    ClientId client;
    // SEQUENCE's result. What Files knows is to be added to sr_status_flags.
    nfs4::SEQUENCE4resok sequence;
    // Unreduced octets that the reply may have, and those that a reply to be kept may have, RPC header included: beyond
    // that NFS4ERR_REP_TOO_BIG and NFS4ERR_REP_TOO_BIG_TO_CACHE (RFC 8881 §2.10.6.4).
    uint32_t max_reply = 0;
    uint32_t max_kept_reply = 0;
    xdr::Message reply{};  // kReplay
    // kRun, of a persistent session: where the reply is to be kept before it is sent.
    std::shared_ptr<SessionReplies> replies{};
    // Then: the client is still to reclaim what it had. What it reclaims has gone with the server once more when the
    // reply is wanted, so only replies to what lasts are kept.
    bool reclaiming = false;
  };
  // Renews the lease. Errors, which leave the slot as it is: NFS4ERR_BADSESSION, NFS4ERR_BADSLOT,
  // NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY, NFS4ERR_DELAY, NFS4ERR_REQ_TOO_BIG,
  // NFS4ERR_TOO_MANY_OPS, NFS4ERR_REP_TOO_BIG, NFS4ERR_REP_TOO_BIG_TO_CACHE; NFS4ERR_DEADSESSION, see DeadSessions;
  // NFS4ERR_CONN_NOT_BOUND_TO_SESSION.
  Result<StartedRequest, nfs4::nfsstat4> StartRequest(const nfs4::SEQUENCE4args& arguments, const RequestFacts& facts,
                                                      const SessionConnection& connection, TimePoint now);
  // Once for each kRun, also where the session has gone meanwhile (the request may have been its DESTROY_SESSION).
  // `reply`, where the client asked for it to be kept (sa_cachethis), is the COMPOUND's results in memory of their own.
  void FinishRequest(const SessionId& session, SlotId slot, SequenceId sequence, std::optional<xdr::Message> reply,
                     TimePoint now);

  // ---- slots that are taken back (slot_balance.cc, RFC 8881 §2.10.6.1, §20.8) ----

  // Takes slots back where the replies that are kept for all sessions need too much memory, and gives them again where
  // they need little; not often, so that clients have time to follow. What comes back is to be told by CB_RECALL_SLOT to
  // sessions that may be idle; others hear of it by SEQUENCE. To be done from time to time.
  std::vector<SlotRecall> BalanceSlots(TimePoint now);
  // Whether a client still has to follow: else there is no use in telling it.
  bool OwesSlots(const SlotRecall& recall) const;
  size_t kept_octets() const { return kept_octets_; }

  // ---- leases (clients.cc; nfs/v4/operations/lease.h calls them) ----

  // Begins to give a client's state away, if its lease is still over: nothing renews it from now on. Nothing where it
  // is too late, or not time yet. Its record leaves the recovery store next; then Remove().
  std::optional<OldRecord> Doom(ClientId id, TimePoint now);
  // The store would not: the client is as it was.
  void Reprieve(ClientId id);
  // Ends a client, its sessions included. Files' state is the caller's.
  void Remove(ClientId id);
  // Unconfirmed records that are older than a lease go at once (they hold nothing). Clients whose courtesy is over are
  // returned: longer than Settings::courtesy, or without state that may stay (`may_stay`), or when there are too many clients.
  std::vector<ClientId> Sweep(TimePoint now, const HasState& may_stay);
  Grace& grace() { return grace_; }

  // ---- callbacks (callback_paths.cc; callback/ calls them) ----

  // A call to a client of minor version 1 or later, on a slot of the backchannel of one of its sessions.
  struct CallbackStart {
    SessionId session;
    CallbackSlots::Slot slot;
    SlotId highest_slot;
    uint32_t minor_version;
    uint32_t program;
    rpc::ClientCredential credential;
    std::shared_ptr<rpc::BackChannel> channel;
  };
  enum class NoCallback : uint8_t { kNoClient, kNoPath, kBusy };
  // `session`: only on its backchannel (a call that is repeated stays with its session and slot).
  Result<CallbackStart, NoCallback> StartCallback(ClientId id, const std::optional<SessionId>& session = std::nullopt);
  bool HasSession(const SessionId& session) const { return FindSession(session) != nullptr; }
  // What a session's client is called as; none where it cannot be, or the session has gone.
  struct CallbackProgram {
    uint32_t number;
    rpc::ClientCredential credential;
  };
  std::optional<CallbackProgram> FindCallbackProgram(const SessionId& session) const;
  // Whether the client has shown, by another request on its slot, that it has seen the reply to this one (RFC 8881
  // §2.10.6.3). Where the session has gone it does not matter any more.
  bool HasSeenReply(const RequestName& request) const;
  // The next connection for a call that was lost with its connection; null where there is none (now).
  std::shared_ptr<rpc::BackChannel> CallbackChannel(const SessionId& session) const;
  void FinishCallback(const CallbackStart& call, CallbackSlots::Fate fate);
  // No answer came over that connection: it is not called over until the client binds it again.
  void SuspectChannel(const SessionId& session, const rpc::BackChannel& channel);
  // Of a client of minor version 0.
  void SetPath(ClientId id, PathState state);

  // For tests and for those who watch.
  size_t client_count() const { return clients_.size(); }
  size_t session_count() const { return session_count_; }
  // What does not fit together (consistency.cc); null: all does.
  const char* FindInconsistency() const;

 private:
  // The records of one client owner: at most one of each.
  struct Owner {
    Client* confirmed = nullptr;
    Client* unconfirmed = nullptr;
  };

  Client* FindAny(ClientId id);
  // That of the session's client, if there is one.
  nfs4::nfsstat4 CheckProtection(const SessionId& id, nfs4::nfs_opnum4 operation, const Sender& sender) const;
  Client& Add(uint32_t minor_version, std::string_view owner, const nfs4::verifier4& verifier,
              const Principal& principal, TimePoint now);
  static SequenceId NextCreate(const Client& client);
  // Makes an unconfirmed record the confirmed one of its owner, in place of the one before.
  Gone MakeConfirmed(Client& client, TimePoint now);
  void RenewNow(Client& client, TimePoint now);
  bool LeaseIsOver(const Client& client, TimePoint now) const;
  bool HasRequests(const Client& client) const;
  bool IsFull() const;
  void DropOldestUnconfirmed();

  Session* FindSession(const SessionId& id);
  const Session* FindSession(const SessionId& id) const;
  void EndSession(const SessionId& id);
  Session& AddSession(Client& client, CreateSession asked, uint64_t random);
  OldRecord RecordOf(const Client& client) const;
  uint32_t SlotShare(size_t sessions) const;
  uint32_t SlotTarget(const Session& session) const;
  uint32_t StatusFlags(const Session& session) const;
  bool BackChannelWorks(const Session& session) const;
  Result<StartedRequest, nfs4::nfsstat4> RetryInDeadSession(const nfs4::SEQUENCE4args& arguments,
                                                            const RequestFacts& facts, TimePoint now);

  const Settings& settings_;
  const uint32_t instance_;
  Grace grace_;
  uint32_t last_client_ = 0;
  std::unordered_map<ClientId, std::unique_ptr<Client>> clients_;
  std::list<Client*> by_renewal_;                  // the one that was renewed longest ago comes first
  std::unordered_map<std::string, Owner> owners_;  // by OwnerKey()
  std::deque<ClientId> unconfirmed_;               // oldest first; some are confirmed or gone by now
  size_t unconfirmed_count_ = 0;
  std::vector<std::unique_ptr<Session>> sessions_;  // a session's ID holds its index
  std::vector<uint32_t> free_sessions_;
  size_t session_count_ = 0;
  size_t kept_octets_ = 0;
  // The most slots that any session should use now, and when that was last changed.
  uint32_t slot_limit_ = UINT32_MAX;
  TimePoint slots_balanced_ = TimePoint::min();
  DeadSessions dead_sessions_;
  size_t persistent_count_ = 0;  // of sessions_
  std::vector<std::shared_ptr<SessionReplies>> ended_;
};

// What tells a request from another under the same number (RFC 8881 §2.10.6.1.3.1): who sent it, how long it is, how
// many operations it has, and how it begins after SEQUENCE. No payloads: they travel otherwise when the retry takes
// another transport. `rest` is what follows SEQUENCE in the reduced stream, `size` the unreduced octets from there on.
uint64_t RequestDigest(const rpc::Credential& credential, uint32_t operations, size_t size, ConstBytes rest);

}  // namespace penstock::nfs::v4
