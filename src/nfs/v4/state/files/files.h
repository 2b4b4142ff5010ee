// The state that clients hold of files: opens, byte-range locks and delegations (RFC 8881 §9 and §10, RFC 7530 §9 and
// §10).
//
// The parts do no I/O, read no clock and have no locks. They queue recalls and notices; State::Run() sends them. If the
// state of a client conflicts with a request, the result names that client (`blocker`). Clients knows whether the lease
// of that client is over. If it is, StateTables::End() forgets the client, and the caller tries the request again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/timer.h"
#include "nfs/v4/state/files/delegations.h"
#include "nfs/v4/state/files/locks.h"
#include "nfs/v4/state/files/open_owners.h"
#include "nfs/v4/state/files/opens.h"
#include "nfs/v4/state/files/records.h"
#include "nfs/v4/state/files/room.h"
#include "nfs/v4/state/files/state_ids.h"
#include "nfs/v4/state/files/state_records.h"
#include "nfs/v4/state/ids.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

class Files {
 private:
  StateRecords records_;  // the parts refer to it

 public:
  using Limits = StateLimits;
  // `instance` and `secret` are those of StateRecords.
  Files(uint32_t instance, const SipKey& secret, const Limits& limits) : records_(instance, secret, limits) {}
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  Delegations delegations{records_};
  OpenOwners owners{records_};

 private:
  Room room_{records_, delegations, owners};

 public:
  Locks locks{records_, room_};
  Opens opens{records_, owners, locks, room_};

  // ---- clients

  // Forgets all state of a client. `ending` decides the error for its old stateids.
  void ForgetClient(ClientId client, Ending ending, TimePoint now);
  // Begins ForgetClient(): forgets so many stateids and locked ranges. Returns true if that was not all. A client that
  // can make no requests any more is forgotten in parts, so that its state, however much it is, holds up no other
  // client.
  bool ForgetPart(ClientId client, Ending ending, TimePoint now, size_t most = Locks::kMostAtOnce);
  // Revokes the opens, with their locks, and the delegations whose file handles `is_gone` names: their export has
  // ended.
  void RevokeState(const std::function<bool(const FileHandle&)>& is_gone, TimePoint now);
  // The exports have changed: those that `is_referral` names are at another server now. Their state lasts until
  // RevokeState().
  void HandleNewExports(const std::function<bool(ExportId)>& is_referral, TimePoint now);
  // Whether the client had state in an export that has moved, and has not asked for its locations since
  // (SEQ4_STATUS_LEASE_MOVED, RFC 8881 §11.13.1). As RFC 7530 §9.14.3 recommends, a client that never asks is told so
  // for two lease times only.
  bool HasMoved(ClientId client, TimePoint now) const;
  // The client has asked for the locations of an export.
  void HandleLocationsAsked(ClientId client, ExportId moved);
  // Whether the client has opens, locks or delegations (RFC 8881 §18.50: NFS4ERR_CLIENTID_BUSY).
  bool HasState(ClientId client) const;
  // Calls `look` with the ID of each client, or host that locks through NLM, that has a record here.
  template <class Look>
  void ForEachClient(Look look) const {
    for (const auto& [id, files] : records_.clients()) look(id);
  }

  // Visits some of the records of all clients: see StateIdTable::Visit().
  template <class Look>
  std::optional<size_t> VisitStates(size_t first, size_t slots, Look look) const {
    return records_.Visit(first, slots, std::move(look));
  }
  // Revokes the open, with its locks, the locks, or the delegation that a stateid names; its seqid does not matter.
  // Returns false if it names none. The client gets NFS4ERR_ADMIN_REVOKED, or for a delegation that it can free
  // NFS4ERR_DELEG_REVOKED.
  bool Revoke(const nfs4::stateid4& id, TimePoint now);
  // Whether Revoke() has taken state from the client whose loss it has not acknowledged
  // (SEQ4_STATUS_ADMIN_STATE_REVOKED, RFC 8881 §18.46.3).
  bool HasRevokedByOperator(ClientId client) const;

  // ---- stateids

  // Finds the record that a stateid names, if it was given for `file`, by this handle, and is of this kind; its seqid
  // does not matter. A delegation that was revoked is NFS4ERR_DELEG_REVOKED (version 4.0: NFS4ERR_ADMIN_REVOKED).
  template <class Record>
  Result<Record*, nfs4::nfsstat4> Find(const Presenter& who, const nfs4::stateid4& id, const FileHandle& file) const {
    PENSTOCK_TRY(StateRecord * record, records_.FindRecord(who, id, &file));
    if (auto* const found = dynamic_cast<Record*>(record)) return found;
    return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
  }
  // Whether the stateid names a record of any kind for `file`, be it a delegation that was revoked.
  bool Has(const Presenter& who, const nfs4::stateid4& id, const FileHandle& file) const {
    const auto found = records_.FindRecord(who, id, &file);
    return found || found.error() == nfs4::NFS4ERR_DELEG_REVOKED;
  }
  nfs4::nfsstat4 CheckSeqid(const Presenter& who, const StateRecord& record, const nfs4::stateid4& id) const {
    return StateIdTable::CheckSeqid(who, record, id.seqid);
  }
  nfs4::stateid4 IdOf(const StateRecord& record) const { return records_.IdOf(record); }
  // Returns the client that a stateid of any kind was given to, if the stateid is valid.
  std::optional<ClientId> ClientOf(const Presenter& who, const nfs4::stateid4& id) const;
  // TEST_STATEID (RFC 8881 §18.48): the status that any use of the stateid would get.
  nfs4::nfsstat4 Test(const Presenter& who, const nfs4::stateid4& id) const;
  // FREE_STATEID (RFC 8881 §18.38)
  nfs4::nfsstat4 Free(const Presenter& who, const nfs4::stateid4& id);

  // ---- reading and writing

  struct IoVerdict {
    nfs4::nfsstat4 status = nfs4::NFS4_OK;
    // The client that the stateid belongs to, if known. In version 4.0 the caller renews its lease.
    std::optional<ClientId> client{};
    std::optional<ClientId> blocker{};  // for NFS4ERR_LOCKED: the client whose open denies the access
  };
  // Checks whether a file may be read or written under a stateid; special stateids are allowed (RFC 8881 §8.2.3,
  // §9.1.2). It does not check delegations of other clients: see Delegations::RecallFor().
  IoVerdict CheckIo(const Presenter& who, const nfs4::stateid4& id, const NamedFile& file, bool write) const;

  // The number of records.
  size_t size() const { return records_.size(); }
  // The number of records of a kind. Opens that were closed and delegations that were revoked count while their
  // stateids are known.
  size_t count(StateKind kind) const { return records_.count(kind); }
  // The number of delegations that can be recalled, and of opens that deny access to other clients.
  size_t claims() const { return delegations.count() + opens.denials(); }
  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;
};

}  // namespace penstock::nfs::v4
