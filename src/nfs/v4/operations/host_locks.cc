#include "nfs/v4/operations/host_locks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/many_locks.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {
namespace {

using Status = HostLocks::Status;

// A host without locks is forgotten after this time, or after the second one if there are many hosts.
constexpr Duration kKept = std::chrono::minutes(10);
constexpr Duration kKeptAmongMany = std::chrono::seconds(30);
constexpr size_t kMany = 1 << 13;

// The dialect whose errors the tables return; HostLocks converts them.
const Dialect& TableDialect() { return *FindDialect(MinorVersion(1)); }

// The name of a process as a lock-owner, in the tables.
class OwnerName {
 public:
  explicit OwnerName(uint32_t process) { StoreBig(octets_.data(), process); }
  ConstBytes bytes() const { return octets_; }

 private:
  std::array<std::byte, sizeof(uint32_t)> octets_{};
};

uint32_t ProcessIn(std::string_view owner) { return LoadBig<uint32_t>(AsBytes(owner).data()); }

// The open-owner of all opens that stand for the locks of a host, and that of a share. An open that stands for locks
// has no access and denies none. It lasts while the host has locks on the file or waits for some.
ConstBytes OpenerOfLocks() { return AsBytes("locks"); }
std::string OpenerOfShare(std::string_view owner) { return "share " + std::string(owner); }

OpenState& OpenOf(StateTables& state, const Opens::OpenResult& opened, const NamedFile& file) {
  return **state.files.Find<OpenState>(PresenterWithoutSession(), opened.stateid, file.handle);
}

void RemoveUnusedOpen(StateTables& state, OpenState& open, TimePoint now) {
  const bool waits = open.file->queue.Has(open.client->id);
  if (open.locks.empty() && !waits) state.files.opens.Remove(open, Ending::kReleased, now);
}

}  // namespace

// ---- what all requests have in common

std::optional<HostLocks::Attempt> HostLocks::CheckNew(StateTables& state, const LockedFile& file,
                                                      const LockHostName& host, bool reclaim, bool exclusive) const {
  const bool may_try = reclaim ? state.clients.grace().is_open() : !state.clients.InGrace();
  if (!may_try) return Attempt{.answer = {.status = Status::kGrace}};
  // A host that the server did not know before its restart may have lost its locks to others since.
  if (reclaim && !state.clients.grace().Knew(LockHostKey(host), Principal())) {
    return Attempt{.answer = {.status = Status::kDenied}};
  }
  // A client with a delegation may hold locks that it has not told the server (RFC 8881 §10.4.2).
  auto recall = state.files.delegations.RecallFor(
      file.name, std::nullopt, exclusive ? Delegations::Use::kWrite : Delegations::Use::kRead, services_.clock.Now());
  if (recall.holders.empty()) return std::nullopt;
  return Attempt{.answer = {.status = Status::kRecalled}, .blockers = std::move(recall.holders)};
}

HostLocks::Attempt HostLocks::DeniedBy(StateTables& state, const Locks::LockConflict& conflict) const {
  Holder holder{.range = conflict.held.range, .exclusive = conflict.held.exclusive, .name = conflict.owner};
  Attempt denied{.answer = {.status = Status::kDenied}};
  if (IsLockHost(conflict.client)) {
    holder.host = state.lock_hosts.Find(conflict.client)->name;
    holder.process = ProcessIn(conflict.owner);
    holder.name = holder.host->name;
  } else if (conflict.client == ClientId()) {
    denied.answer.is_local_conflict = true;
  } else {
    holder.name = "a client of NFSv4";
    denied.blockers.push_back(conflict.client);
  }
  denied.answer.holder = std::move(holder);
  return denied;
}

// The record makes the server tell the host after a restart that it must reclaim. Without it, no lock is granted.
Task<bool> HostLocks::Record(Loop* loop, const Process& by, ClientId host) {
  const RecoveryRecord record = LockHostRecord(by.host, by.ours);
  if (!co_await services_.recovery.Record(loop, record)) co_return false;
  services_.state.Run([&](StateTables& state) {
    // If the host has ended meanwhile, its record has been removed again. It has another ID if it has come back.
    if (LockHost* const known = state.lock_hosts.Find(host)) known->recorded = true;
  });
  co_return true;
}

Task<HostLocks::LocalLocks> HostLocks::OpenLocal(Loop* loop, const LockedFile& file, bool exclusive) const {
  fs::RequestContext context = file.caller.context();
  context.loop = loop;
  co_return co_await file.in->file_system().OpenLocks(context, file.name.handle.object, exclusive);
}

