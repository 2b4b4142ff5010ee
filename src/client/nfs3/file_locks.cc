#include "client/nfs3/file_locks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/pauses.h"
#include "client/retries.h"
#include "protocol/nfs4_types.h"

namespace penstock::client::v3 {
namespace {

using namespace nlm4;  // NOLINT: the protocol's own names, RFC 1813 appendix II

// The longest delay between two requests for a lock that another owner holds. The server would tell a client that waits
// (NLM4_GRANTED), but at a port that its rpcbind names, which a user's program cannot register.
constexpr Duration kLongestDelay = std::chrono::seconds(1);
// The limit of `patience`, so that the time does not overflow.
constexpr Duration kLongestPatience = std::chrono::hours(24 * 365);
constexpr std::string_view kCookie = LockService::kCookie;

constexpr Status kGrace = static_cast<Status>(nfs4::NFS4ERR_GRACE);
bool IsGrace(const Error& error) { return error.status == kGrace; }

Error ErrorOfStatus(nlm4_stats status, std::string_view what) {
  const auto no_locks = [&](std::string_view why) {
    return Error{fmt::format("{}: {}", what, why), std::nullopt, ENOLCK};
  };
  switch (status) {
    case NLM4_DENIED:
      return client::ErrorOf(Status::kDenied, what);
    case NLM4_DENIED_GRACE_PERIOD:
      return client::ErrorOf(kGrace, what);
    case NLM4_DEADLCK:
      return client::ErrorOf(static_cast<Status>(nfs4::NFS4ERR_DEADLOCK), what);
    case NLM4_ROFS:
      return client::ErrorOf(Status::kReadOnly, what);
    case NLM4_STALE_FH:
      return client::ErrorOf(Status::kStale, what);
    case NLM4_FBIG:
      return client::ErrorOf(static_cast<Status>(nfs4::NFS4ERR_LOCK_RANGE), what);
    case NLM4_DENIED_NOLOCKS:
      return no_locks("the server has no room for the lock");
    case NLM4_FAILED:
      return no_locks("the server's lock manager refuses the request");
    case NLM4_GRANTED:
    case NLM4_BLOCKED:
      break;
  }
  return {fmt::format("{}: the server's reply of NLM contradicts itself", what), std::nullopt, EPROTO};
}

}  // namespace

// ---- owners ----

FileLocks::Owner& FileLocks::OwnerOf(const std::string& name) {
  const auto found = owners_.find(name);
  if (found != owners_.end()) return found->second;
  const int32_t number = service_.NewOwner();
  std::string handle = LockService::HandleOf(number, service_.caller_name());
  return owners_.emplace(name, Owner{.number = number, .handle = std::move(handle)}).first->second;
}

LockRecord FileLocks::RecordOf(const Owner& owner) const {
  const ConstBytes octets = file_.bytes();
  return {owner.number, {octets.begin(), octets.end()}};
}

Result<void> FileLocks::CheckLost(Owner& owner) {
  if (!std::exchange(owner.lost, false)) return {};
  return std::unexpected(Error{fmt::format("{}: the server has restarted, and has not given the lock back", name_),
                               Status::kExpired, ErrnoOf(Status::kExpired)});
}

bool FileLocks::in_use() const {
  return std::ranges::any_of(owners_, [](const auto& each) { return each.second.lost || !each.second.held.empty(); });
}

Task<Result<void>> FileLocks::CheckData() {
  PENSTOCK_CO_CHECK(co_await service_.Ready(name_));
  if (std::ranges::none_of(owners_, [](const auto& each) { return each.second.lost; })) co_return Result<void>();
  co_return std::unexpected(
      Error{fmt::format("{}: a lock of the file is lost, because the server has restarted", name_), Status::kExpired,
            ErrnoOf(Status::kExpired)});
}

nlm4_lock FileLocks::LockOf(const Owner& owner, ByteRange range) const {
  return {.caller_name = service_.caller_name(),
          .fh = file_.bytes(),
          .oh = AsBytes(owner.handle),
          .svid = owner.number,
          .l_offset = range.offset,
          .l_len = range.length == ByteRange::kToEnd ? 0 : range.length};
}

// ---- LOCK ----

Task<Result<void>> FileLocks::LockOnce(Owner& owner, ByteRange range, LockKind kind) {
  PENSTOCK_CO_CHECK(co_await service_.Ready(name_));
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
  service_.Add(shared_from_this());
  // What the owner has lost must not be given back behind this lock.
  if (owner.unsure && owner.held.empty()) PENSTOCK_CO_CHECK(co_await SendUnlock(owner, {}));
  if (!std::exchange(owner.recorded, true)) co_await service_.Remember(RecordOf(owner));
  const nlm4_lockargs arguments{.cookie = AsBytes(kCookie),
                                .block = false,
                                .exclusive = kind == LockKind::kExclusive,
                                .alock = LockOf(owner, range),
                                .reclaim = false,
                                .state = 1};
  auto reply = co_await service_.Call<NLMPROC4_LOCK>(arguments, name_);
  if (!reply) {
    owner.unsure = owner.unsure || service_.connected();
    co_return std::unexpected(std::move(reply).error());
  }
  if (reply->results.stat != NLM4_GRANTED) {
    // A server that promises to call back may grant the lock later.
    if (reply->results.stat == NLM4_BLOCKED) owner.unsure = true;
    co_return std::unexpected(ErrorOfStatus(reply->results.stat, name_));
  }
  owner.held.Lock(range, kind);
  co_return Result<void>();
}

Task<Result<void>> FileLocks::Lock(std::string owner_name, ByteRange range, LockKind kind, Duration patience,
                                   Cancellation* impatience) {
  if (!IsValid(range)) co_return std::unexpected(client::ErrorOf(Status::kInvalid, name_));
  Owner& owner = OwnerOf(owner_name);
  PENSTOCK_CO_CHECK(CheckLost(owner));
  TimerService& timers = service_.timers();
  const TimePoint start = timers.Now();
  const TimePoint end_of_patience = start + std::min(patience, kLongestPatience);
  const TimePoint end_of_grace = start + service_.give_up_after();
  Retries retries{.give_up = end_of_patience, .longest = kLongestDelay};
  for (;;) {
    Result<void> locked = co_await LockOnce(owner, range, kind);
    Result<void> intact = CheckLost(owner);
    if (!intact) {
      // The loss was noticed during this call. A call that fails must not hold a lock.
      if (locked) (void)co_await AfterGrace([&] { return UnlockOnce(owner, range); });
      co_return intact;
    }
    if (locked) co_return locked;
    const bool in_grace = IsGrace(locked.error());
    if (!in_grace && locked.error().status != Status::kDenied) co_return locked;
    const TimePoint give_up = in_grace ? end_of_grace : end_of_patience;
    if (timers.Now() >= give_up) co_return locked;
    if (!IsCancelled(impatience)) {
      co_await Wait(std::min(retries.NextDelay(), give_up - timers.Now()), impatience);
    }
    if (IsCancelled(impatience)) co_return std::unexpected(client::ErrorOf(Status::kDenied, name_));
  }
}

// Waits for `at_most`, or until `impatience` is cancelled, or the mount ends.
Task<void> FileLocks::Wait(Duration at_most, Cancellation* impatience) {
  if (IsCancelled(service_.ending())) co_return;
  OneShot<> over;
  const auto end = [&over] {
    if (!over.is_set()) over.Set();
  };
  const auto timer = service_.timers().MakeTimer(end);
  const Cancellation::Entry at_end(service_.ending(), end);
  const Cancellation::Entry at_impatience(impatience, end);
  timer->ExpireAfter(at_most);
  co_await over;
}

// ---- UNLOCK, TEST ----

Task<Result<void>> FileLocks::SendUnlock(Owner& owner, ByteRange range) {
  const nlm4_unlockargs arguments{.cookie = AsBytes(kCookie), .alock = LockOf(owner, range)};
  auto reply = co_await service_.Call<NLMPROC4_UNLOCK>(arguments, name_);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  if (reply->results.stat != NLM4_GRANTED) co_return std::unexpected(ErrorOfStatus(reply->results.stat, name_));
  owner.held.Unlock(range);
  if (range == ByteRange()) owner.unsure = false;
  const bool has_none = owner.held.empty() && !owner.unsure;
  if (has_none && std::exchange(owner.recorded, false)) co_await service_.Forget(RecordOf(owner));
  co_return Result<void>();
}

Task<Result<void>> FileLocks::UnlockOnce(Owner& owner, ByteRange range) {
  PENSTOCK_CO_CHECK(co_await service_.Ready(name_));
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
  if (owner.held.empty() && !owner.unsure) co_return Result<void>();
  co_return co_await SendUnlock(owner, range);
}

template <class Attempt>
Task<Result<void>> FileLocks::AfterGrace(Attempt attempt) {
  Retries retries(service_.timers().Now() + service_.give_up_after());
  for (;;) {
    Result<void> done = co_await attempt();
    if (done || !IsGrace(done.error()) || service_.timers().Now() >= retries.give_up) co_return done;
    co_await Pause(service_.timers(), retries.NextDelay(), service_.ending());
  }
}

Task<Result<void>> FileLocks::Unlock(std::string owner_name, ByteRange range) {
  if (!IsValid(range)) co_return std::unexpected(client::ErrorOf(Status::kInvalid, name_));
  const auto found = owners_.find(owner_name);
  if (found == owners_.end()) co_return Result<void>();
  Owner& owner = found->second;
  PENSTOCK_CO_CHECK(CheckLost(owner));
  Result<void> unlocked = co_await AfterGrace([&] { return UnlockOnce(owner, range); });
  PENSTOCK_CO_CHECK(CheckLost(owner));
  co_return unlocked;
}

Task<Result<std::optional<LockConflict>>> FileLocks::TestOnce(const Owner& owner, ByteRange range, LockKind kind) {
  PENSTOCK_CO_CHECK(co_await service_.Ready(name_));
  const nlm4_testargs arguments{
      .cookie = AsBytes(kCookie), .exclusive = kind == LockKind::kExclusive, .alock = LockOf(owner, range)};
  auto reply = co_await service_.Call<NLMPROC4_TEST>(arguments, name_);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nlm4_testrply& tested = reply->results.test_stat;
  if (tested.discriminant() == NLM4_GRANTED) co_return std::nullopt;
  if (tested.discriminant() != NLM4_DENIED) co_return std::unexpected(ErrorOfStatus(tested.discriminant(), name_));
  const nlm4_holder& holder = tested.holder();
  const uint64_t length = holder.l_len == 0 ? ByteRange::kToEnd : holder.l_len;
  const LockConflict conflict{{holder.l_offset, length}, holder.exclusive ? LockKind::kExclusive : LockKind::kShared};
  // A range that no lock can have.
  if (!IsValid(conflict.range)) co_return std::unexpected(ErrorOfStatus(NLM4_GRANTED, name_));
  co_return conflict;
}

Task<Result<std::optional<LockConflict>>> FileLocks::Test(std::string owner_name, ByteRange range, LockKind kind) {
  if (!IsValid(range)) co_return std::unexpected(client::ErrorOf(Status::kInvalid, name_));
  const Owner& owner = OwnerOf(owner_name);
  Retries retries(service_.timers().Now() + service_.give_up_after());
  for (;;) {
    Result<std::optional<LockConflict>> tested = co_await TestOnce(owner, range, kind);
    if (tested || !IsGrace(tested.error()) || service_.timers().Now() >= retries.give_up) co_return tested;
    co_await Pause(service_.timers(), retries.NextDelay(), service_.ending());
  }
}

// ---- release and reclaim ----

Task<Result<void>> FileLocks::ReleaseOnce(Owner& owner) {
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
  if (!owner.held.empty()) co_return Result<void>();
  Result<void> released;
  if (owner.unsure) released = co_await SendUnlock(owner, {});
  // A file that is removed has no locks.
  if (!released && released.error().status != Status::kStale) co_return released;
  owner.unsure = false;
  if (std::exchange(owner.recorded, false)) co_await service_.Forget(RecordOf(owner));
  co_return Result<void>();
}

Task<bool> FileLocks::ReleaseAll() {
  for (auto& [name, owner] : owners_) {
    owner.unsure = owner.unsure || !owner.held.empty();
    // The recovery must not ask for them again.
    owner.held.Clear();
  }
  bool has_all_back = true;
  for (auto& [name, owner] : owners_) {
    const Result<void> released = co_await AfterGrace([&] { return ReleaseOnce(owner); });
    if (released) continue;
    log::debug("{}", released.error().message);
    has_all_back = false;
    if (!service_.answered()) break;
  }
  if (has_all_back) service_.Remove(*this);
  co_return has_all_back;
}

Task<void> FileLocks::ReleaseLost(std::shared_ptr<FileLocks>, Owner& owner) {
  const Result<void> released = co_await AfterGrace([&] { return ReleaseOnce(owner); });
  if (!released) log::debug("{}", released.error().message);
}

Task<bool> FileLocks::Reclaim() {
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
  for (auto& [name, owner] : owners_) {
    const std::vector<HeldLocks::Piece> pieces = owner.held.pieces();
    for (const HeldLocks::Piece& piece : pieces) {
      const Reclaimed reclaimed = co_await ReclaimOne(owner, piece);
      if (reclaimed == Reclaimed::kUnknown) co_return false;
      if (reclaimed == Reclaimed::kYes) continue;
      // The owner loses its other locks as well, so it must not keep them at the server.
      owner.unsure = true;
      owner.held.Clear();
      owner.lost = true;
      const Result<void> unlocked = co_await SendUnlock(owner, {});
      // Other files must be reclaimed in the grace period.
      if (!unlocked) service_.SpawnBackground(ReleaseLost(shared_from_this(), owner));
      break;
    }
  }
  co_return true;
}

// A server that has not restarted grants the lock, which the owner has. One in its grace period wants to hear that it
// is a reclaim. If that period is over, the lock may still be free.
Task<FileLocks::Reclaimed> FileLocks::ReclaimOne(const Owner& owner, const HeldLocks::Piece& piece) {
  Retries retries(TimePoint::max());
  for (bool reclaim = false;; reclaim = !reclaim) {
    const nlm4_lockargs arguments{.cookie = AsBytes(kCookie),
                                  .block = false,
                                  .exclusive = piece.kind == LockKind::kExclusive,
                                  .alock = LockOf(owner, piece.range),
                                  .reclaim = reclaim,
                                  .state = 1};
    auto reply = co_await service_.Call<NLMPROC4_LOCK>(arguments, name_);
    if (!reply) {
      log::debug("lock not reclaimed: {}", reply.error().message);
      co_return Reclaimed::kUnknown;
    }
    if (reply->results.stat == NLM4_GRANTED) co_return Reclaimed::kYes;
    if (reply->results.stat != NLM4_DENIED_GRACE_PERIOD) {
      log::warn("the server has restarted, and does not give a lock back: {}",
                ErrorOfStatus(reply->results.stat, name_).message);
      co_return Reclaimed::kNo;
    }
    // The grace period has ended between the two requests.
    if (reclaim) co_await Pause(service_.timers(), retries.NextDelay(), service_.closing());
    if (IsCancelled(service_.closing())) co_return Reclaimed::kUnknown;
  }
}

}  // namespace penstock::client::v3
