#include "client/nfs4/file_locks.h"

#include <algorithm>

#include "base/log.h"
#include "client/nfs4/open_file.h"

namespace penstock::client::v4 {
namespace {

using nfs4::nfsstat4;

// The delays between requests for a lock that another owner holds, if the server sends no notice. They grow.
constexpr Duration kFirstDelay = std::chrono::milliseconds(20);
constexpr Duration kLongestDelay = std::chrono::seconds(1);
// The limit of `patience`, so that the time does not overflow.
constexpr Duration kLongestPatience = std::chrono::hours(24 * 365);

nfs4::nfs_lock_type4 TypeOf(LockKind kind) {
  return kind == LockKind::kShared ? nfs4::nfs_lock_type4::READ_LT : nfs4::nfs_lock_type4::WRITE_LT;
}

LockKind KindOf(nfs4::nfs_lock_type4 type) {
  const bool shared = type == nfs4::nfs_lock_type4::READ_LT || type == nfs4::nfs_lock_type4::READW_LT;
  return shared ? LockKind::kShared : LockKind::kExclusive;
}

}  // namespace

// ---- owners ----

FileLocks::Owner& FileLocks::OwnerOf(const std::string& name) {
  const auto found = owners_.find(name);
  if (found != owners_.end()) return found->second;
  return owners_.emplace(name, Owner{.id = file_.NewOwner(name)}).first->second;
}

Result<void> FileLocks::CheckLost(Owner& owner) {
  if (!std::exchange(owner.lost, false)) return {};
  return std::unexpected(v4::ErrorOf(nfsstat4::NFS4ERR_EXPIRED, file_.name()));
}

bool FileLocks::has_lost() const {
  return std::ranges::any_of(owners_, [](const auto& each) { return each.second.lost; });
}

bool FileLocks::IsKnown(const Owner& owner) const {
  return owner.epoch != 0 && owner.epoch == file_.caller().epoch() && !owner.id.spent();
}

void FileLocks::HandleLost() {
  for (auto& [name, owner] : owners_) Lose(owner);
}

void FileLocks::Lose(Owner& owner) {
  if (IsKnown(owner)) file_.mount().Free(owner.stateid);
  owner.epoch = 0;
  owner.lost = owner.lost || !owner.held.empty();
  owner.held.Clear();
}

void FileLocks::HandleRevoked(const nfs4::stateid4& revoked) {
  for (auto& [name, owner] : owners_) {
    if (IsKnown(owner) && owner.stateid.other == revoked.other) Lose(owner);
  }
}

void FileLocks::AddStateids(std::vector<nfs4::stateid4>& stateids) const {
  for (const auto& [name, owner] : owners_) {
    if (IsKnown(owner)) stateids.push_back(owner.stateid);
  }
}

void FileLocks::HandleMoved(const FileLocks& before) {
  for (const auto& [name, owner] : before.owners_) {
    if (owner.lost || !owner.held.empty()) OwnerOf(name).lost = true;
  }
}

Task<Result<void>> FileLocks::FindOut(Owner& owner, const nfs4::stateid4& used) {
  PENSTOCK_CO_CHECK(co_await file_.caller().Ready(file_.name()));
  if (IsKnown(owner) && owner.stateid == used) {
    Lose(owner);
  } else {
    file_.HandleLost(used);
  }
  co_return Result<void>();
}

// ---- LOCK ----

nfs4::LOCK4args FileLocks::MakeLock(const Owner& owner, ByteRange range, LockKind kind, bool reclaim) const {
  const CompoundCaller& caller = file_.caller();
  nfs4::LOCK4args lock;
  lock.locktype = TypeOf(kind);
  lock.reclaim = reclaim;
  lock.offset = range.offset;
  lock.length = range.length;
  if (IsKnown(owner)) {
    lock.locker = nfs4::locker4(false, nfs4::exist_lock_owner4{owner.stateid, caller.SequenceOf(owner.id)});
  } else {
    const nfs4::open_to_lock_owner4 both{caller.SequenceOf(file_.owner()),
                                         file_.stateid(),
                                         caller.SequenceOf(owner.id),
                                         {caller.client(), owner.id.octets()}};
    lock.locker = nfs4::locker4(true, both);
  }
  return lock;
}

void FileLocks::Count(Owner& owner, bool is_new, std::optional<nfsstat4> status) {
  owner.id.HandleStatus(status);
  if (is_new) file_.owner().HandleStatus(status);
}

void FileLocks::HandleNoReply(Owner& owner, bool is_new) {
  file_.caller().HandleNoReply(owner.id);
  if (is_new) file_.caller().HandleNoReply(file_.owner());
}

Task<Result<void>> FileLocks::LockOnce(Owner& owner, ByteRange range, LockKind kind) {
  PENSTOCK_CO_CHECK(co_await file_.EnsureOwnOpen());
  co_await file_.turn().Take();
  const Turn::Guard guard(file_.turn());
  // The locks of an owner whose seqid count is lost are unknown.
  if (owner.id.spent()) {
    owner.lost = !owner.held.empty();
    owner.held.Clear();
    owner.epoch = 0;
    owner.id = file_.NewOwner({});
  }
  CompoundCaller& caller = file_.caller();
  bool is_new = false;
  uint64_t epoch = 0;
  nfs4::stateid4 used;
  const auto build = [&] {
    epoch = caller.epoch();
    is_new = !IsKnown(owner);
    used = is_new ? file_.stateid() : owner.stateid;
    return std::tuple(nfs4::PUTFH4args{file_.node().handle}, MakeLock(owner, range, kind, false));
  };
  const auto observe = [&](const auto& said) { Count(owner, is_new, StatusOf(said, 1)); };
  auto reply = co_await caller.Call(build, file_.name(), {}, observe);
  if (reply) {
    owner.stateid = std::get<1>(reply->results).resok4().lock_stateid;
    owner.epoch = epoch;
    owner.held.Lock(range, kind);
    co_return Result<void>();
  }
  if (!reply.error().status) HandleNoReply(owner, is_new);
  if (IsStateLost(reply.error().status)) PENSTOCK_CO_CHECK(co_await FindOut(owner, used));
  co_return std::unexpected(std::move(reply).error());
}

Task<Result<void>> FileLocks::TryLock(Owner& owner, ByteRange range, LockKind kind) {
  for (int tries = 1;; ++tries) {
    Result<void> locked = co_await LockOnce(owner, range, kind);
    if (locked || owner.lost || !IsStateLost(locked.error().status) || tries == kMostOpens) co_return locked;
  }
}

Task<Result<void>> FileLocks::Lock(std::string name, ByteRange range, LockKind kind, Duration patience,
                                   Cancellation* impatience) {
  if (!IsValid(range)) co_return std::unexpected(client::ErrorOf(Status::kInvalid, file_.name()));
  Owner& owner = OwnerOf(name);
  PENSTOCK_CO_CHECK(CheckLost(owner));
  TimerService& timers = file_.caller().timers();
  const TimePoint give_up = timers.Now() + std::min(patience, kLongestPatience);
  for (Duration delay = kFirstDelay;; delay = std::min(2 * delay, kLongestDelay)) {
    Result<void> locked = co_await TryLock(owner, range, kind);
    Result<void> intact = CheckLost(owner);
    if (!intact) {
      // The loss was noticed during this call. A call that fails must not hold a lock.
      if (locked) (void)co_await UnlockOnce(owner, range);
      co_return intact;
    }
    if (locked || locked.error().status != Status::kDenied || timers.Now() >= give_up) co_return locked;
    if (IsCancelled(impatience)) co_return locked;
    co_await WaitUntilAvailable(std::min(delay, give_up - timers.Now()), impatience);
    if (IsCancelled(impatience)) co_return locked;
  }
}

// Waits for a notice of the server, which need not come, or for `at_most`, or until `impatience` is cancelled.
Task<void> FileLocks::WaitUntilAvailable(Duration at_most, Cancellation* impatience) {
  Cancellation* const ending = file_.caller().ending();
  if (IsCancelled(ending)) co_return;
  const auto notify = [this] { available_.Notify(); };
  const auto timer = file_.caller().timers().MakeTimer(notify);
  const Cancellation::Entry at_end(ending, notify);
  const Cancellation::Entry at_impatience(impatience, notify);
  timer->ExpireAfter(at_most);
  co_await available_;
}

// ---- LOCKU, LOCKT ----

Task<Result<void>> FileLocks::UnlockOnce(Owner& owner, ByteRange range) {
  co_await file_.turn().Take();
  const Turn::Guard guard(file_.turn());
  CompoundCaller& caller = file_.caller();
  PENSTOCK_CO_CHECK(co_await caller.Ready(file_.name()));
  // The server has no locks of this owner.
  if (!IsKnown(owner)) co_return Result<void>();
  owner.unlocking = range;
  const UnlockingGuard unlocking{owner};
  nfs4::stateid4 used;
  const auto build = [&] {
    used = owner.stateid;
    const nfs4::LOCKU4args unlock{nfs4::nfs_lock_type4::WRITE_LT, caller.SequenceOf(owner.id), used, range.offset,
                                  range.length};
    return std::tuple(nfs4::PUTFH4args{file_.node().handle}, unlock);
  };
  const auto observe = [&](const auto& said) { owner.id.HandleStatus(StatusOf(said, 1)); };
  auto reply = co_await caller.Call(build, file_.name(), {}, observe);
  if (reply) {
    owner.stateid = std::get<1>(reply->results).lock_stateid();
    owner.held.Unlock(range);
    co_return Result<void>();
  }
  if (!reply.error().status) caller.HandleNoReply(owner.id);
  if (IsStateLost(reply.error().status)) PENSTOCK_CO_CHECK(co_await FindOut(owner, used));
  co_return std::unexpected(std::move(reply).error());
}

Task<Result<void>> FileLocks::Unlock(std::string name, ByteRange range) {
  if (!IsValid(range)) co_return std::unexpected(client::ErrorOf(Status::kInvalid, file_.name()));
  const auto found = owners_.find(name);
  if (found == owners_.end()) co_return Result<void>();
  Owner& owner = found->second;
  PENSTOCK_CO_CHECK(CheckLost(owner));
  for (int tries = 1;; ++tries) {
    Result<void> unlocked = co_await UnlockOnce(owner, range);
    PENSTOCK_CO_CHECK(CheckLost(owner));
    if (unlocked || !IsStateLost(unlocked.error().status) || tries == kMostOpens) co_return unlocked;
  }
}

Task<Result<std::optional<LockConflict>>> FileLocks::Test(std::string name, ByteRange range, LockKind kind) {
  if (!IsValid(range)) co_return std::unexpected(client::ErrorOf(Status::kInvalid, file_.name()));
  Owner& owner = OwnerOf(name);
  CompoundCaller& caller = file_.caller();
  std::optional<LockConflict> conflict;
  const auto build = [&] {
    const nfs4::LOCKT4args test{TypeOf(kind), range.offset, range.length, {caller.client(), owner.id.octets()}};
    return std::tuple(nfs4::PUTFH4args{file_.node().handle}, test);
  };
  const auto observe = [&](const auto& said) {
    if (StatusOf(said, 1) != nfsstat4::NFS4ERR_DENIED) return;
    const nfs4::LOCK4denied& denied = std::get<1>(said.results).denied();
    conflict = LockConflict{{denied.offset, denied.length}, KindOf(denied.locktype)};
  };
  auto reply = co_await caller.Call(build, file_.name(), {}, observe);
  if (!reply && !conflict) co_return std::unexpected(std::move(reply).error());
  co_return conflict;
}

// ---- release and reclaim ----

Task<void> FileLocks::ReleaseAll() {
  for (auto& [name, owner] : owners_) {
    if (!owner.held.empty()) {
      const Result<void> unlocked = co_await UnlockOnce(owner, {});
      if (!unlocked) log::debug("{}", unlocked.error().message);
    }
    if (file_.caller().dialect().counts_owner_seqids && IsKnown(owner)) co_await ReleaseOwner(owner);
  }
}

// RFC 7530 §16.37: without this call a server of minor version 0 would keep the owner and its count while the lease
// lasts.
Task<void> FileLocks::ReleaseOwner(Owner& owner) {
  CompoundCaller& caller = file_.caller();
  auto released = co_await caller.Call(
      [&] { return std::tuple(nfs4::RELEASE_LOCKOWNER4args{{caller.client(), owner.id.octets()}}); }, file_.name());
  if (!released) log::debug("{}", released.error().message);
  owner.epoch = 0;
}

Task<void> FileLocks::Reclaim() {
  for (auto& [name, owner] : owners_) {
    if (owner.unlocking) owner.held.Unlock(*owner.unlocking);
    const std::vector<HeldLocks::Piece> pieces = owner.held.pieces();
    for (const HeldLocks::Piece& piece : pieces) {
      const Reclaimed reclaimed = co_await ReclaimOne(owner, piece);
      if (reclaimed == Reclaimed::kLater) co_return;
      if (reclaimed == Reclaimed::kYes) continue;
      if (IsKnown(owner)) co_await GiveBack(owner);
      owner.epoch = 0;
      owner.held.Clear();
      owner.lost = true;
      break;
    }
  }
}

Task<void> FileLocks::GiveBack(Owner& owner) {
  CompoundCaller& caller = file_.caller();
  const auto build = [&] {
    const ByteRange all;
    const nfs4::LOCKU4args unlock{nfs4::nfs_lock_type4::WRITE_LT, caller.SequenceOf(owner.id), owner.stateid,
                                  all.offset, all.length};
    return std::tuple(nfs4::PUTFH4args{file_.node().handle}, unlock);
  };
  const auto observe = [&](const auto& said) { owner.id.HandleStatus(StatusOf(said, 1)); };
  auto reply = co_await caller.ReclaimCall(build, file_.name(), observe);
  if (!reply) caller.HandleNoReply(owner.id);
}

Task<Reclaimed> FileLocks::ReclaimOne(Owner& owner, const HeldLocks::Piece& piece) {
  CompoundCaller& caller = file_.caller();
  const bool is_new = !IsKnown(owner);
  uint64_t epoch = 0;
  const auto build = [&] {
    epoch = caller.epoch();
    return std::tuple(nfs4::PUTFH4args{file_.node().handle}, MakeLock(owner, piece.range, piece.kind, true));
  };
  const auto observe = [&](const auto& said) { Count(owner, is_new, StatusOf(said, 1)); };
  auto reply = co_await caller.ReclaimCall(build, file_.name(), observe);
  if (!reply) {
    HandleNoReply(owner, is_new);
    log::debug("lock not reclaimed: {}", reply.error().message);
    co_return Reclaimed::kNo;
  }
  if (reply->status != nfsstat4::NFS4_OK) {
    log::debug("lock not reclaimed: {}", v4::ErrorOf(reply->status, file_.name()).message);
    co_return ReclaimedBy(reply->status);
  }
  owner.stateid = std::get<1>(reply->results).resok4().lock_stateid;
  owner.epoch = epoch;
  co_return Reclaimed::kYes;
}

}  // namespace penstock::client::v4