template <class Try>
Task<HostLocks::Answer> HostLocks::Repeat(Loop* loop, const LockedFile& file, const Process& by, bool exclusive,
                                          Try attempt) {
  LocalLocks local;
  ChangeWait change(loop);
  for (;;) {
    Attempt made = services_.state.Run([&](StateTables& state) { return attempt(state, local); });
    if (made.unrecorded) {
      if (co_await Record(loop, by, *made.unrecorded)) continue;
      co_return Answer{.status = Status::kNoRoom};
    }
    if (made.must_wait) {
      if (!loop) co_return Answer{.status = Status::kRecalled};  // the host asks again
      co_await change.Once();
      continue;
    }
    if (made.needs_local) {
      local = co_await OpenLocal(loop, file, exclusive);
      if (*local) continue;
      const fs::Error error = local->error();
      if (error == fs::Error::kStale) co_return Answer{.status = Status::kStale};
      // kDelay: no descriptor is left, or a local program has a lease, which is being broken.
      co_return Answer{.status = error == fs::Error::kDelay ? Status::kRecalled : Status::kFailed};
    }
    if (!made.blockers.empty() && co_await ForgetExpiredHolders(services_, loop, std::move(made.blockers))) continue;
    if (made.answer.status == Status::kNoRoom && co_await MakeRoomForState(services_, loop)) continue;
    co_return std::move(made.answer);
  }
}

// ---- locks

HostLocks::Attempt HostLocks::TryLock(StateTables& state, const LockedFile& file, const Process& by,
                                      const Request& request, const LocalLocks& local) const {
  if (request.given_up && *request.given_up) return {.answer = {.status = Status::kDenied}};
  const TimePoint now = services_.clock.Now();
  const LockHost* const host = state.GetLockHost(by.host, now);
  if (!host) return {.answer = {.status = Status::kNoRoom}};
  if (!host->recorded) return {.unrecorded = host->id};
  if (auto refused = CheckNew(state, file, by.host, request.reclaim, request.exclusive)) return *std::move(refused);
  const OwnerName owner(by.number);
  Files& files = state.files;
  if (files.locks.IsChanging(file.name)) return {.must_wait = true};
  if (!local && files.locks.NeedsLocalLocks(file.name, host->id, owner.bytes(), request.exclusive)) {
    return {.needs_local = true};
  }
  OpenOwner* const opener = files.owners.GetOpenOwner(host->id, OpenerOfLocks(), now);
  if (!opener) return {.answer = {.status = Status::kNoRoom}};
  const Opens::OpenResult opened = files.opens.AddOpen(*opener, file.name, Share(), nullptr, TableDialect(), now);
  if (opened.status != nfs4::NFS4_OK) {
    files.owners.ReleaseOwner(*opener, now);
    return {.answer = {.status = Status::kNoRoom}};
  }
  OpenState& open = OpenOf(state, opened, file.name);
  Locks::LockRequest asked{.range = request.range,
                           .exclusive = request.exclusive,
                           .blocking = request.waits,
                           .can_be_told = true,
                           .local = local ? **local : nullptr,
                           .is_local_open = local.has_value()};
  Locks::LockResult result = files.locks.Lock(open, owner.bytes(), asked, TableDialect(), now);
  if (result.asks) {
    asked.answer = Locks::LocalAnswer{result.asks->Lock(request.range.first, request.range.last, request.exclusive)};
    result = files.locks.Lock(open, owner.bytes(), asked, TableDialect(), now);
  }
  Attempt made;
  if (result.needs_local) {
    made.needs_local = true;
  } else if (result.status == nfs4::NFS4ERR_DENIED) {
    made = DeniedBy(state, *result.conflict);
  } else if (result.status != nfs4::NFS4_OK) {
    made.answer.status = Status::kNoRoom;
  }
  RemoveUnusedOpen(state, open, now);
  return made;
}

Task<HostLocks::Answer> HostLocks::Lock(Loop* loop, LockedFile file, Process by, Request request) {
  co_return co_await Repeat(loop, file, by, request.exclusive, [&](StateTables& state, const LocalLocks& local) {
    return TryLock(state, file, by, request, local);
  });
}

