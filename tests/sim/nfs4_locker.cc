#include "nfs4_locker.h"

#include <algorithm>

namespace penstock::simulation {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881
using client::Status;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr uint64_t kUnit = 1000;  // octets

uint64_t OffsetOf(LockBook::Span span) { return span.first * kUnit; }
// A span up to the last unit has no end (length UINT64_MAX).
uint64_t LengthOf(LockBook::Span span) {
  return span.last + 1 == LockBook::kUnits ? UINT64_MAX : (span.last - span.first + 1) * kUnit;
}
nfs_lock_type4 TypeOf(LockBook::Grade grade) { return grade == LockBook::Grade::kShared ? READ_LT : WRITE_LT; }

bool IsLockLost(Status status) {
  const auto number = static_cast<nfsstat4>(status);
  return number == NFS4ERR_BAD_STATEID || number == NFS4ERR_EXPIRED || number == NFS4ERR_STALE_STATEID;
}

}  // namespace

Nfs4Locker::Nfs4Locker(rdma::sim::World& world, Findings& findings, Facts facts, SessionUse session, Locks locks)
    : SessionWorker(world, findings, std::move(facts), std::move(session)),
      locks_(std::move(locks)),
      holder_(locks_.book.AddHolder(name(), locks_.keeps)) {
  for (const auto& [file, handle] : locks_.files) files_.push_back({.name = file, .open = {.handle = handle}});
}

Task<void> Nfs4Locker::Act() {
  const size_t index = world_.random().Below(files_.size());
  if (!files_[index].open.stateid) return OpenFile(locks_.directory, files_[index].name, files_[index].open);
  switch (world_.random().Below(10)) {
    case 0:
      return Close(index);
    case 1:
    case 2:
      return Unlock(index);
    case 3:
    case 4:
    case 5:
      return Test(index);
    default:
      return Lock(index);
  }
}

Task<void> Nfs4Locker::Finish() {
  for (size_t index = 0; index < files_.size(); ++index) co_await Close(index);
}

LockBook::Span Nfs4Locker::DrawSpan() {
  const size_t first = world_.random().Below(LockBook::kUnits);
  return {first, first + world_.random().Below(LockBook::kUnits - first)};
}

LockBook::Grade Nfs4Locker::DrawGrade() { return world_.random().Chance(0.5) ? Grade::kShared : Grade::kExclusive; }

void Nfs4Locker::CheckMet(std::string_view what, const std::string& holder) {
  if (!holder.empty()) Unexpected(what, fmt::format("{} has a conflicting lock", holder));
}

// The locks are lost because the lease has expired, or because the reclaim came too late.
void Nfs4Locker::HandleLost(size_t index) {
  LockedFile& file = files_[index];
  world_.Trace("{}: the locks on {} are lost", name(), file.name);
  file.stateid.reset();
  file.held = {};
  Expect(locks_.book.HandleLost(holder_, index), "the server lost locks that it had to keep");
}

LOCK4args Nfs4Locker::MakeLock(const LockedFile& file, Span span, Grade grade, bool reclaim) const {
  LOCK4args lock{.locktype = TypeOf(grade), .reclaim = reclaim, .offset = OffsetOf(span), .length = LengthOf(span)};
  if (IsKnown(file)) {
    lock.locker = locker4(false, exist_lock_owner4{*file.stateid, 0});
  } else {
    const lock_owner4 owner{session_.client(), {AsBytes(name())}};
    lock.locker = locker4(true, open_to_lock_owner4{0, StateIdOf(file.open), 0, owner});
  }
  return lock;
}

// Repeats LOCK until the server grants it or the waiting time is over. That time is long if another client is silent.
Task<void> Nfs4Locker::Lock(size_t index) {
  LockedFile& file = files_[index];
  const Span span = DrawSpan();
  const Grade grade = DrawGrade();
  const bool patient = locks_.any_client_is_silent() && world_.random().Chance(0.3);
  const TimePoint give_up = world_.Now() + (patient ? seconds(200) : milliseconds(world_.random().Below(40)));
  world_.Trace("{}: {} of units {} to {} of {}", name(), grade == Grade::kShared ? "shared" : "exclusive", span.first,
               span.last, file.name);
  const LockBook::Units before = locks_.book.HandleAsked(holder_, index, span, grade);
  while (findings_.empty()) {
    uint64_t epoch = 0;
    const auto build = [&] {
      epoch = session_.epoch();
      return std::tuple(PUTFH4args{file.open.handle}, MakeLock(file, span, grade, false));
    };
    auto reply = co_await Ask("LOCK", {}, build);
    if (!reply && !refused_) co_return co_await Close(index);  // CLOSE releases locks that may have been granted
    // A lock that was granted before the server was killed is lost, because the locker did not reclaim it.
    if (epoch != session_.epoch()) continue;
    if (reply) {
      file.stateid = std::get<1>(reply->results).resok4().lock_stateid;
      file.epoch = epoch;
      std::fill(file.held.begin() + span.first, file.held.begin() + span.last + 1, grade);
      co_return CheckMet("LOCK", locks_.book.HandleGranted(holder_, index, span, grade));
    }
    if (IsLockLost(*refused_)) {
      HandleLost(index);
      co_return co_await Close(index);
    }
    if (refused_ != Status::kDenied) co_return Unexpected("LOCK", client::Describe(*refused_));
    if (world_.Now() >= give_up) {
      co_return CheckMet("a denied LOCK", locks_.book.HandleDenied(holder_, index, before));
    }
    const Duration pause = patient ? Duration(seconds(5)) : Duration(milliseconds(10));
    co_await Sleep(world_, pause);
  }
}

