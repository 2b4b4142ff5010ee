// The records of opens, locks and delegations, and of the files, clients and owners that they belong to. They are plain
// data: StateRecords owns them, and the tables of files/ keep their invariants.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/steady_map.h"
#include "base/timer.h"
#include "fs/file_system.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/origin.h"
#include "nfs/v4/state/files/delegated_times.h"
#include "nfs/v4/state/files/file_opens.h"
#include "nfs/v4/state/files/held_ranges.h"
#include "nfs/v4/state/files/lock_queue.h"
#include "nfs/v4/state/files/lock_ranges.h"
#include "nfs/v4/state/files/owners.h"
#include "nfs/v4/state/files/share.h"
#include "nfs/v4/state/files/state_ids.h"

namespace penstock::nfs::v4 {

struct DelegationState;
struct LockState;
struct OpenState;

// A file that any client has state of.
struct FileState {
  explicit FileState(const NamedFile& of) : name(of) {}
  const NamedFile name;                               // the name by the export that was used first
  std::vector<std::pair<ExportId, fs::Pinned>> pins;  // while the file is open: one for each export with an open
  FileOpens opens;
  HeldRanges held;  // of all lock-owners
  std::map<Party, DelegationState*> delegations;
  std::vector<DelegationState*> write_delegations;  // one at most, unless clients reclaimed more
  // The lease of the file system, which makes local programs wait until the read delegations are returned. Null without
  // a read delegation. See Delegations::leased_.
  std::shared_ptr<fs::LocalLease> lease;
  bool lease_broken = false;
  std::list<FileState*>::iterator in_leases{};
  LockQueue queue;
  bool has_turn = false;  // in Locks::turns_
};

struct OpenOwner {
  OpenOwner(ClientFiles& of, std::string called) : client(&of), name(std::move(called)) {}
  ClientFiles* const client;
  const std::string name;
  std::list<OpenState*> opens;
  Makers makers;  // of its opens, and of the locks under them; see OpenOwners::AddMaker
  // The rest is for version 4.0 only.
  OwnerSequence sequence;
  bool confirmed = false;
  // The open that was closed last. Its stateid still leads to this owner, for a CLOSE that is repeated.
  OpenState* closed = nullptr;
  // The places of an owner without opens in the lists of idle owners: of its client, and of all clients.
  struct Idle {
    std::list<OpenOwner*>::iterator in_client;
    std::list<OpenOwner*>::iterator in_all;
  };
  std::optional<Idle> idle;
  TimePoint idle_since;
};

struct LockOwner {
  LockOwner(ClientFiles& of, std::string called) : client(&of), name(std::move(called)) {}
  ClientFiles* const client;
  const std::string name;
  std::map<std::pair<const FileState*, ExportId>, LockState*> locks;
  size_t ranges = 0;       // on all files
  OwnerSequence sequence;  // version 4.0
};

struct OpenState : StateRecord {
  OpenState(OpenOwner& by, FileState& on, const FileHandle& named)
      : StateRecord(StateKind::kOpen, *by.client, on), owner(&by), handle(named) {}
  OpenOwner* const owner;
  const FileHandle handle;  // of the OPEN; the stateids of the open and of its locks are valid with this handle only
  ShareHistory history;
  Share share;                 // the union of history; FileOpens sets it
  FileOpens::Places places{};  // for FileOpens
  std::list<OpenState*>::iterator in_owner{};
  std::list<LockState*> locks;  // the locks that were taken under this open
  bool closing = false;         // a CLOSE has begun to release the locks; see Opens::ClosePart()
};

// The byte-range locks of one owner on one file. They end with the open that the first of them was taken under.
struct LockState : StateRecord, LockHolder {
  LockState(LockOwner& by, OpenState& under, uint64_t holder_number)
      : StateRecord(StateKind::kLocks, *by.client, *under.file), LockHolder(holder_number), owner(&by), open(&under) {}
  LockOwner* const owner;
  OpenState* const open;
  std::list<LockState*>::iterator in_open{};
  LockRanges ranges;
  std::shared_ptr<fs::LocalLocks> local;  // the same ranges, for local programs; null if local programs see no locks
};

struct DelegationState : StateRecord {
  DelegationState(ClientFiles& to, FileState& on, const FileHandle& named, bool writes, const Dialect& of)
      : StateRecord(StateKind::kDelegation, to, on), name{named, on.name.identity}, write(writes), dialect(of) {}
  const NamedFile name;  // with the handle that the holder knows
  const bool write;
  const Dialect& dialect;  // of the request that got the delegation
  Makers makers;
  bool recall_sent = false;
  std::optional<TimePoint> recalled_at;
  // Its places in ClientFiles::unrecalled and Delegations::unrecalled_; once the recall is sent, its place in
  // Delegations::recalled_.
  std::list<DelegationState*>::iterator in_unrecalled{};
  std::list<DelegationState*>::iterator in_all{};
  // RFC 8881 §10.4.3, for a write delegation: the change attribute that the server last told another client. At first,
  // the file's change attribute when the delegation was given.
  std::optional<uint64_t> change;
  bool modified = false;  // the holder has told that it has changed the file
  // RFC 9754 §5, for a write delegation: the holder is the authority for the file's times. `original` are the file's
  // times when the delegation was given; they are empty if they are not known.
  bool has_times = false;
  DelegatedTimes original{};
  bool revoked = false;  // not in the file's list any more; kept until the client acknowledges it (FREE_STATEID)
  std::optional<RequestName> given_by{};  // the request that got the delegation; none in minor version 0
};

// The principals whose requests made the state.
inline const Makers& MakersOf(const OpenState& open) { return open.owner->makers; }
inline const Makers& MakersOf(const LockState& locks) { return locks.open->owner->makers; }
inline const Makers& MakersOf(const DelegationState& delegation) { return delegation.makers; }

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Owner>
using Owners = SteadyMap<std::string, std::unique_ptr<Owner>, TextHash>;

struct PrincipalOrder {
  bool operator()(const Principal& a, const Principal& b) const {
    return std::tie(a.flavor, a.uid, a.name) < std::tie(b.flavor, b.uid, b.name);
  }
};

// The CB_RECALL_ANY calls to one client: see Delegations::ReduceSurplus().
struct AskedForAny {
  std::optional<TimePoint> at;   // the time of the last one
  std::optional<uint32_t> keep;  // its argument, until the client has no more delegations than that
  bool refused = false;          // the client does not execute the operation
};

// State that the client has lost, until it acknowledges that by FREE_STATEID (RFC 8881 §18.46.3). A client that frees
// an open, or closes it, has acknowledged the loss of the locks under it.
struct Loss {
  uint32_t under;    // the slot of the open that locks were taken under; else the slot of the state itself
  bool by_operator;  // or else a delegation that was recalled and not returned
};

struct ClientFiles {
  explicit ClientFiles(ClientId of) : id(of) {}
  const ClientId id;
  Owners<OpenOwner> open_owners;
  Owners<LockOwner> lock_owners;
  std::list<StateRecord*> states;
  std::list<OpenOwner*> idle;              // the owner that has been idle longest comes first
  std::list<DelegationState*> unrecalled;  // the oldest first
  // The makers of open-owners that have opens; for each maker the number of such owners.
  std::map<Principal, size_t, PrincipalOrder> openers;
  size_t ranges = 0;
  size_t local_ranges = 0;  // the ranges among them that local programs see
  size_t delegations = 0;   // delegations that can be recalled
  AskedForAny asked_for_any;
  size_t revoked = 0;
  bool frees_stateids = false;      // its version has FREE_STATEID
  std::map<uint32_t, Loss> losses;  // by the slots of the stateids
  size_t operator_losses = 0;       // those by an operator
  size_t closed = 0;                // closed opens whose stateids are still known
  // The exports that have moved to another server with state of the client, and until when it is told so: see
  // Files::HasMoved().
  std::map<ExportId, TimePoint> moved;
};

inline Party PartyOf(const OpenState& open) { return {open.client->id, open.handle.export_id}; }
inline Party PartyOf(const DelegationState& delegation) {
  return {delegation.client->id, delegation.name.handle.export_id};
}

}  // namespace penstock::nfs::v4
