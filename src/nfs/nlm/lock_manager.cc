#include "nfs/nlm/lock_manager.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/host.h"
#include "base/local_port.h"
#include "base/log.h"
#include "nfs/caller.h"
#include "nfs/export_options.h"
#include "nfs/padded_handle.h"
#include "nfs/patience.h"

namespace penstock::nfs::nlm {

using namespace nlm4;  // NOLINT: the protocol's own names, RFC 1813 appendix II
using v4::HostLocks;

namespace {

// The most results of asynchronous calls that are being sent. More are dropped: the host sends its call again.
constexpr HostShares::Limits kMostSending{.all = 256, .per_host = 64};
// The longest chain of processes that wait for each other.
constexpr int kLongestChain = 16;

Status ToStatus(HostLocks::Status status) {
  switch (status) {
    case HostLocks::Status::kGranted:
      return NLM4_GRANTED;
    case HostLocks::Status::kDenied:
    case HostLocks::Status::kRecalled:
      return NLM4_DENIED;
    case HostLocks::Status::kGrace:
      return NLM4_DENIED_GRACE_PERIOD;
    case HostLocks::Status::kNoRoom:
      return NLM4_DENIED_NOLOCKS;
    case HostLocks::Status::kStale:
      return NLM4_STALE_FH;
    case HostLocks::Status::kFailed:
      return NLM4_FAILED;
  }
  std::unreachable();
}

Status ToStatus(fs::Error error) {
  switch (error) {
    case fs::Error::kStale:
    case fs::Error::kBadHandle:
      return NLM4_STALE_FH;
    case fs::Error::kReadOnly:
      return NLM4_ROFS;
    case fs::Error::kDelay:
      return NLM4_DENIED_NOLOCKS;
    default:
      return NLM4_FAILED;
  }
}

HostLocks::Process ProcessOf(const rpc::CallContext& call, std::string_view caller_name, uint32_t number = 0) {
  return {.host = {Unmapped(call.peer.address.address()), std::string(caller_name)},
          .ours = Unmapped(call.peer.local.address()),
          .number = number};
}

// Version 4 has the handles of NFS version 3; versions 1 and 3 have those of NFS version 2.
std::optional<FileHandle> ParseHandle(uint32_t version, ConstBytes fh) {
  if (version == NLM4_VERS) return FileHandle::Parse(fh);
  PaddedHandle padded;
  if (fh.size() != padded.size()) return std::nullopt;
  CopyBytes(padded, fh);
  return FromPadded(padded);
}

// Clients call their server's lock manager with AUTH_SYS, even if they use RPCSEC_GSS for the export. A lock changes
// no data, so AUTH_SYS is enough for it; Linux's server accepts it, too. Other flavors must be the export's. For the
// same reason plain connections are enough: clients have no TLS for these calls.
bool AcceptsFlavor(const ExportOptions& options, const rpc::CallContext& call) {
  const bool forgiven =
      call.credential.flavor == rpc::AuthFlavor::AUTH_SYS && !options.security.Has(SecurityFlavor::kSys);
  return forgiven || Export::FlavorsFor(call.peer, options).Admits(call.credential);
}

// Requires AcceptsFlavor().
Caller CallerOf(const ExportOptions& options, const rpc::CallContext& call) {
  if (options.security.Admits(call.credential)) return {options, call.credential, call.peer};
  ExportOptions with_sys = options;
  with_sys.security.Add(SecurityFlavor::kSys);
  return {with_sys, call.credential, call.peer};
}

// The names of owners in HostRequests.
std::string OwnerOf(const HostLocks::Process& process) { return std::to_string(process.number); }
std::string OwnerOfShare(std::string_view owner) { return "share " + std::string(owner); }

// Whether `given` and `known` are the same name of a host, if one of them may lack the domain.
bool IsSameHost(std::string_view given, std::string_view known) {
  if (given == known) return true;
  const auto first = [](std::string_view name) { return name.substr(0, name.find('.')); };
  const bool one_is_short = first(given) == given || first(known) == known;
  return one_is_short && first(given) == first(known);
}

// The hosts, all at one address, that a message from there with this name is about. The name that a host locks by may
// be another form of it, with or without its domain. If none has such a name, and there is one host only, that one is
// meant.
std::vector<v4::LockHostName> HostsMeant(std::vector<v4::LockHostName> hosts, std::string_view name) {
  const auto is_other = [&](const v4::LockHostName& host) { return !IsSameHost(name, host.name); };
  if (!std::ranges::all_of(hosts, is_other)) {
    std::erase_if(hosts, is_other);
  } else if (hosts.size() > 1) {
    hosts.clear();
  }
  return hosts;
}

std::vector<std::byte> Copy(ConstBytes bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

LockManager::LockManager(const Exports& exports, HostLocks& locks, HostCalls& calls, LocalMonitor& local_monitor,
                         Loop* home, TimerService& timers, const WaitingLocks::Settings& settings)
    : exports_(exports),
      locks_(locks),
      calls_(calls),
      local_monitor_(local_monitor),
      home_(home),
      timers_(timers),
      waiting_(locks, calls, home, timers, settings),
      being_sent_(kMostSending) {}

Task<> LockManager::GoHome() {
  if (home_) co_await SwitchTo(*home_);
}

Task<> LockManager::GoBack(const rpc::CallContext& call) {
  if (call.peer.loop) co_await SwitchTo(*call.peer.loop);
}

// ---- files

LockManager::Found LockManager::Find(const rpc::CallContext& call, ConstBytes fh) const {
  const auto parsed = ParseHandle(call.version, fh);
  std::shared_ptr<const Export> in = parsed ? exports_.Get()->FindShared(parsed->export_id) : nullptr;
  if (!in) return std::unexpected(NLM4_STALE_FH);
  const ExportOptions* const options = in->OptionsFor(call.peer);
  if (!options || Export::FlavorsFor(call.peer, *options).empty()) {
    exports_.refusals().Refuse(call.peer.address, *in);
    return std::unexpected(NLM4_STALE_FH);
  }
  if (!AcceptsFlavor(*options, call)) {
    exports_.refusals().RefuseFlavor(call, *in, options->security);
    return std::unexpected(NLM4_FAILED);
  }
  if (const auto known = in->file_system().Identify(parsed->object); !known) {
    return std::unexpected(ToStatus(known.error()));
  }
  NamedFile name = in->Name(parsed->object);
  return v4::LockedFile{.in = std::move(in),
                        .name = name,
                        .caller = CallerOf(*options, call),
                        .read_only = options->IsReadOnlyFor(nfs_protocol::FlavorOf(call.credential))};
}

Task<Status> LockManager::Permit(const v4::LockedFile& file, bool reads, bool writes) const {
  if (writes && file.read_only) co_return NLM4_ROFS;
  fs::RequestContext context = file.caller.context();
  context.loop = home_;
  fs::FileSystem& tree = file.in->file_system();
  const fs::Handle& object = file.name.handle.object;
  const auto attributes = co_await tree.GetAttributes(context, object);
  if (!attributes) co_return ToStatus(attributes.error());
  if (attributes->type != fs::FileType::kRegular) co_return NLM4_FAILED;
  // As for READ and WRITE, the owner may do it whatever the mode says: the client has checked the mode when it opened
  // the file.
  if (attributes->uid == context.credentials.uid) co_return NLM4_GRANTED;
  const fs::AccessMask wanted = (reads ? fs::kAccessRead : 0) | (writes ? fs::kAccessModify : 0);
  const auto access = co_await tree.Access(context, object, wanted);
  if (!access.result) co_return ToStatus(access.result.error());
  co_return (*access.result & wanted) == wanted ? NLM4_GRANTED : NLM4_DENIED;
}

Task<HostLocks::Answer> LockManager::Patiently(const Attempt& attempt, Duration limit) {
  Patience patience(&timers_, limit, stops_);
  for (;;) {
    HostLocks::Answer answer = co_await attempt();
    if (answer.status != HostLocks::Status::kRecalled) co_return answer;
    const bool again = co_await patience.Wait();
    if (!again) co_return answer;
  }
}

// ---- procedures

Task<LockManager::Tested> LockManager::Test(const rpc::CallContext& call, CalledLock lock) {
  return AtHome(call, TestHere(call, lock));
}

Task<LockManager::Tested> LockManager::TestHere(const rpc::CallContext& call, CalledLock lock) {
  auto file = Find(call, lock.fh);
  if (!file) co_return Tested{file.error()};
  if (!lock.range) co_return Tested{NLM4_FBIG};
  const Status permitted = co_await Permit(*file, !lock.exclusive, lock.exclusive);
  if (permitted != NLM4_GRANTED) co_return Tested{permitted};
  const HostLocks::Process by = ProcessOf(call, lock.caller_name, lock.process);
  const HostLocks::Request request{.range = *lock.range, .exclusive = lock.exclusive};
  const Attempt attempt = [&] { return locks_.Test(home_, *file, by, request); };
  HostLocks::Answer answer = co_await Patiently(attempt);
  Tested tested{ToStatus(answer.status)};
  if (tested.status == NLM4_DENIED) {
    // A client of NFSv4 that does not return its delegation may have locked anything.
    tested.holder = answer.holder ? *std::move(answer.holder)
                                  : HostLocks::Holder{.range = *lock.range, .exclusive = true, .name = "NFSv4"};
  }
  co_return tested;
}

Task<Status> LockManager::Lock(const rpc::CallContext& call, CalledLock lock, bool block, bool reclaim) {
  return AtHome(call, LockHere(call, lock, block, reclaim));
}

Task<Status> LockManager::LockHere(const rpc::CallContext& call, CalledLock lock, bool block, bool reclaim) {
  auto file = Find(call, lock.fh);
  if (!file) co_return file.error();
  if (!lock.range) co_return NLM4_FBIG;
  const HostLocks::Process by = ProcessOf(call, lock.caller_name, lock.process);
  HostRequests::Request under_way(requests_, by.host, OwnerOf(by), file->name);
  co_await under_way.Turn();
  const Status permitted = co_await Permit(*file, !lock.exclusive, lock.exclusive);
  if (permitted != NLM4_GRANTED) co_return permitted;
  const HostLocks::Request request{.range = *lock.range,
                                   .exclusive = lock.exclusive,
                                   .waits = block && !reclaim,
                                   .reclaim = reclaim,
                                   .given_up = &under_way.is_void()};
  const Attempt attempt = [&] { return locks_.Lock(home_, *file, by, request); };
  // A request that waits for its lock is repeated anyway.
  const Duration patience = request.waits ? Duration::zero() : kPatience;
  const HostLocks::Answer answer = co_await Patiently(attempt, patience);
  if (answer.status == HostLocks::Status::kGranted) {
    // The process no longer waits for this lock.
    waiting_.Remove(by, file->name, *lock.range);
    local_monitor_.Watch(by.host.address);
    co_return NLM4_GRANTED;
  }
  const bool may_wait = answer.status == HostLocks::Status::kDenied || answer.status == HostLocks::Status::kRecalled;
  if (!request.waits || !may_wait) co_return ToStatus(answer.status);
  if (answer.holder && co_await WouldDeadlock(by, *answer.holder)) {
    locks_.StopWaiting(file->name, by, *lock.range);
    co_return NLM4_DEADLCK;
  }
  if (under_way.is_void()) co_return NLM4_DENIED;
  const NamedFile name = file->name;
  WaitingLock waiting{.file = *std::move(file),
                      .by = by,
                      .request = request,
                      .version = call.version,
                      .by_udp = call.peer.transport == rpc::TransportKind::kUdp,
                      .fh = Copy(lock.fh),
                      .oh = Copy(lock.oh)};
  waiting.request.given_up = nullptr;
  if (waiting_.Add(std::move(waiting))) {
    local_monitor_.Watch(by.host.address);
    co_return NLM4_BLOCKED;
  }
  locks_.StopWaiting(name, by, *lock.range);
  co_return NLM4_DENIED_NOLOCKS;
}

// Follows the processes that wait for each other. Each one is asked anew what it waits for, because it may have
// changed.
Task<bool> LockManager::WouldDeadlock(HostLocks::Process process, HostLocks::Holder holder) {
  for (int hop = 0; hop < kLongestChain && holder.host; ++hop) {
    if (*holder.host == process.host && holder.process == process.number) co_return true;
    const WaitingLock* const waits = waiting_.Find(*holder.host, holder.process);
    if (!waits) co_return false;
    const WaitingLock next = *waits;
    HostLocks::Answer answer = co_await locks_.Test(home_, next.file, next.by, next.request);
    if (!answer.holder) co_return false;
    holder = *std::move(answer.holder);
  }
  co_return false;
}

Task<Status> LockManager::Cancel(const rpc::CallContext& call, CalledLock lock) {
  return AtHome(call, CancelHere(call, lock));
}

Task<Status> LockManager::CancelHere(const rpc::CallContext& call, CalledLock lock) {
  const auto file = Find(call, lock.fh);
  if (!file) co_return file.error();
  if (!lock.range) co_return NLM4_DENIED;  // no such request
  const HostLocks::Process by = ProcessOf(call, lock.caller_name, lock.process);
  HostRequests::Request under_way(requests_, by.host, OwnerOf(by), file->name);
  co_await under_way.Turn();
  switch (waiting_.Remove(by, file->name, *lock.range)) {
    case WaitingLocks::Found::kNone:
      break;
    case WaitingLocks::Found::kWaiting:
      locks_.StopWaiting(file->name, by, *lock.range);
      co_return NLM4_GRANTED;
    case WaitingLocks::Found::kGranted:
      co_return co_await Release(file->name, by, *lock.range);
  }
  co_return NLM4_DENIED;  // no such request
}

Task<Status> LockManager::Release(const NamedFile& file, const HostLocks::Process& by, const v4::LockRange& range) {
  const HostLocks::Answer answer = co_await locks_.Unlock(home_, file, by, range);
  co_return ToStatus(answer.status);
}

Task<Status> LockManager::Unlock(const rpc::CallContext& call, CalledLock lock) {
  return AtHome(call, UnlockHere(call, lock));
}

Task<Status> LockManager::UnlockHere(const rpc::CallContext& call, CalledLock lock) {
  const auto file = Find(call, lock.fh);
  if (!file) co_return file.error();
  if (!lock.range) co_return NLM4_FBIG;
  const HostLocks::Process by = ProcessOf(call, lock.caller_name, lock.process);
  HostRequests::Request under_way(requests_, by.host, OwnerOf(by), file->name);
  co_await under_way.Turn();
  const auto exact = waiting_.RemoveUnlocked(by, file->name, *lock.range);
  if (exact == WaitingLocks::Found::kWaiting) locks_.StopWaiting(file->name, by, *lock.range);
  co_return co_await Release(file->name, by, *lock.range);
}

Task<Status> LockManager::SetShare(const rpc::CallContext& call, CalledShare share, bool reclaim) {
  return AtHome(call, SetShareHere(call, share, reclaim));
}

Task<Status> LockManager::SetShareHere(const rpc::CallContext& call, CalledShare share, bool reclaim) {
  auto file = Find(call, share.fh);
  if (!file) co_return file.error();
  // A share may keep others from opening the file, so AUTH_SYS is not always enough.
  if (!file->in->TakesFlavor(call.peer, call.credential)) co_return NLM4_FAILED;
  if (!file->in->AdmitsProtection(call.peer)) co_return NLM4_FAILED;
  const HostLocks::Process by = ProcessOf(call, share.caller_name);
  const std::string owner(AsText(share.oh));
  HostRequests::Request under_way(requests_, by.host, OwnerOfShare(owner), file->name);
  co_await under_way.Turn();
  // A user who may not read the file must not deny others the access to it.
  const bool reads = share.share.reads() || !share.share.writes();
  const Status permitted = co_await Permit(*file, reads, share.share.writes());
  if (permitted != NLM4_GRANTED) co_return permitted;
  const Attempt attempt = [&] {
    return locks_.SetShare(home_, *file, by, owner, share.share, reclaim, &under_way.is_void());
  };
  const HostLocks::Answer answer = co_await Patiently(attempt);
  if (answer.status == HostLocks::Status::kGranted) local_monitor_.Watch(by.host.address);
  co_return ToStatus(answer.status);
}

Task<Status> LockManager::RemoveShare(const rpc::CallContext& call, CalledShare share) {
  return AtHome(call, RemoveShareHere(call, share));
}

Task<Status> LockManager::RemoveShareHere(const rpc::CallContext& call, CalledShare share) {
  const auto file = Find(call, share.fh);
  if (!file) co_return file.error();
  const v4::LockHostName host = ProcessOf(call, share.caller_name).host;
  HostRequests::Request under_way(requests_, host, OwnerOfShare(AsText(share.oh)), file->name);
  co_await under_way.Turn();
  locks_.RemoveShare(file->name, host, AsText(share.oh));
  co_return NLM4_GRANTED;
}

// ---- restarts of hosts

Task<> LockManager::EndHost(const rpc::CallContext& call, std::string_view name, std::optional<int32_t> state) {
  if (call.peer.address.port() >= kFirstUnreservedPort) {
    if (told_of_port_.Allows(timers_.Now())) {
      log::warn("{}:{} says that its host has started again: ignored, since the port is not below {}",
                call.peer.address.address().to_string(), call.peer.address.port(), kFirstUnreservedPort);
    }
    co_return;
  }
  co_await GoHome();
  const IpAddress address = Unmapped(call.peer.address.address());
  const bool is_new = !state || restarts_.IsNew(address, name, *state, timers_.Now());
  if (is_new) EndHosts(HostsMeant(HostsAt(address), name));
  co_await GoBack(call);
}

Task<> LockManager::EndWatchedHost(const rpc::CallContext& call, ConstBytes cookie, int32_t state) {
  const IpAddress from = Unmapped(call.peer.address.address());
  if (!from.is_loopback() || call.peer.address.port() >= kFirstUnreservedPort) {
    if (told_of_sender_.Allows(timers_.Now())) {
      log::warn("{}:{} says that another host has started again: ignored, since it is not this host's status monitor",
                from.to_string(), call.peer.address.port());
    }
    co_return;
  }
  co_await GoHome();
  // An unknown cookie is one of an earlier run.
  if (const auto address = local_monitor_.Find(cookie)) EndHostsAt(*address, state);
  co_await GoBack(call);
}

void LockManager::EndHostsAt(const IpAddress& address, int32_t state) {
  const std::vector<v4::LockHostName> hosts = HostsAt(address);
  if (hosts.empty()) return;
  const auto is_first = [&](const v4::LockHostName& host) { return IsSameHost(host.name, hosts.front().name); };
  if (!std::ranges::all_of(hosts, is_first)) {
    if (told_of_names_.Allows(timers_.Now())) {
      log::warn("a host at {} has started again, but {} hosts have locked files from there: their locks stay",
                address.to_string(), hosts.size());
    }
    return;
  }
  // The host may have told the server as well.
  if (!restarts_.IsNew(address, hosts.front().name, state, timers_.Now())) return;
  if (told_of_end_.Allows(timers_.Now())) {
    log::info("{} ({}) has started again, says this host's status monitor: its locks end", hosts.front().name,
              address.to_string());
  }
  EndHosts(hosts);
}

std::vector<v4::LockHostName> LockManager::HostsAt(const IpAddress& address) const {
  std::set<v4::LockHostName> names;
  for (const auto& some : {locks_.HostsAt(address), waiting_.HostsAt(address), requests_.HostsAt(address)}) {
    names.insert(some.begin(), some.end());
  }
  return {names.begin(), names.end()};
}

void LockManager::EndHosts(const std::vector<v4::LockHostName>& hosts) {
  requests_.End(hosts);
  waiting_.RemoveHosts(hosts);
  locks_.EndHosts(home_, hosts);
}

void LockManager::Sweep() {
  locks_.Sweep(home_);
  local_monitor_.Keep(locks_.Addresses());
}

// ---- results of asynchronous calls

void LockManager::SendResults(const rpc::CallContext& call, uint32_t procedure,
                              std::function<void(xdr::Encoder&)> write) {
  const HostCall results{.host = Unmapped(call.peer.address.address()),
                         .ours = Unmapped(call.peer.local.address()),
                         .program = NLM4_PROGRAM,
                         .version = call.version,
                         .procedure = procedure,
                         .by_udp = call.peer.transport == rpc::TransportKind::kUdp};
  Spawn(Send(results, std::move(write)));
}

Task<> LockManager::Send(HostCall call, std::function<void(xdr::Encoder&)> write) {
  co_await GoHome();
  if (stops_ || !being_sent_.Take(call.host)) co_return;
  sending_.Begin();
  const std::function<bool(xdr::Decoder&)> read = [](xdr::Decoder&) { return true; };
  (void)co_await calls_.Call(call, write, read);
  being_sent_.Return(call.host);
  sending_.End();
}

Task<> LockManager::Stop() {
  stops_ = true;
  co_await waiting_.Stop();
  co_await sending_.Ended();
}

}  // namespace penstock::nfs::nlm
