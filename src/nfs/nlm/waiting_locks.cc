#include "nfs/nlm/waiting_locks.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "base/cancellation.h"
#include "base/log.h"
#include "protocol/nlm.h"
#include "protocol/nlm4.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::nlm {

using v4::HostLocks;
using Outcome = HostCalls::Outcome;

struct WaitingLocks::Entry {
  explicit Entry(WaitingLock of) : lock(std::move(of)) {}

  const WaitingLock lock;
  std::list<Shared>::iterator place{};
  bool granted = false;         // the server has taken the lock
  bool may_have_heard = false;  // a GRANTED call may have reached the host
  bool busy = false;            // a request or a call is under way
  bool again = false;           // and the lock may have become free since
  bool gone = false;            // not in the list any more
  TimePoint next{};             // of the next request or call
  TimePoint granted_at{};
  std::optional<TimePoint> unreached_since{};        // the time of the first call that has not reached the host
  Cancellation call{};                               // ends the call under way
  std::optional<std::list<Shared>::iterator> due{};  // if other calls to the host come before its call
};

namespace {

std::pair<v4::LockHostName, uint32_t> KeyOf(const HostLocks::Process& process) {
  return {process.host, process.number};
}

template <class Arguments>
void WriteGranted(xdr::Encoder& encoder, const WaitingLock& lock) {
  Arguments arguments;
  // The host tells the lock by its file, process and range; a cookie would tell it nothing.
  arguments.exclusive = lock.request.exclusive;
  arguments.alock.caller_name = lock.by.host.name;
  arguments.alock.fh = ConstBytes(lock.fh);
  arguments.alock.oh = ConstBytes(lock.oh);
  arguments.alock.svid = static_cast<int32_t>(lock.by.number);
  using Offset = decltype(arguments.alock.l_offset);
  arguments.alock.l_offset = static_cast<Offset>(lock.request.range.first);
  const uint64_t length = lock.request.range.length();
  arguments.alock.l_len = length == UINT64_MAX ? 0 : static_cast<Offset>(length);
  xdr::Encode(encoder, arguments);
}

template <class Results>
bool ReadStatus(xdr::Decoder& decoder, uint32_t& status) {
  Results results;
  if (!xdr::Decode(decoder, results)) return false;
  status = static_cast<uint32_t>(results.stat);
  return true;
}

constexpr uint32_t kGranted = static_cast<uint32_t>(nlm4::NLM4_GRANTED);
constexpr uint32_t kGracePeriod = static_cast<uint32_t>(nlm4::NLM4_DENIED_GRACE_PERIOD);

}  // namespace

WaitingLocks::WaitingLocks(HostLocks& locks, HostCalls& calls, Loop* home, TimerService& timers,
                           const Settings& settings)
    : locks_(locks),
      calls_(calls),
      home_(home),
      timers_(timers),
      settings_(settings),
      shares_({.all = settings.most, .per_host = settings.most_per_host}) {}

WaitingLocks::~WaitingLocks() { assert(runs_.count() == 0); }

bool WaitingLocks::Add(WaitingLock lock) {
  if (stopping_) return false;
  Remove(lock.by, lock.file.name, lock.request.range);
  if (!shares_.Take(lock.by.host.address)) return false;
  auto entry = std::make_shared<Entry>(std::move(lock));
  ++of_host_[entry->lock.by.host];
  by_process_[KeyOf(entry->lock.by)].push_back(entry);
  entry->next = timers_.Now();
  entry->place = entries_.insert(entries_.end(), entry);
  if (!timer_) {
    timer_ = timers_.MakeTimer([this] { Look(); });
    timer_->ExpireAfter(settings_.look);
  }
  Start(entry);
  return true;
}

void WaitingLocks::Erase(Entry& entry) {
  if (std::exchange(entry.gone, true)) return;
  const auto of_host = of_host_.find(entry.lock.by.host);
  if (--of_host->second == 0) of_host_.erase(of_host);
  shares_.Return(entry.lock.by.host.address);
  const auto of_process = by_process_.find(KeyOf(entry.lock.by));
  std::erase_if(of_process->second, [&](const Shared& one) { return one.get() == &entry; });
  if (of_process->second.empty()) by_process_.erase(of_process);
  entries_.erase(entry.place);
  TakeFromDue(entry);
  // The process may ask for the lock again, and must not take a late call for the answer.
  entry.call.Cancel();
}

template <class Matches>
void WaitingLocks::EraseIf(const Key& process, Matches matches) {
  const auto found = by_process_.find(process);
  if (found == by_process_.end()) return;
  const std::vector<Shared> all = found->second;
  for (const Shared& entry : all) {
    if (matches(*entry)) Erase(*entry);
  }
}

