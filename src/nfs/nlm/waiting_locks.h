// The lock requests of hosts that wait until the lock is free (NLM, "block"). When a lock becomes free, the server
// takes it for the process that has waited longest, and tells the host by a GRANTED call.
//
// The locks themselves, and the order of the processes that wait for one lock, are in the tables of v4::HostLocks. The
// tables tell by a LockNotice when a lock may be free. They do not learn when a local program unlocks, and they forget
// a process that has not asked for a lease time. So each request is also repeated from time to time.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/host_shares.h"
#include "base/log_limit.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/under_way.h"
#include "nfs/nlm/host_calls.h"
#include "nfs/v4/operations/host_locks.h"
#include "nfs/v4/state/owed.h"

namespace penstock::nfs::nlm {

struct WaitingLock {
  v4::LockedFile file;
  v4::HostLocks::Process by;
  v4::HostLocks::Request request;
  // For GRANTED, which repeats octets of the host's call.
  uint32_t version = 0;  // of NLM
  bool by_udp = false;
  std::vector<std::byte> fh{};
  std::vector<std::byte> oh{};
};

class WaitingLocks {
 public:
  struct Settings {
    size_t most = 1 << 14;
    size_t most_per_host = 1 << 12;               // of one IPv4 address or IPv6 /64: see HostShares
    size_t calls_to_address = 4;                  // at a time
    Duration look = std::chrono::seconds(1);      // between requests for a lock that a local program holds
    Duration repeat = std::chrono::seconds(20);   // between other requests: shorter than a lease time
    Duration again = std::chrono::seconds(5);     // between two GRANTED calls
    Duration give_up = std::chrono::seconds(90);  // a host that was not reached for so long loses the lock
    Duration forget = std::chrono::minutes(15);   // a host that may have got GRANTED keeps the lock, and is left alone
  };

  // `home` is the loop of `timers`; it is null in a simulation. All arguments outlive the instance. All methods but
  // Tell() belong to the home loop.
  WaitingLocks(v4::HostLocks& locks, HostCalls& calls, Loop* home, TimerService& timers, const Settings& settings);
  ~WaitingLocks();

  // Adds a request, in place of one of the same process for the same range. Returns false if there are too many. Then
  // asks once more for the lock: it may have become free since it was denied.
  bool Add(WaitingLock lock);

  enum class Found : uint8_t {
    kNone,
    kWaiting,
    kGranted,  // the server has taken the lock, and the host has not confirmed it yet
  };
  // Removes the request for exactly this range.
  Found Remove(const v4::HostLocks::Process& by, const NamedFile& file, const v4::LockRange& range);
  // The process unlocks the range: removes the requests whose locks the server has taken, and that overlap with it.
  // Also removes a request for exactly this range, as a host does that gives up a request without CANCEL; but another
  // thread of the process may wait for a lock while this one unlocks all. Returns kWaiting if the latter request has
  // waited.
  Found RemoveUnlocked(const v4::HostLocks::Process& by, const NamedFile& file, const v4::LockRange& range);
  // The hosts at this address that have requests.
  std::vector<v4::LockHostName> HostsAt(const IpAddress& address) const;
  // Removes the requests for files whose handles `is_gone` names: their export has ended.
  void RemoveFiles(const std::function<bool(const FileHandle&)>& is_gone);
  // Removes the requests of hosts that have ended.
  void RemoveHosts(const std::vector<v4::LockHostName>& hosts);

  // Returns the first request of a process that waits. Null if it does not wait.
  const WaitingLock* Find(const v4::LockHostName& host, uint32_t process) const;

  // A lock may be free. Any thread.
  void Tell(const v4::LockNotice& notice);

  // Ends all calls and requests. Call it once, before the home loop ends.
  Task<> Stop();

  size_t size() const { return entries_.size(); }

 private:
  struct Entry;
  using Shared = std::shared_ptr<Entry>;
  // An address with GRANTED calls.
  struct Callee {
    size_t calling = 0;
    std::list<Shared> due;  // in the order of their calls
    bool starting = false;
  };

  void Look();
  void Start(const Shared& entry) { Spawn(Run(entry)); }
  Task<> Run(Shared entry);
  Task<> TryToLock(const Shared& entry);
  // Tells the host that it has the lock, or lets the entry wait among those that are due.
  Task<> Grant(Shared entry);
  Task<HostCalls::Outcome> CallHost(Shared entry, uint32_t& status);
  // Draws the conclusions of a call.
  Task<> Conclude(Shared entry, HostCalls::Outcome outcome, uint32_t status);
  void CallNext(const IpAddress& host);
  void TakeFromDue(Entry& entry);
  void Erase(Entry& entry);
  using Key = std::pair<v4::LockHostName, uint32_t>;
  // Erases the requests of a process for which `matches` is true.
  template <class Matches>
  void EraseIf(const Key& process, Matches matches);
  void TellHere(const v4::LockNotice& notice);

  v4::HostLocks& locks_;
  HostCalls& calls_;
  Loop* const home_;
  TimerService& timers_;
  const Settings settings_;
  std::list<Shared> entries_;  // the oldest first
  std::map<Key, std::vector<Shared>> by_process_;
  std::map<v4::LockHostName, size_t> of_host_;
  HostShares shares_;
  std::map<IpAddress, Callee> callees_;
  std::unique_ptr<Timer> timer_;
  LogLimit told_of_unwanted_;  // that a host does not take its lock
  bool stopping_ = false;
  UnderWay runs_;
};

}  // namespace penstock::nfs::nlm