HostLocks::Attempt HostLocks::TryTest(StateTables& state, const LockedFile& file, const Process& by,
                                      const Request& request, const LocalLocks& local) const {
  if (state.clients.InGrace()) return {.answer = {.status = Status::kGrace}};
  auto recall = state.files.delegations.RecallFor(
      file.name, std::nullopt, request.exclusive ? Delegations::Use::kWrite : Delegations::Use::kRead,
      services_.clock.Now());
  if (!recall.holders.empty()) {
    return {.answer = {.status = Status::kRecalled}, .blockers = std::move(recall.holders)};
  }
  const LockHost* const host = state.lock_hosts.Find(by.host);
  const ClientId id = host ? host->id : ClientId();
  const OwnerName owner(by.number);
  const Locks& locks = state.files.locks;
  if (locks.IsChanging(file.name)) return {.must_wait = true};
  if (!local && locks.NeedsLocalLocks(file.name, id, owner.bytes(), false)) return {.needs_local = true};
  auto conflict = locks.TestLock(file.name, id, owner.bytes(), request.range, request.exclusive);
  if (!conflict) {
    const auto seen = locks.LocalLocksOf(file.name, id, owner.bytes(), local ? **local : nullptr);
    conflict = Locks::TestLocally(seen.get(), request.range, request.exclusive);
  }
  return conflict ? DeniedBy(state, *conflict) : Attempt();
}

Task<HostLocks::Answer> HostLocks::Test(Loop* loop, LockedFile file, Process by, Request request) {
  co_return co_await Repeat(loop, file, by, false, [&](StateTables& state, const LocalLocks& local) {
    return TryTest(state, file, by, request, local);
  });
}

Task<HostLocks::Answer> HostLocks::Unlock(Loop* loop, NamedFile file, Process by, LockRange range) {
  const auto attempt = [&](StateTables& state) -> Status {
    LockHost* const host = state.lock_hosts.Find(by.host);
    if (!host) return Status::kGranted;
    state.lock_hosts.Use(*host, services_.clock.Now());
    const TimePoint now = services_.clock.Now();
    LockState* const locks = state.files.locks.FindLocks(file, host->id, OwnerName(by.number).bytes());
    if (!locks) return Status::kGranted;
    const nfs4::nfsstat4 status = state.files.locks.Unlock(*locks, range, TableDialect(), now);
    if (status != nfs4::NFS4_OK) return Status::kNoRoom;
    if (locks->local) locks->local->Unlock(range.first, range.last);
    if (!locks->ranges.empty()) return Status::kGranted;
    OpenState& open = *locks->open;
    state.files.locks.RemoveLocks(*locks, Ending::kReleased);
    RemoveUnusedOpen(state, open, now);
    return Status::kGranted;
  };
  for (;;) {
    const Status status = services_.state.Run(attempt);
    if (status == Status::kNoRoom && co_await MakeRoomForState(services_, loop)) continue;
    co_return Answer{.status = status};
  }
}

std::optional<HostLocks::Process> HostLocks::ProcessOf(const LockNotice& notice) const {
  return services_.state.Run([&](StateTables& state) -> std::optional<Process> {
    const LockHost* const host = state.lock_hosts.Find(notice.client);
    if (!host) return std::nullopt;
    return Process{.host = host->name, .ours = {}, .number = ProcessIn(notice.owner)};
  });
}

void HostLocks::StopWaiting(const NamedFile& file, const Process& by, const LockRange& range) {
  services_.state.Run([&](StateTables& state) {
    const LockHost* const host = state.lock_hosts.Find(by.host);
    if (!host) return;
    const TimePoint now = services_.clock.Now();
    state.files.locks.StopWaiting(file, host->id, OwnerName(by.number).bytes(), range, now);
    OpenOwner* const opener = state.files.owners.FindOpenOwner(host->id, OpenerOfLocks());
    OpenState* const open = opener ? state.files.opens.Find(*opener, file) : nullptr;
    if (open) RemoveUnusedOpen(state, *open, now);
  });
}

// ---- shares

