// The clients of the server and their leases (RFC 8881 §8; RFC 7530 §9.1, §9.6).
//
// A client is first unconfirmed, then confirmed, and finally removed. A client whose lease is over keeps its state for
// a while, as a courtesy, until the state conflicts with another client's request or there are too many such clients
// (RFC 8881 §8.4.3).
//
// This table knows clients only. An operation that also concerns the sessions or the state of a client is a method of
// StateTables (nfs/v4/state/tables.h): EXCHANGE_ID, for example, may replace a client that has opens.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/steady_map.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/client.h"
#include "nfs/v4/state/clients/grace.h"
#include "nfs/v4/state/settings.h"
#include "nfs/v4/state/shards.h"

namespace penstock::nfs::v4 {

// The owner key of the record that the recovery store may have of a client that is being removed; empty if the store
// has no record.
using OldRecord = std::optional<std::string>;

// Proves that a client has no session, open, lock, delegation or copy left. Only StateTables, which sees all tables,
// can make one.
class HoldingsForgotten {
  friend struct StateTables;
  explicit HoldingsForgotten() = default;
};

class Clients {
 public:
  // `instance` is that of RecoveryStore::Restart. The settings outlive the table.
  Clients(const Settings& settings, uint32_t instance, Grace grace);
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // ---- look-ups (clients.cc)

  // Returns null if no such client exists, if it is unconfirmed, or if the server is removing its state.
  const Client* Find(ClientId id) const;
  // Also finds unconfirmed clients, and clients whose state the server is removing.
  Client* FindAny(ClientId id);
  bool Has(ClientId id) const { return clients_.contains(id); }
  // The number of this run of the server.
  uint32_t instance() const { return instance_; }
  // Checks a client ID that is an argument in minor version 0 (RFC 7530 §9.1.1, §13.1.4): NFS4ERR_STALE_CLIENTID if
  // another run of the server gave it out, NFS4ERR_EXPIRED if this run gave it out and the client was removed.
  nfs4::nfsstat4 Check(ClientId id) const;
  // Checks a client ID as above. Also NFS4ERR_STALE_CLIENTID if the call does not come from the client's machine. A
  // client whose machine has changed its address sets its client ID again and keeps its state.
  nfs4::nfsstat4 Check(ClientId id, const Origin& origin) const;

  // ---- leases (clients.cc)

  // Renews the lease of a confirmed client. In minor version 0, RENEW and each request that names the client or one of
  // its stateids call this (RFC 7530 §9.5). In later versions SEQUENCE renews the lease.
  void Renew(ClientId id, TimePoint now);
  void Renew(Client& client, TimePoint now);
  // Whether the lease is over and the client has no request under way, so that its state gives way to other clients.
  // Also true if the client was removed. False for hosts that lock through NLM, which have no lease.
  bool IsExpired(ClientId id, TimePoint now) const;
  bool LeaseIsOver(const Client& client, TimePoint now) const;
  // Whether the client was last renewed longer ago than the lease lasts.
  bool IsSilent(const Client& client, TimePoint now) const { return now - client.renewed > settings_.lease; }
  bool IsBeyondCourtesy(const Client& client, TimePoint now) const { return now - client.renewed > settings_.courtesy; }
  // Whether the client has a request under way. A client that waits for a reply is not silent, however long the reply
  // takes.
  static bool HasRequests(const Client& client);
  // All clients, in a list for each shard. The client of the list that was renewed longest ago comes first.
  auto by_renewal() const { return by_renewal_.all(); }
  // Begins to remove the state of a client if its lease is still over: from now on, no request renews the lease. Next,
  // the caller removes the client's record from the recovery store, and then calls StateTables::End(). Returns nothing
  // if the lease is not over, or if no confirmed client of this ID is left.
  std::optional<OldRecord> Doom(ClientId id, TimePoint now);
  // The same for a client that an operator ends: whether its lease is over does not matter.
  std::optional<OldRecord> Condemn(ClientId id);
  // Undoes Doom() and Condemn(). The caller uses it if the recovery store has failed.
  void Reprieve(ClientId id);

  // ---- recovery (clients.cc)

