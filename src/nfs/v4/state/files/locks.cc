#include "nfs/v4/state/files/locks.h"

#include <algorithm>
#include <string>
#include <utility>

namespace penstock::nfs::v4 {

using nfs4::nfsstat4;

namespace {

// A notified waiter must ask again within this time. Until then no other owner gets the lock.
constexpr Duration kTurn = std::chrono::seconds(5);

// The most ranges for which local locks are replaced by other local locks: each range takes a system call.
constexpr size_t kMostReplaced = 64;

Locks::LockConflict ConflictOf(const fs::LocalLocks::Conflict& local) {
  return {.held = {{local.first, local.last}, local.exclusive},
          .client = ClientId(),
          .owner = local.process == 0 ? "a program on the server"
                                      : "process " + std::to_string(local.process) + " on the server"};
}

}  // namespace

bool Locks::HasRoomForRanges(const ClientFiles& client, size_t more) const {
  return client.ranges + more <= records_.limits().ranges_per_client && ranges_ + more <= records_.limits().ranges;
}

LockOwner* Locks::FindLockOwner(ClientId client, std::string_view name) const {
  ClientFiles* const files = records_.FindClient(client);
  if (!files) return nullptr;
  const auto at = files->lock_owners.find(name);
  return at == files->lock_owners.end() ? nullptr : at->second.get();
}
LockOwner* Locks::FindLockOwner(ClientId client, ConstBytes name) { return FindLockOwner(client, AsText(name)); }

LockState* Locks::FindLocks(const FileState& file, const Party& party, std::string_view name) const {
  const LockOwner* const owner = FindLockOwner(party.client, name);
  if (!owner) return nullptr;
  const auto at = owner->locks.find({&file, party.by});
  return at == owner->locks.end() ? nullptr : at->second;
}

LockState* Locks::FindLocks(const NamedFile& name, ClientId client, ConstBytes owner) const {
  const FileState* const file = records_.FindFile(name);
  return file ? FindLocks(*file, {client, name.handle.export_id}, AsText(owner)) : nullptr;
}

// Applies a change of an owner's ranges to the ranges of the file and to all counters.
void Locks::Apply(LockState& locks, const LockChange& change) {
  HeldRanges& held = locks.file->held;
  for (const LockedRange& range : change.removed) held.Erase(range, locks);
  for (const LockedRange& range : change.added) held.Insert(range, locks);
  const size_t more = change.added.size() - change.removed.size();  // modulo 2^64 if the ranges become fewer
  ranges_ += more;
  locks.client->ranges += more;
  locks.owner->ranges += more;
  if (locks.local) locks.client->local_ranges += more;
}

void Locks::DropLockOwnerIfUnused(LockOwner& owner) {
  if (owner.locks.empty()) owner.client->lock_owners.erase(std::string(owner.name));
}

void Locks::RemoveLocks(LockState& locks, Ending ending) {
  LockOwner& owner = *locks.owner;
  // Without a range, nothing is lost that the client would have to acknowledge.
  if (ending == Ending::kRevokedByOperator && locks.ranges.empty()) ending = Ending::kRevoked;
  Apply(locks, locks.ranges.Unlock({0, UINT64_MAX}));
  locks.local.reset();
  locks.open->locks.erase(locks.in_open);
  owner.locks.erase({locks.file, locks.open->handle.export_id});
  records_.RemoveState(locks, ending);
  DropLockOwnerIfUnused(owner);
}

bool Locks::UnlockPart(LockState& locks, const LockRange& range) {
  const auto part = locks.ranges.FirstPart(range, kMostAtOnce);
  if (part) Apply(locks, locks.ranges.Unlock(*part));
  return part.has_value();
}

bool Locks::RemovePart(LockState& locks, Ending ending, size_t& left) {
  const auto part = locks.ranges.FirstPart({0, UINT64_MAX}, left);
  if (part) {
    Apply(locks, locks.ranges.Unlock(*part));
    if (locks.local) locks.local->Unlock(part->first, part->last);
    left = 0;
    return false;
  }
  left -= std::min(left, locks.ranges.size() + 1);
  RemoveLocks(locks, ending);
  return true;
}

void Locks::EndChange(const NamedFile& file) {
  const auto at = changing_.find(file);
  if (--at->second == 0) changing_.erase(at);
}

std::optional<Locks::LockConflict> Locks::FindHeldConflict(const FileState& file, const Party& party,
                                                           std::string_view owner, const LockRange& range,
                                                           bool exclusive) const {
  const auto found = file.held.FindConflict(range, exclusive, FindLocks(file, party, owner));
  if (!found) return std::nullopt;
  const auto& locks = static_cast<const LockState&>(*found->holder);
  return LockConflict{found->range, locks.client->id, locks.owner->name};
}

std::optional<Locks::LockConflict> Locks::TestLock(const NamedFile& file, ClientId client, ConstBytes owner,
                                                   const LockRange& range, bool exclusive) const {
  const FileState* const state = records_.FindFile(file);
  const Party party{client, file.handle.export_id};
  return state ? FindHeldConflict(*state, party, AsText(owner), range, exclusive) : std::nullopt;
}

std::optional<Locks::LockConflict> Locks::TestLocally(const fs::LocalLocks* local, const LockRange& range,
                                                      bool exclusive) {
  const auto others = local ? local->Test(range.first, range.last, exclusive) : std::nullopt;
  return others ? std::optional(ConflictOf(*others)) : std::nullopt;
}

std::shared_ptr<fs::LocalLocks> Locks::LocalLocksOf(const NamedFile& file, ClientId client, ConstBytes owner,
                                                    std::shared_ptr<fs::LocalLocks> opened) const {
  const LockState* const own = FindLocks(file, client, owner);
  return own && own->local ? own->local : opened;
}

bool Locks::NeedsLocalLocks(const NamedFile& file, ClientId client, ConstBytes owner, bool exclusive) const {
  const LockState* const known = FindLocks(file, client, owner);
  return !known || NeedsLocalLocks(*known, exclusive);
}
bool Locks::NeedsLocalLocks(const LockState& locks, bool exclusive) {
  return exclusive && locks.local && !locks.local->CanExclude() && locks.ranges.size() <= kMostReplaced;
}

bool Locks::HasLocalLocks(ClientId client) const {
  const ClientFiles* const files = records_.FindClient(client);
  return files && files->local_ranges > 0;
}

// Keeps the queue fair: returns a waiter that asked before this owner, conflicts with the request, and could have its
// lock now. The request must not overtake such a waiter.
std::optional<Locks::LockConflict> Locks::FindWaiterAhead(const FileState& file, const Party& party,
                                                          std::string_view owner, const LockRequest& request) const {
  for (const LockWaiter& waiter : file.queue.waiters()) {
    if (waiter.IsOf(party.client, owner)) {
      if (waiter.range.Overlaps(request.range)) break;
      continue;
    }
    if (waiter.ConflictsWith(request.range, request.exclusive) &&
        !FindHeldConflict(file, {waiter.client, waiter.handle.export_id}, waiter.owner, waiter.range,
                          waiter.exclusive)) {
      return LockConflict{{waiter.range, waiter.exclusive}, waiter.client, waiter.owner};
    }
  }
  return std::nullopt;
}

void Locks::StopWaiting(const NamedFile& name, ClientId client, ConstBytes owner, const LockRange& range,
                        TimePoint now) {
  FileState* const file = records_.FindFile(name);
  if (!file) return;
  file->queue.Remove(client, AsText(owner), range);
  TellWaiters(*file, now);
}

void Locks::TellWaiters(FileState& file, TimePoint now) {
  file.queue.RemoveExpired(now);
  auto& waiters = file.queue.waiters();
  for (auto at = waiters.begin(); at != waiters.end(); ++at) {
    if (!at->can_be_told) continue;
    const bool behind = std::any_of(waiters.begin(), at, [&](const LockWaiter& ahead) {
      return !ahead.IsOf(at->client, at->owner) && ahead.ConflictsWith(at->range, at->exclusive);
    });
    const Party party{at->client, at->handle.export_id};
    if (behind || FindHeldConflict(file, party, at->owner, at->range, at->exclusive)) continue;
    (IsLockHost(at->client) ? host_notices_ : notices_).push_back({at->client, at->handle, at->owner});
    at->can_be_told = false;  // until it asks again
    at->until = std::min(at->until, now + kTurn);
    if (!std::exchange(file.has_turn, true)) turns_.push_back({now + kTurn, file.name});
  }
}

void Locks::EndTurns(TimePoint now) {
  while (!turns_.empty() && turns_.front().until <= now) {
    FileState* const file = records_.FindFile(turns_.front().file);
    turns_.pop_front();
    if (!file) continue;
    file->has_turn = false;
    TellWaiters(*file, now);
    // A waiter that was notified later still has time, so the file needs another turn.
    if (!file->queue.empty() && !std::exchange(file->has_turn, true)) turns_.push_back({now + kTurn, file->name});
  }
}

std::optional<Locks::LockConflict> Locks::FindObstacle(FileState& file, const OpenState& open, std::string_view owner,
                                                       const LockRequest& request, TimePoint now) {
  file.queue.RemoveExpired(now);
  const Party party = PartyOf(open);
  auto obstacle = FindHeldConflict(file, party, owner, request.range, request.exclusive);
  if (!obstacle) obstacle = FindWaiterAhead(file, party, owner, request);
  if (!obstacle || !request.blocking) {
    // The owner gets the lock, or no longer waits for it: its request does not block (RFC 8881 §9.6).
    file.queue.Remove(party.client, owner, request.range);
  } else {
    file.queue.Add({party.client, std::string(owner), request.range, request.exclusive, request.can_be_told,
                    now + records_.limits().lease, open.handle});
  }
  return obstacle;
}

Locks::LockResult Locks::Lock(OpenState& open, ConstBytes name, const LockRequest& request, const Dialect& dialect,
                              TimePoint now) {
  ClientFiles& client = *open.client;
  if (!IsLockHost(client.id) && !open.share.AllowsLock(request.exclusive)) return {.status = nfs4::NFS4ERR_OPENMODE};
  FileState& file = *open.file;
  if (LockState* const known = FindLocks(file, PartyOf(open), AsText(name))) {
    return Extend(*known, request, dialect, now);
  }
  if (!request.is_local_open) return {.status = nfs4::NFS4ERR_DELAY, .needs_local = true};
  if (auto obstacle = FindObstacle(file, open, AsText(name), request, now)) return Denied(std::move(obstacle));
  if (!HasRoomForRanges(client, 1) || !room_.MakeRoom(client, now)) return {.status = dialect.errors().no_room};
  if (request.local && !request.answer) return {.status = nfs4::NFS4ERR_DELAY, .asks = request.local};
  if (request.answer && request.answer->conflict) return Denied(ConflictOf(*request.answer->conflict));

  auto& owner = client.lock_owners[std::string(AsText(name))];
  if (!owner) owner = std::make_unique<LockOwner>(client, std::string(AsText(name)));
  LockState& locks = records_.AddState(std::make_unique<LockState>(*owner, open, ++last_holder_));
  owner->locks.emplace(std::pair(&file, open.handle.export_id), &locks);
  locks.in_open = open.locks.insert(open.locks.end(), &locks);
  locks.local = request.local;
  Apply(locks, locks.ranges.Lock(request.range, request.exclusive));
  return {.status = nfs4::NFS4_OK, .stateid = records_.IdOf(locks)};
}

Locks::LockResult Locks::Lock(LockState& locks, const LockRequest& request, const Dialect& dialect, TimePoint now) {
  if (!locks.open->share.AllowsLock(request.exclusive)) return {.status = nfs4::NFS4ERR_OPENMODE};
  return Extend(locks, request, dialect, now);
}

Locks::LockResult Locks::Extend(LockState& locks, const LockRequest& request, const Dialect& dialect, TimePoint now) {
  ClientFiles& client = *locks.client;
  if (auto obstacle = FindObstacle(*locks.file, *locks.open, locks.owner->name, request, now)) {
    return Denied(std::move(obstacle));
  }
  if (!HasRoomForRanges(client, kMoreRanges)) return {.status = dialect.errors().no_room};
  if (request.local && NeedsLocalLocks(locks, request.exclusive)) ReplaceLocal(locks, request.local);
  if (locks.local && !request.answer) return {.status = nfs4::NFS4ERR_DELAY, .asks = locks.local};
  if (request.answer && request.answer->conflict) return Denied(ConflictOf(*request.answer->conflict));
  Apply(locks, locks.ranges.Lock(request.range, request.exclusive));
  locks.Advance();
  // A write lock that became a read lock lets other readers in.
  if (!request.exclusive) TellWaiters(*locks.file, now);
  return {.status = nfs4::NFS4_OK, .stateid = records_.IdOf(locks)};
}

void Locks::RestoreLocally(const LockState& locks, const LockRange& range) {
  if (!locks.local) return;
  // Ranges that the owner holds stay locked all the time, so that no local program gets them.
  uint64_t next = range.first;
  for (const LockedRange& held : locks.ranges.ranges()) {
    if (!held.range.Overlaps(range)) continue;
    const uint64_t first = std::max(held.range.first, range.first), last = std::min(held.range.last, range.last);
    if (first > next) locks.local->Unlock(next, first - 1);
    locks.local->Lock(first, last, held.exclusive);
    if (last == range.last) return;
    next = last + 1;
  }
  locks.local->Unlock(next, range.last);
}

bool Locks::HasRoomToUnlock(const LockState& locks, const LockRange& range) const {
  return HasRoomForRanges(*locks.client, 1) || !locks.ranges.WouldCut(range);
}

// Replaces local locks that can only be shared by locks that can also be exclusive. The owner's ranges stay locked for
// local programs all the time: the new locks are shared at first, beside the old ones, and become exclusive once the
// old ones have gone. If the file could not be written before, a local program may hold a shared lock in a range that
// the owner has locked exclusively. Then the program keeps its lock, and that range stays shared.
void Locks::ReplaceLocal(LockState& locks, const std::shared_ptr<fs::LocalLocks>& local) {
  if (!local->CanExclude()) return;
  for (const LockedRange& held : locks.ranges.ranges()) local->Lock(held.range.first, held.range.last, false);
  locks.local = local;
  for (const LockedRange& held : locks.ranges.ranges()) {
    if (held.exclusive) local->Lock(held.range.first, held.range.last, true);
  }
}

Locks::LockResult Locks::Denied(std::optional<LockConflict> obstacle) {
  const std::optional<ClientId> holder =
      obstacle->client == ClientId() ? std::nullopt : std::optional(obstacle->client);
  return {.status = nfs4::NFS4ERR_DENIED, .conflict = std::move(obstacle), .blocker = holder};
}

nfsstat4 Locks::Unlock(LockState& locks, const LockRange& range, const Dialect& dialect, TimePoint now) {
  ClientFiles& client = *locks.client;
  if (!HasRoomToUnlock(locks, range)) return dialect.errors().no_room;
  Apply(locks, locks.ranges.Unlock(range));
  locks.Advance();
  // A host says by CANCEL that a process no longer waits: another thread of it may unlock meanwhile.
  if (!IsLockHost(client.id)) locks.file->queue.Remove(client.id, locks.owner->name, range);
  TellWaiters(*locks.file, now);
  return nfs4::NFS4_OK;
}

nfsstat4 Locks::ReleaseLockOwner(ClientId client, ConstBytes name) {
  LockOwner* const owner = FindLockOwner(client, name);
  if (!owner) return nfs4::NFS4_OK;
  if (owner->ranges > 0) return nfs4::NFS4ERR_LOCKS_HELD;
  std::vector<LockState*> all;
  all.reserve(owner->locks.size());
  for (const auto& [file, locks] : owner->locks) all.push_back(locks);
  std::ranges::sort(all, {}, &LockHolder::number);  // for an order that is the same in each run
  for (LockState* locks : all) RemoveLocks(*locks, Ending::kReleased);
  return nfs4::NFS4_OK;
}

}  // namespace penstock::nfs::v4