WaitingLocks::Found WaitingLocks::Remove(const HostLocks::Process& by, const NamedFile& file,
                                         const v4::LockRange& range) {
  Found found = Found::kNone;
  EraseIf(KeyOf(by), [&](const Entry& entry) {
    if (entry.lock.file.name != file || entry.lock.request.range != range) return false;
    found = entry.granted ? Found::kGranted : Found::kWaiting;
    return true;
  });
  return found;
}

WaitingLocks::Found WaitingLocks::RemoveUnlocked(const HostLocks::Process& by, const NamedFile& file,
                                                 const v4::LockRange& range) {
  const Found exact = Remove(by, file, range);
  EraseIf(KeyOf(by), [&](const Entry& entry) {
    return entry.granted && entry.lock.file.name == file && entry.lock.request.range.Overlaps(range);
  });
  return exact;
}

std::vector<v4::LockHostName> WaitingLocks::HostsAt(const IpAddress& address) const {
  std::vector<v4::LockHostName> hosts;
  for (auto each = of_host_.lower_bound({address, {}}); each != of_host_.end() && each->first.address == address;
       ++each) {
    hosts.push_back(each->first);
  }
  return hosts;
}

void WaitingLocks::RemoveFiles(const std::function<bool(const FileHandle&)>& is_gone) {
  for (auto at = by_process_.begin(); at != by_process_.end();) {
    const Key process = (at++)->first;
    EraseIf(process, [&](const Entry& entry) { return is_gone(entry.lock.file.name.handle); });
  }
}

void WaitingLocks::RemoveHosts(const std::vector<v4::LockHostName>& hosts) {
  for (const v4::LockHostName& host : hosts) {
    for (auto at = by_process_.lower_bound({host, 0}); at != by_process_.end() && at->first.first == host;) {
      const Key process = (at++)->first;
      EraseIf(process, [](const Entry&) { return true; });
    }
  }
}

const WaitingLock* WaitingLocks::Find(const v4::LockHostName& host, uint32_t process) const {
  const auto found = by_process_.find({host, process});
  if (found == by_process_.end()) return nullptr;
  const auto waits = std::ranges::find_if(found->second, [](const Shared& entry) { return !entry->granted; });
  return waits == found->second.end() ? nullptr : &(*waits)->lock;
}

void WaitingLocks::Tell(const v4::LockNotice& notice) {
  if (!home_) return TellHere(notice);
  home_->Post([this, notice] { TellHere(notice); });
}

void WaitingLocks::TellHere(const v4::LockNotice& notice) {
  const auto told = locks_.ProcessOf(notice);
  if (stopping_ || !told) return;
  const auto found = by_process_.find(KeyOf(*told));
  if (found == by_process_.end()) return;
  const std::vector<Shared> all = found->second;
  for (const Shared& entry : all) {
    if (!entry->granted && entry->lock.file.name.handle == notice.file) Start(entry);
  }
}

void WaitingLocks::Look() {
  if (stopping_) return;
  const TimePoint now = timers_.Now();
  std::vector<Shared> due;
  for (const Shared& entry : entries_) {
    if (!entry->busy && !entry->due && entry->next <= now) due.push_back(entry);
  }
  for (const Shared& entry : due) Start(entry);
  if (entries_.empty()) {
    timer_.reset();
  } else {
    timer_->ExpireAfter(settings_.look);
  }
}

Task<> WaitingLocks::Run(Shared entry) {
  if (entry->busy) {
    entry->again = true;
    co_return;
  }
  if (entry->gone || stopping_) co_return;
  entry->busy = true;
  runs_.Begin();
  do {
    entry->again = false;
    if (!entry->granted) co_await TryToLock(entry);
    if (entry->granted && !entry->gone && !stopping_) co_await Grant(entry);
  } while (entry->again && !entry->granted && !entry->gone && !stopping_);
  entry->busy = false;
  runs_.End();
}

Task<> WaitingLocks::TryToLock(const Shared& entry) {
  const WaitingLock& lock = entry->lock;
  // If the process stops waiting meanwhile, it must not get a lock that it does not know of. Nor may the lock be
  // released afterwards: the process may have got it by another call.
  HostLocks::Request request = lock.request;
  request.given_up = &entry->gone;
  const HostLocks::Answer answer = co_await locks_.Lock(home_, lock.file, lock.by, request);
  const TimePoint now = timers_.Now();
  if (entry->gone) co_return;
  switch (answer.status) {
    case HostLocks::Status::kGranted:
      entry->granted = true;
      entry->granted_at = now;
      break;
    case HostLocks::Status::kDenied:
      entry->next = now + (answer.is_local_conflict ? settings_.look : settings_.repeat);
      break;
    case HostLocks::Status::kStale:
    case HostLocks::Status::kFailed:
      Erase(*entry);  // the process learns it when it asks again
      locks_.StopWaiting(lock.file.name, lock.by, lock.request.range);
      break;
    case HostLocks::Status::kRecalled:
    case HostLocks::Status::kGrace:
    case HostLocks::Status::kNoRoom:
      entry->next = now + settings_.look;
      break;
  }
}

