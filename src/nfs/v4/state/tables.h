// All tables of NFSv4's state, and the operations that concern more than one of them.
//
// A client that ends must leave nothing behind in any table, so clients end here, where all tables are known.
// Clients::Remove() requires a proof that only End() can make.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/siphash.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/clients.h"
#include "nfs/v4/state/clients/lock_hosts.h"
#include "nfs/v4/state/copy_notices.h"
#include "nfs/v4/state/files/files.h"
#include "nfs/v4/state/offloads.h"
#include "nfs/v4/state/owed.h"
#include "nfs/v4/state/sess01/bound_sessions.h"
#include "nfs/v4/state/sessions/sessions.h"

namespace penstock::nfs::v4 {

// SETCLIENTID
struct SetClientIdRequest {
  nfs4::verifier4 verifier;
  std::string_view id;
  CallbackAddress callback;
  IpAddress address{};  // of the machine that the request comes from
  const Dialect& dialect;
};
struct SetClientIdResult {
  ClientId id;
  nfs4::verifier4 confirmation;
};

// EXCHANGE_ID
struct ExchangeIdRequest {
  nfs4::verifier4 verifier;
  std::string_view owner;
  bool update = false;  // EXCHGID4_FLAG_UPD_CONFIRMED_REC_A
  const Dialect& dialect;
  StateProtection protection{};
};
struct ExchangeIdResult {
  ClientId id;
  SequenceId sequence;  // for CREATE_SESSION
  bool confirmed = false;
  // Another principal's client of this name has ended. The caller must remove its record from the recovery store.
  bool replaces = false;
  StateProtection protection{};  // of the client that the ID names
};

// SESSION_CREATE
struct CreateBoundRequest {
  nfs4::verifier4 verifier;
  std::string_view owner;
  bool keeps_replies = false;  // the client asks for exactly-once semantics
  bool can_store = false;      // the server has a StreamStore
  uint32_t requests = 1;       // the number of streamids
  uint64_t connection = 0;
  const Dialect& dialect;
  IpAddress host{};                                  // of the client, see HostOf()
  std::shared_ptr<rpc::BackChannel> back_channel{};  // of the connection; null if it has none
};

// SESSION_BIND
struct BindRequest {
  uint64_t session = 0;
  nfs4::ChannelType type{};
  rpc::ConnectionLimits limits{};  // granted
  SessionConnection connection{};
  const rpc::Credential& credential;
};
struct BindResult {
  ClientId client;
  sess01::ChannelId channel;
  uint32_t credits = 0;   // of the channel: at most those that were asked for
  uint32_t instance = 0;  // of the server
};

struct StateTables {
  // The arguments of the tables.
  struct Beginning {
    const Settings& settings;  // outlive the tables
    uint32_t instance;         // RecoveryStore::Restart
    SipKey secret{};           // random: see StateIdTable
    Files::Limits limits{};
    Grace grace{};
    DeadSessions dead_sessions{};
    // The sessions of 2004 of earlier runs, and their dialect; it may be null if there are none.
    std::vector<SavedBoundSession> bound_sessions{};
    const Dialect* bound_dialect = nullptr;
    TimePoint now{};
  };
  explicit StateTables(Beginning beginning);
  StateTables(const StateTables&) = delete;
  StateTables& operator=(const StateTables&) = delete;

  Clients clients;                       // clients and their leases
  LockHosts lock_hosts;                  // hosts that lock through NLM
  SlotLimit slot_limit;                  // for the sessions of both kinds
  Sessions sessions;                     // the sessions of clients of minor version 1 and later
  sess01::BoundSessions bound_sessions;  // the sessions of 2004
  Files files;                           // opens, locks and delegations, by file
  Offloads offloads;                     // asynchronous copies
  CopyNotices copy_notices;              // permissions for other servers to read files
  std::vector<SlotRecall> slot_recalls;  // queued until TakeOwed()

  // ---- client IDs of minor version 0 (clients_0.cc, RFC 7530 §16.33, §16.34)

  // `random` becomes the confirmation.
  Result<SetClientIdResult, nfs4::nfsstat4> Set(const SetClientIdRequest& asked, const Principal& principal,
                                                uint64_t random, TimePoint now);
  nfs4::nfsstat4 Confirm(ClientId id, const nfs4::verifier4& confirmation, const Principal& principal, TimePoint now);

  // ---- client IDs of minor version 1 and later (clients_1.cc, RFC 8881 §18.35, §18.50)

  Result<ExchangeIdResult, nfs4::nfsstat4> Exchange(const ExchangeIdRequest& asked, const Sender& sender,
                                                    TimePoint now);
  // NFS4ERR_CLIENTID_BUSY, NFS4ERR_STALE_CLIENTID. Otherwise the client has ended. The caller must remove its record,
  // if it has one, from the recovery store.
  Result<OldRecord, nfs4::nfsstat4> Destroy(ClientId id, const Sender& sender, TimePoint now);

  // ---- the sessions of 2004 (sess01/bound_clients.cc, draft-talpey-nfsv4-rdma-sess-01 §6.1 to §6.3)