Task<void> Nfs4Locker::Unlock(size_t index) {
  LockedFile& file = files_[index];
  const Span span = DrawSpan();
  locks_.book.HandleUnlocking(holder_, index, span);
  // Do not reclaim these units from now on. Until the reply arrives, the server may have unlocked them and granted them
  // to another locker.
  std::fill(file.held.begin() + span.first, file.held.begin() + span.last + 1, Grade::kNone);
  world_.Trace("{}: unlocks units {} to {} of {}", name(), span.first, span.last, file.name);
  while (findings_.empty() && IsKnown(file)) {
    uint64_t epoch = 0;
    const auto build = [&] {
      epoch = file.epoch;
      return std::tuple(PUTFH4args{file.open.handle},
                        LOCKU4args{WRITE_LT, 0, *file.stateid, OffsetOf(span), LengthOf(span)});
    };
    auto reply = co_await Ask("LOCKU", {}, build);
    // Repeat LOCKU if it has no reply, or if the server was killed after it: the locker has reclaimed its locks since
    // then.
    if (epoch != session_.epoch() || (!reply && !refused_)) continue;
    if (reply) {
      file.stateid = std::get<1>(reply->results).lock_stateid();
      break;
    }
    if (!IsLockLost(*refused_)) co_return Unexpected("LOCKU", client::Describe(*refused_));
    HandleLost(index);
    co_return co_await Close(index);
  }
  locks_.book.HandleUnlocked(holder_, index, span);
}

// Compares the server's reply to LOCKT with the book. The reply counts only if the book did not change during the call.
Task<void> Nfs4Locker::Test(size_t index) {
  const LockBook& book = locks_.book;
  const Span span = DrawSpan();
  const Grade grade = DrawGrade();
  const uint64_t version = book.version(index);
  world_.Trace("{}: tests units {} to {} of {}", name(), span.first, span.last, files_[index].name);
  const auto build = [&] {
    return std::tuple(
        PUTFH4args{files_[index].open.handle},
        LOCKT4args{TypeOf(grade), OffsetOf(span), LengthOf(span), {session_.client(), {AsBytes(name())}}});
  };
  auto reply = co_await Ask("LOCKT", {}, build);
  if (!reply && refused_ && refused_ != Status::kDenied) {
    co_return Unexpected("LOCKT", client::Describe(*refused_));
  }
  if ((!reply && !refused_) || book.version(index) != version) co_return;
  if (reply) Expect(!book.IsTaken(holder_, index, span, grade), "LOCKT does not find the lock of another locker");
  if (!reply) Expect(book.MayBeTaken(holder_, index, span, grade), "LOCKT finds a lock that does not exist");
}

// Closes the file, with all locks of this locker. Repeats CLOSE until the server certainly has no open left.
Task<void> Nfs4Locker::Close(size_t index) {
  LockedFile& file = files_[index];
  locks_.book.HandleUnlocking(holder_, index, {});
  file.held = {};
  while ((file.open.stateid || file.open.doubtful) && findings_.empty()) {
    if (file.open.stateid) {
      co_await CloseFile(file.open);
    } else {
      co_await OpenFile(locks_.directory, file.name, file.open);
    }
  }
  file.stateid.reset();
  locks_.book.HandleUnlocked(holder_, index, {});
}

// ---- after a restart of the server ----

Task<void> Nfs4Locker::Reclaim() {
  for (size_t index = 0; index < files_.size(); ++index) {
    if (!files_[index].open.stateid) continue;
    co_await ReclaimFile(files_[index].open);
    if (!findings_.empty()) co_return;
    if (!files_[index].open.stateid) HandleLost(index);
    if (files_[index].open.epoch == session_.epoch()) co_await ReclaimLocks(index);
  }
}

Task<void> Nfs4Locker::ReclaimLocks(size_t index) {
  LockedFile& file = files_[index];
  for (size_t first = 0; first < file.held.size();) {
    const Grade grade = file.held[first];
    const auto end = std::find_if(file.held.begin() + first, file.held.end(), [&](Grade at) { return at != grade; });
    const Span span{first, static_cast<size_t>(end - file.held.begin()) - 1};
    first = span.last + 1;
    for (bool again = grade != Grade::kNone; again;) {
      if (!reclaiming() || file.open.epoch != session_.epoch()) co_return;
      world_.Trace("{}: reclaims units {} to {} of {}", name(), span.first, span.last, file.name);
      const std::tuple operations(PUTFH4args{file.open.handle}, MakeLock(file, span, grade, true));
      const uint64_t epoch = session_.epoch();
      auto reply = co_await session_.ReclaimCall([&] { return operations; }, "reclaiming");
      const Reclaimed judged = JudgeReclaim(reply ? std::optional(reply->status) : std::nullopt);
      again = judged == Reclaimed::kAgain;
      if (judged == Reclaimed::kNo) co_return HandleLost(index);
      if (judged == Reclaimed::kYes) {
        file.stateid = std::get<1>(reply->results).resok4().lock_stateid;
        file.epoch = epoch;
      }
    }
  }
}

}  // namespace penstock::simulation
