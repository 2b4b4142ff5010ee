// What Files keeps: of each file, of each client, of each owner, and the states themselves. Plain data; class Files sees to it that it fits
// together.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/timer.h"
#include "fs/file_system.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/origin.h"
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

// A file that anybody has any state for.
struct FileState {
  explicit FileState(const NamedFile& of) : name(of) {}
  const NamedFile name;                               // by whichever export came first
  std::vector<std::pair<ExportId, fs::Pinned>> pins;  // while it is open: by each export through which it is
  FileOpens opens;
  HeldRanges held;  // of all lock-owners
  std::map<Party, DelegationState*> delegations;
  std::vector<DelegationState*>
      write_delegations;  // those of them that are for writing: one, unless clients reclaimed more
  // By which local programs recall the delegations for reading; none without such a delegation. See Delegations::leased_.
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
  // The rest is version 4.0's.
  OwnerSequence sequence;
  bool confirmed = false;
  OpenState* closed =
      nullptr;  // the last that was closed: its stateid still leads here, for a CLOSE that is sent again
  // Its places among those without opens: of its client, of all.
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
  size_t ranges = 0;       // of all of them
  OwnerSequence sequence;  // version 4.0
};

struct OpenState : StateRecord {
  OpenState(OpenOwner& by, FileState& on, const FileHandle& named)
      : StateRecord(StateKind::kOpen, *by.client, on), owner(&by), handle(named) {}
  OpenOwner* const owner;
  const FileHandle handle;  // that it was opened by; the only one that goes with its stateid and those of its locks
  ShareHistory history;
  Share share;                 // the union of history; FileOpens sets it
  FileOpens::Places places{};  // FileOpens'
  std::list<OpenState*>::iterator in_owner{};
  std::list<LockState*> locks;  // that were taken under it
};

// The byte-range locks of one owner on one file. They go with the open that they were first taken under.
struct LockState : StateRecord, LockHolder {
  LockState(LockOwner& by, OpenState& under, uint64_t holder_number)
      : StateRecord(StateKind::kLocks, *by.client, *under.file), LockHolder(holder_number), owner(&by), open(&under) {}
  LockOwner* const owner;
  OpenState* const open;
  std::list<LockState*>::iterator in_open{};
  LockRanges ranges;
  std::shared_ptr<fs::LocalLocks> local;  // the same ranges, for local programs; null where those see none
};

struct DelegationState : StateRecord {
  DelegationState(ClientFiles& to, FileState& on, const FileHandle& named, bool writes, const Dialect& of)
      : StateRecord(StateKind::kDelegation, to, on), name{named, on.name.identity}, write(writes), dialect(of) {}
  const NamedFile name;  // by the handle that its holder knows
  const bool write;
  const Dialect& dialect;  // of the request that got it
  Makers makers;
  bool recall_sent = false;
  std::optional<TimePoint> recalled_at;
  // Its places in ClientFiles::unrecalled and Delegations::unrecalled_; once the recall is sent, its place in Delegations::recalled_.
  std::list<DelegationState*>::iterator in_unrecalled{};
  std::list<DelegationState*>::iterator in_all{};
  // RFC 8881 §10.4.3, of one for writing: the file's change attribute when it was given, later the last that somebody
  // else was told; and whether its holder has said once that it has changed the file.
  std::optional<uint64_t> change;
  bool modified = false;
  bool revoked = false;  // no longer its file's; kept until the client says that it knows (FREE_STATEID)
  std::optional<RequestName> given_by{};
};

// Whose request made it.
inline const Makers& MakersOf(const OpenState& open) { return open.owner->makers; }
inline const Makers& MakersOf(const LockState& locks) { return locks.open->owner->makers; }
inline const Makers& MakersOf(const DelegationState& delegation) { return delegation.makers; }

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Owner>
using Owners = std::unordered_map<std::string, std::unique_ptr<Owner>, TextHash, std::equal_to<>>;

struct PrincipalOrder {
  bool operator()(const Principal& a, const Principal& b) const {
    return std::tie(a.flavor, a.uid, a.name) < std::tie(b.flavor, b.uid, b.name);
  }
};

struct ClientFiles {
  explicit ClientFiles(ClientId of) : id(of) {}
  const ClientId id;
  Owners<OpenOwner> open_owners;
  Owners<LockOwner> lock_owners;
  std::list<StateRecord*> states;
  std::list<OpenOwner*> idle;                           // the one that is so longest comes first
  std::list<DelegationState*> unrecalled;               // the oldest first
  std::map<Principal, size_t, PrincipalOrder> openers;  // makers of its open-owners that have opens: of how many
  size_t ranges = 0;
  size_t local_ranges = 0;  // of them, those that local programs see
  size_t delegations = 0;   // that can be recalled
  size_t revoked = 0;
  size_t closed = 0;  // opens whose stateid alone is still known
};

inline Party PartyOf(const OpenState& open) { return {open.client->id, open.handle.export_id}; }
inline Party PartyOf(const DelegationState& delegation) {
  return {delegation.client->id, delegation.name.handle.export_id};
}

}  // namespace penstock::nfs::v4