Task<> WaitingLocks::Grant(Shared entry) {
  const IpAddress host = entry->lock.by.host.address;
  Callee& callee = callees_[host];
  if (callee.calling >= settings_.calls_to_address) {
    entry->due = callee.due.insert(callee.due.end(), entry);
    co_return;
  }
  ++callee.calling;
  uint32_t status = 0;
  const Outcome outcome = co_await CallHost(entry, status);
  co_await Conclude(entry, outcome, status);
  if (outcome == Outcome::kNotReached || outcome == Outcome::kNoAnswer) {
    // The others would not reach it either.
    while (!callee.due.empty()) {
      const Shared next = callee.due.front();
      TakeFromDue(*next);
      co_await Conclude(next, Outcome::kNotReached, 0);
    }
  }
  --callee.calling;  // only now: the callee stays in the table while it has calls
  CallNext(host);
}

Task<Outcome> WaitingLocks::CallHost(Shared entry, uint32_t& status) {
  const WaitingLock& lock = entry->lock;
  const bool is_4 = lock.version == nlm4::NLM4_VERS;
  const HostCall call{.host = lock.by.host.address,
                      .ours = lock.by.ours,
                      .program = nlm4::NLM4_PROGRAM,
                      .version = lock.version,
                      .procedure = nlm4::NLMPROC4_GRANTED::kNumber,
                      .by_udp = lock.by_udp,
                      .only_once = true,
                      .cancellation = &entry->call};
  const std::function<void(xdr::Encoder&)> write = [&](xdr::Encoder& encoder) {
    is_4 ? WriteGranted<nlm4::nlm4_testargs>(encoder, lock) : WriteGranted<nlm1::nlm_testargs>(encoder, lock);
  };
  const std::function<bool(xdr::Decoder&)> read = [&](xdr::Decoder& decoder) {
    return is_4 ? ReadStatus<nlm4::nlm4_res>(decoder, status) : ReadStatus<nlm1::nlm_res>(decoder, status);
  };
  co_return co_await calls_.Call(call, write, read);
}

void WaitingLocks::TakeFromDue(Entry& entry) {
  if (!entry.due) return;
  callees_.at(entry.lock.by.host.address).due.erase(*entry.due);
  entry.due.reset();
}

// A call that ends at once comes back to here. Without the flag, each would run within the one before.
void WaitingLocks::CallNext(const IpAddress& host) {
  const auto callee = callees_.find(host);
  if (callee == callees_.end() || callee->second.starting) return;
  callee->second.starting = true;
  while (!stopping_ && !callee->second.due.empty() && callee->second.calling < settings_.calls_to_address) {
    const Shared next = callee->second.due.front();
    TakeFromDue(*next);
    Start(next);
  }
  callee->second.starting = false;
  if (callee->second.calling == 0 && callee->second.due.empty()) callees_.erase(callee);
}

Task<> WaitingLocks::Conclude(Shared entry, Outcome outcome, uint32_t status) {
  if (entry->gone || stopping_) co_return;
  const WaitingLock& lock = entry->lock;
  const TimePoint now = timers_.Now();
  // A call that was lost is repeated at once.
  const bool may_be_lost = outcome == Outcome::kNoAnswer && !entry->may_have_heard;
  entry->next = may_be_lost ? now : now + settings_.again;
  if (outcome == Outcome::kNotReached) {
    if (!entry->unreached_since) entry->unreached_since = now;
  } else {
    entry->unreached_since.reset();
  }
  bool unwanted = false;
  switch (outcome) {
    case Outcome::kAnswered:
      if (status == kGracePeriod) co_return;
      // If the host may have heard an earlier call, it may have the lock, and denies because it no longer waits.
      unwanted = status != kGranted && !entry->may_have_heard;
      break;
    case Outcome::kRefused:
      unwanted = !entry->may_have_heard;
      break;
    case Outcome::kEnded:
      co_return;
    case Outcome::kNotReached:
      if (now - *entry->unreached_since < settings_.give_up) co_return;
      unwanted = !entry->may_have_heard;
      break;
    case Outcome::kNoAnswer:
      entry->may_have_heard = true;
      if (now - entry->granted_at < settings_.forget) co_return;
      break;
  }
  if (unwanted && told_of_unwanted_.Allows(now)) {
    log::info("{} ({}) does not take the lock that it waited for", lock.by.host.name, lock.by.host.address.to_string());
  }
  Erase(*entry);
  if (unwanted) co_await locks_.Unlock(home_, lock.file.name, lock.by, lock.request.range);
}

Task<> WaitingLocks::Stop() {
  stopping_ = true;
  timer_.reset();
  const std::list<Shared> all = entries_;
  for (const Shared& entry : all) entry->call.Cancel();
  co_await runs_.Ended();
}

}  // namespace penstock::nfs::nlm