  // NFS4ERR_SESS01_BADBIND, NFS4ERR_CLID_INUSE, NFS4ERR_DELAY. `random` becomes the ID of a new session. To make room
  // for a session that outlives the server, the oldest of these that was never bound ends.
  Result<nfs4::SESSIONCREATE4resok, nfs4::nfsstat4> CreateBound(const CreateBoundRequest& asked,
                                                                const Principal& principal, uint64_t random,
                                                                TimePoint now);
  // Whether the caller must make the storage of the session before it calls ReservationFor(): it then calls
  // StreamStore::Create(), and BoundSessions::FinishStorage() with the result. The errors of BindChannel().
  Result<std::optional<BoundSessionRecord>, nfs4::nfsstat4> StorageFor(const BindRequest& asked);
  // Whether the caller must reserve numbers of channels before it calls BindChannel(): it then keeps them
  // (StreamStorage::Reserve()), calls Reserved(), and asks again. The errors of BindChannel().
  Result<std::optional<sess01::Reservation>, nfs4::nfsstat4> ReservationFor(const BindRequest& asked);
  void Reserved(uint64_t session, const sess01::Reservation& reservation);
  // NFS4ERR_SESS01_BADSESSION, NFS4ERR_SESS01_BADBIND. The first binding ends the session of the client's last
  // incarnation.
  Result<BindResult, nfs4::nfsstat4> BindChannel(const BindRequest& asked, TimePoint now);
  // The record and the storage of a destroyed session. The caller must remove both from stable storage.
  struct DestroyedSession {
    OldRecord record;                          // in the recovery store
    std::shared_ptr<StreamStorage> storage{};  // null if the session has none
  };
  // Ends a client and its session, and closes its connections but `connection`. NFS4ERR_ACCESS for another principal
  // than that of the session.
  Result<DestroyedSession, nfs4::nfsstat4> DestroyBound(ClientId id, const Principal& principal, uint64_t connection,
                                                        TimePoint now);

  // ---- hosts that lock through NLM (tables.cc)

  // Returns the host, and adds it if it is not known; null if there are too many hosts.
  LockHost* GetLockHost(const LockHostName& name, TimePoint now);
  // Releases all locks and shares of a host and removes it. The caller must remove its record from the recovery store.
  void EndLockHost(LockHost& host, TimePoint now);

  // ---- the rest (tables.cc)

  // Whether callbacks reach the client, of any dialect. The server gives a delegation only if they do (RFC 8881 §10.2).
  bool CanCall(ClientId id) const;

  // CREATE_SESSION (RFC 8881 §18.36), which also confirms the client. See Sessions::Create().
  Sessions::CreateResult CreateSession(Sessions::CreateRequest asked, const SessionConnection& connection,
                                       const Sender& sender, uint64_t random, TimePoint now);

  // Ends a client: first its sessions, opens, locks, delegations and copies, whose stateids are NFS4ERR_EXPIRED from
  // now on, then the client itself.
  void End(ClientId id, TimePoint now);
  // Adapts the numbers of slots and streamids to the memory that the kept replies of all sessions need, and queues the
  // recalls. Call it regularly.
  void BalanceReplies(TimePoint now);
  // If there are too many delegations, asks clients for some, recalls and revokes some (Delegations::ReduceSurplus).
  // Call it regularly.
  void ReduceDelegations(TimePoint now);
  // Ends unconfirmed clients that are older than a lease. Returns the silent clients that the caller must end: they
  // have been silent for longer than Settings::courtesy, or hold no state that may stay, or hold more than their share
  // of the delegations while there are too many, or there are too many clients.
  std::vector<ClientId> Sweep(TimePoint now);
  // Returns the client that has been silent longest among the clients that hold state and whose lease is over. If there
  // is no room, it ends first (RFC 8881 §8.4.3).
  std::optional<ClientId> LongestSilent(TimePoint now) const;
  // Returns the clients that the recovery store must record and that hold state.
  std::vector<ClientId> Unrecorded() const;

  // The number of claims that a request without a stateid may conflict with. During grace, assume that a conflicting
  // claim may exist.
  size_t claims() const { return files.claims() + (clients.MayBeReclaimed() ? 1 : 0); }
  // Whether the tables have queued notices, and takes them.
  bool owes() const;
  Owed TakeOwed();
  // Describes the first inconsistency between or within the tables; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  // Ends a client that its owner destroys. Returns its record, which the caller must remove from the recovery store.
  OldRecord EndForGood(ClientId id, TimePoint now);
  // Restores the sessions of 2004 of earlier runs of the server, and their clients.
  void Restore(std::vector<SavedBoundSession> saved, const Dialect& dialect, TimePoint now);
  Result<sess01::BoundSession*, nfs4::nfsstat4> FindForBinding(const BindRequest& asked);
  // Removes a client whose session was never bound.
  void RemoveUnbound(Client& client);
  // Makes room for a session of a host that outlives the server. Returns false if there is none.
  bool MakePersistentPlace(const IpAddress& host);
  // Makes an unconfirmed client the confirmed one of its owner. The client that had this place ends.
  void MakeConfirmed(Client& client, TimePoint now);
};

}  // namespace penstock::nfs::v4
