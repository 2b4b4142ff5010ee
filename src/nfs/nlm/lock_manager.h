// The Network Lock Manager's procedures, in the types that its versions have in common (RFC 1813 appendix II, X/Open
// XNFS). Program converts the messages of each version.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/host_shares.h"
#include "base/log_limit.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "base/under_way.h"
#include "nfs/exports.h"
#include "nfs/nlm/host_calls.h"
#include "nfs/nlm/host_requests.h"
#include "nfs/nlm/known_restarts.h"
#include "nfs/nlm/local_monitor.h"
#include "nfs/nlm/waiting_locks.h"
#include "nfs/v4/operations/host_locks.h"
#include "protocol/nlm4.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::nlm {

using Status = nlm4::nlm4_stats;

// The lock of a call. The views refer to the call's arguments.
struct CalledLock {
  std::string_view caller_name;
  ConstBytes fh;
  ConstBytes oh;
  uint32_t process = 0;                  // svid
  std::optional<v4::LockRange> range{};  // empty if it ends beyond 64 bits
  bool exclusive = false;
};

struct CalledShare {
  std::string_view caller_name;
  ConstBytes fh;
  ConstBytes oh;
  v4::Share share;
};

class LockManager {
 public:
  // `home` is the loop of `timers`, on which all the work is done; null in a simulation. All arguments outlive the
  // manager.
  LockManager(const Exports& exports, v4::HostLocks& locks, HostCalls& calls, LocalMonitor& local_monitor, Loop* home,
              TimerService& timers, const WaitingLocks::Settings& settings = {});

  // Any thread may call the following methods. They return on the loop of the call's connection.

  struct Tested {
    Status status = nlm4::NLM4_GRANTED;
    std::optional<v4::HostLocks::Holder> holder{};  // of NLM4_DENIED
  };
  Task<Tested> Test(const rpc::CallContext& call, CalledLock lock);
  // With `block`, NLM4_BLOCKED promises a GRANTED call.
  Task<Status> Lock(const rpc::CallContext& call, CalledLock lock, bool block, bool reclaim);
  Task<Status> Cancel(const rpc::CallContext& call, CalledLock lock);
  Task<Status> Unlock(const rpc::CallContext& call, CalledLock lock);
  Task<Status> SetShare(const rpc::CallContext& call, CalledShare share, bool reclaim);
  Task<Status> RemoveShare(const rpc::CallContext& call, CalledShare share);
  // FREE_ALL, and SM_NOTIFY of the status monitor: the host has started again, and has forgotten its locks.
  // Ignored from ports above 1023: no other program than one of the host's system may end the host's locks. `state` is
  // the number of the restart in SM_NOTIFY; each restart counts once.
  Task<> EndHost(const rpc::CallContext& call, std::string_view name, std::optional<int32_t> state = {});
  // SM_NOTIFY of this program: the status monitor of this host passes on that the host with this cookie has started
  // again. Ignored unless it comes from this host, from a port below 1024.
  Task<> EndWatchedHost(const rpc::CallContext& call, ConstBytes cookie, int32_t state);

  // Sends results that an asynchronous call (_MSG) asked for, once. Any thread.
  void SendResults(const rpc::CallContext& call, uint32_t procedure, std::function<void(xdr::Encoder&)> write);

  // For v4::LockNotice. Any thread.
  void Tell(const v4::LockNotice& notice) { waiting_.Tell(notice); }
  // On the home loop: forgets hosts that have no locks. Call it periodically.
  void Sweep();
  // On the home loop: forgets the requests that wait for locks of files whose handles `is_gone` names.
  void ForgetFiles(const std::function<bool(const FileHandle&)>& is_gone) { waiting_.RemoveFiles(is_gone); }
  // On the home loop: these hosts have started again, or an operator ends them. All that they held is released.
  void EndHosts(const std::vector<v4::LockHostName>& hosts);
  // On the home loop, once, before it ends.
  Task<> Stop();

 private:
  using Found = Result<v4::LockedFile, Status>;

  Found Find(const rpc::CallContext& call, ConstBytes fh) const;
  // Checks the caller's rights: the rights to read and to write, as far as the lock or share needs them.
  Task<Status> Permit(const v4::LockedFile& file, bool reads, bool writes) const;
  Task<Tested> TestHere(const rpc::CallContext& call, CalledLock lock);
  Task<Status> LockHere(const rpc::CallContext& call, CalledLock lock, bool block, bool reclaim);
  Task<Status> CancelHere(const rpc::CallContext& call, CalledLock lock);
  Task<Status> UnlockHere(const rpc::CallContext& call, CalledLock lock);
  Task<Status> SetShareHere(const rpc::CallContext& call, CalledShare share, bool reclaim);
  Task<Status> RemoveShareHere(const rpc::CallContext& call, CalledShare share);
  Task<> GoHome();
  Task<> GoBack(const rpc::CallContext& call);
  // Runs `task` on the home loop, and comes back to the loop of the call.
  template <class T>
  Task<T> AtHome(const rpc::CallContext& call, Task<T> task) {
    co_await GoHome();
    T result = co_await std::move(task);
    co_await GoBack(call);
    co_return result;
  }
  Task<bool> WouldDeadlock(v4::HostLocks::Process process, v4::HostLocks::Holder holder);
  using Attempt = std::function<Task<v4::HostLocks::Answer>()>;
  // A call waits so long for a delegation to come back, since NLM has no status for "try again".
  static constexpr Duration kPatience = std::chrono::seconds(10);
  // Repeats `attempt` for a while (nfs/patience.h) if a delegation is in the way.
  Task<v4::HostLocks::Answer> Patiently(const Attempt& attempt, Duration limit = kPatience);
  Task<Status> Release(const NamedFile& file, const v4::HostLocks::Process& by, const v4::LockRange& range);
  // The hosts at this address that have locks or requests.
  std::vector<v4::LockHostName> HostsAt(const IpAddress& address) const;
  // A host at this address has started again. If it is one of several, its locks stay.
  void EndHostsAt(const IpAddress& address, int32_t state);
  // These hosts have started again.
  Task<> Send(HostCall call, std::function<void(xdr::Encoder&)> write);

  const Exports& exports_;
  v4::HostLocks& locks_;
  HostCalls& calls_;
  LocalMonitor& local_monitor_;
  Loop* const home_;
  TimerService& timers_;
  WaitingLocks waiting_;
  std::atomic<bool> stops_ = false;
  LogLimit told_of_port_;    // that EndHost() was called from a port that may not do so
  LogLimit told_of_sender_;  // the same for EndWatchedHost()
  LogLimit told_of_names_;   // that EndHostsAt() cannot tell which host is meant
  LogLimit told_of_end_;     // that EndHostsAt() ends locks
  // On the home loop.
  HostRequests requests_;
  KnownRestarts restarts_;
  HostShares being_sent_;  // results
  UnderWay sending_;
};

}  // namespace penstock::nfs::nlm