  Grace& grace() { return grace_; }
  bool InGrace() const { return grace_.on(); }
  // Whether clients may still reclaim delegations, and opens that deny access to others.
  bool MayBeReclaimed() const { return grace_.awaits_clients(); }
  // Checks whether a client may get an open, lock or delegation that it did not have: NFS4ERR_GRACE in the grace period
  // and before the client's RECLAIM_COMPLETE (RFC 8881 §18.51.3). `is_delegated`: the client has it already under a
  // delegation that it holds, so that no client of another server can reclaim what conflicts with it.
  nfs4::nfsstat4 CheckNew(ClientId id, bool is_delegated = false) const;
  // Checks whether a client may reclaim: NFS4ERR_NO_GRACE outside the grace period, after the client's
  // RECLAIM_COMPLETE, and for a client that the server did not know before its restart or whose lease ended then (RFC
  // 8881 §8.4.3).
  nfs4::nfsstat4 CheckReclaim(ClientId id) const;
  // Executes a global RECLAIM_COMPLETE (RFC 8881 §18.51). NFS4ERR_COMPLETE_ALREADY if the client has sent one before;
  // NFS4ERR_DEADSESSION if the client was removed.
  nfs4::nfsstat4 CompleteReclaim(ClientId id);
  // Whether the recovery store must still record the client. See RecordClient() in
  // nfs/v4/operations/lease.h.
  bool NeedsRecord(ClientId id) const;
  void SetRecorded(ClientId id);
  OldRecord RecordOf(const Client& client) const;

  // ---- state protection (clients.cc, RFC 8881 §2.10.8.3)

  // Checks whether the sender may do an operation. NFS4ERR_WRONG_CRED if only the client's machine credential may do
  // the operation, and the sender is another (§15.1.6.4; §15.2 does not list this error for BIND_CONN_TO_SESSION and
  // BACKCHANNEL_CTL, but lists it for all others). NFS4_OK if no such client exists: the operation itself has an error
  // for that.
  nfs4::nfsstat4 CheckProtection(ClientId id, nfs4::nfs_opnum4 operation, const Sender& sender) const;
  // Whether the sender may do the operation as the client's machine, for any owner of the object (spo_must_allow).
  bool MachineMay(ClientId id, nfs4::nfs_opnum4 operation, const Sender& sender) const;

  // Sets whether callbacks reach a client of minor version 0.
  void SetPath(ClientId id, PathState state);
  // The same for calls to this address, unless the client has another one by now.
  void SetPath(ClientId id, const CallbackAddress& address, PathState state);

  // ---- records, for the operations of StateTables

  // The records of one client owner: at most one of each kind.
  struct Records {
    Client* confirmed = nullptr;
    Client* unconfirmed = nullptr;
  };
  Records OfOwner(const Dialect& dialect, std::string_view owner) const;
  // Adds an unconfirmed record. Requires that the owner has none. If there are too many, the oldest unconfirmed record
  // makes room.
  Client& Add(const Dialect& dialect, std::string_view owner, const nfs4::verifier4& verifier,
              const Principal& principal, TimePoint now);
  // Makes an unconfirmed record the confirmed one of its owner. Requires that the owner has no confirmed record.
  void MakeConfirmed(Client& client, TimePoint now);
  // Removes an unconfirmed record. Such a record has no state.
  void RemoveUnconfirmed(Client& client);
  // Removes a record. `proof` says that the client has no state left.
  void Remove(Client& client, const HoldingsForgotten& proof);
  // Whether there are as many confirmed clients as the settings allow.
  bool IsFull() const { return confirmed_count() >= settings_.max_clients; }
  bool IsCrowded() const { return confirmed_count() > settings_.max_clients / 4 * 3; }

  size_t client_count() const { return clients_.size(); }
  // Calls `look` with each client, in no particular order.
  template <class Look>
  void ForEach(Look look) const {
    for (const auto& [id, client] : clients_) look(*client);
  }
  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  size_t confirmed_count() const { return clients_.size() - unconfirmed_count_; }
  void Erase(Client& client);
  void DropOldestUnconfirmed();

  const Settings& settings_;
  const uint32_t instance_;
  Grace grace_;
  uint32_t last_client_ = 0;
  SteadyMap<ClientId, std::unique_ptr<Client>> clients_;
  PerShard<std::list<Client*>> by_renewal_;
  SteadyMap<std::string, Records> owners_;  // by OwnerKey()
  std::deque<ClientId> unconfirmed_;        // oldest first; some of them are confirmed or removed by now
  size_t unconfirmed_count_ = 0;
};

}  // namespace penstock::nfs::v4