HostLocks::Attempt HostLocks::TryShare(StateTables& state, const LockedFile& file, const LockHostName& by,
                                       std::string_view owner, const Share& share, bool reclaim,
                                       const bool* given_up) const {
  if (given_up && *given_up) return {.answer = {.status = Status::kDenied}};
  const TimePoint now = services_.clock.Now();
  const LockHost* const host = state.GetLockHost(by, now);
  if (!host) return {.answer = {.status = Status::kNoRoom}};
  if (!host->recorded) return {.unrecorded = host->id};
  if (auto refused = CheckNew(state, file, by, reclaim, share.writes() || share.deny != 0)) return *std::move(refused);
  Files& files = state.files;
  const std::string name = OpenerOfShare(owner);
  OpenOwner* opener = files.owners.GetOpenOwner(host->id, AsBytes(name), now);
  if (!opener) return {.answer = {.status = Status::kNoRoom}};
  // The owner's earlier share must not conflict with the new one. It comes back if another share does.
  std::optional<Share> earlier;
  if (OpenState* const open = files.opens.Find(*opener, file.name)) {
    earlier = open->share;
    files.opens.Remove(*open, Ending::kReleased, now);
    opener = files.owners.GetOpenOwner(host->id, AsBytes(name), now);
    if (!opener) return {.answer = {.status = Status::kNoRoom}};
  }
  const Opens::OpenResult opened = files.opens.AddOpen(*opener, file.name, share, nullptr, TableDialect(), now);
  if (opened.status == nfs4::NFS4_OK) return {};
  if (earlier) {
    files.opens.AddOpen(*opener, file.name, *earlier, nullptr, TableDialect(), now);
  } else {
    files.owners.ReleaseOwner(*opener, now);
  }
  if (opened.status != nfs4::NFS4ERR_SHARE_DENIED) return {.answer = {.status = Status::kNoRoom}};
  Attempt denied{.answer = {.status = Status::kDenied}};
  if (!IsLockHost(*opened.blocker)) denied.blockers.push_back(*opened.blocker);
  return denied;
}

Task<HostLocks::Answer> HostLocks::SetShare(Loop* loop, LockedFile file, Process by, std::string owner, Share share,
                                            bool reclaim, const bool* given_up) {
  co_return co_await Repeat(loop, file, by, false, [&](StateTables& state, const LocalLocks&) {
    return TryShare(state, file, by.host, owner, share, reclaim, given_up);
  });
}

void HostLocks::RemoveShare(const NamedFile& file, const LockHostName& by, std::string_view owner) {
  services_.state.Run([&](StateTables& state) {
    const LockHost* const host = state.lock_hosts.Find(by);
    if (!host) return;
    const std::string name = OpenerOfShare(owner);
    OpenOwner* const opener = state.files.owners.FindOpenOwner(host->id, AsBytes(name));
    OpenState* const open = opener ? state.files.opens.Find(*opener, file) : nullptr;
    if (open) state.files.opens.Remove(*open, Ending::kReleased, services_.clock.Now());
  });
}

// ---- hosts

std::set<IpAddress> HostLocks::Addresses() const {
  return services_.state.Run([&](StateTables& state) {
    std::set<IpAddress> addresses;
    for (const LockHost* host : state.lock_hosts.by_use()) addresses.insert(host->name.address);
    return addresses;
  });
}

std::vector<LockHostName> HostLocks::HostsAt(const IpAddress& address) const {
  return services_.state.Run([&](StateTables& state) {
    std::vector<LockHostName> names;
    for (const LockHost* host : state.lock_hosts.At(address)) names.push_back(host->name);
    return names;
  });
}

void HostLocks::EndHosts(Loop* loop, const std::vector<LockHostName>& hosts) {
  services_.state.Run([&](StateTables& state) {
    for (const LockHostName& host : hosts) {
      if (LockHost* const known = state.lock_hosts.Find(host)) state.EndLockHost(*known, services_.clock.Now());
    }
  });
  for (const LockHostName& host : hosts) services_.recovery.RemoveLater(loop, LockHostKey(host));
}

void HostLocks::Sweep(Loop* loop) {
  const std::vector<std::string> idle = services_.state.Run([&](StateTables& state) {
    const TimePoint now = services_.clock.Now();
    const Duration kept = state.lock_hosts.size() > kMany ? kKeptAmongMany : kKept;
    std::vector<LockHost*> over;
    for (LockHost* host : state.lock_hosts.by_use()) {
      if (now - host->used < kept) break;
      if (!state.files.HasState(host->id)) over.push_back(host);
    }
    std::vector<std::string> keys;
    for (LockHost* host : over) {
      if (host->recorded) keys.push_back(LockHostKey(host->name));
      state.EndLockHost(*host, now);
    }
    return keys;
  });
  for (const std::string& key : idle) services_.recovery.RemoveLater(loop, key);
}

}  // namespace penstock::nfs::v4
