// The byte-range locks and shares of hosts that lock through the Network Lock Manager (RFC 1813 appendix II). They are
// in the same tables as those of NFSv4 clients, so each sees the locks of the other, and local programs see both.
//
// Opens of NFSv4 and shares of hosts conflict, too. But a share of a host does not keep anybody from reading or writing
// by NFS version 2 or 3, or with a special stateid: such calls do not tell whose share they belong to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/task.h"
#include "nfs/caller.h"
#include "nfs/exports.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/state/clients/lock_hosts.h"
#include "nfs/v4/state/files/locks.h"
#include "nfs/v4/state/files/share.h"

namespace penstock::nfs::v4 {

// A file as a host's call names it, and the call's user.
struct LockedFile {
  std::shared_ptr<const Export> in{};
  NamedFile name;
  Caller caller;
  bool read_only = false;  // for this caller
};

class HostLocks {
 public:
  // The objects that `services` refers to must outlive this.
  explicit HostLocks(const Services& services) : services_(services) {}

  // A process of a host. `host` and `number` distinguish its locks from those of other processes.
  struct Process {
    LockHostName host;
    IpAddress ours;  // the address of this server that the host uses
    uint32_t number = 0;
  };
  struct Request {
    LockRange range;
    bool exclusive = false;
    // The process waits if the lock is not free. It is told by a LockNotice when the lock may be free, and asks again.
    // A process that does not ask again within a lease time loses its place among those that wait.
    bool waits = false;
    bool reclaim = false;
    // Becomes true, on the loop of the call, when the process no longer wants the lock, or its host has started again.
    // Then the request is denied, and neither takes the lock nor waits. The request refers to it until the call has
    // returned.
    const bool* given_up = nullptr;
  };
  // The lock that a request conflicts with.
  struct Holder {
    LockRange range;
    bool exclusive = false;
    std::optional<LockHostName> host{};  // the host whose process holds it
    uint32_t process = 0;                // and the process
    std::string name;                    // for people
  };
  enum class Status : uint8_t {
    kGranted,
    kDenied,    // there is a conflict
    kRecalled,  // a delegation is being recalled; ask again
    kGrace,     // only reclaims are accepted now, or none any more
    kNoRoom,    // too many locks or hosts, no descriptor, or the host cannot be recorded
    kStale,     // the file is gone
    kFailed,    // the file cannot be opened
  };
  struct Answer {
    Status status = Status::kGranted;
    std::optional<Holder> holder{};  // of kDenied, unless a share is in the way
    bool is_local_conflict = false;  // a local program is in the way: no LockNotice will come
  };

  // Any thread. They resume on `loop`, which is null in a simulation. They do not check the rights of the caller.
  Task<Answer> Lock(Loop* loop, LockedFile file, Process by, Request request);
  Task<Answer> Test(Loop* loop, LockedFile file, Process by, Request request);
  // Processes that wait go on waiting.
  Task<Answer> Unlock(Loop* loop, NamedFile file, Process by, LockRange range);
  // The process no longer waits for locks in this range.
  void StopWaiting(const NamedFile& file, const Process& by, const LockRange& range);
  // The process that a LockNotice is for, without `ours`. Nothing if its host has ended.
  std::optional<Process> ProcessOf(const LockNotice& notice) const;

  // Sets the share of an owner of the host on a file, in place of its earlier one. The number of the process does not
  // matter. `given_up` is that of Request.
  Task<Answer> SetShare(Loop* loop, LockedFile file, Process by, std::string owner, Share share, bool reclaim,
                        const bool* given_up = nullptr);
  void RemoveShare(const NamedFile& file, const LockHostName& host, std::string_view owner);

  // The addresses of the hosts that have locked files, or may have.
  std::set<IpAddress> Addresses() const;
  // The hosts at this address that have locked files, or may have.
  std::vector<LockHostName> HostsAt(const IpAddress& address) const;
  // These hosts have started again: releases everything that they held.
  void EndHosts(Loop* loop, const std::vector<LockHostName>& hosts);

  // Removes hosts that have held no lock for a while. Call it periodically.
  void Sweep(Loop* loop);

 private:
  using LocalLocks = std::optional<fs::Result<std::shared_ptr<fs::LocalLocks>>>;
  struct Attempt {
    Answer answer{};
    std::optional<ClientId> unrecorded{};  // record this host, and try again
    bool needs_local = false;              // open the locks for local programs, and try again
    bool must_wait = false;                // many locks of the file are being released: see ChangeWait
    std::vector<ClientId> blockers = {};   // clients in the way: if their lease is over, try again
  };

  Attempt TryLock(StateTables& state, const LockedFile& file, const Process& by, const Request& request,
                  const LocalLocks& local) const;
  Attempt TryTest(StateTables& state, const LockedFile& file, const Process& by, const Request& request,
                  const LocalLocks& local) const;
  Attempt TryShare(StateTables& state, const LockedFile& file, const LockHostName& host, std::string_view owner,
                   const Share& share, bool reclaim, const bool* given_up) const;
  // Checks what all requests for new locks and shares have in common.
  std::optional<Attempt> CheckNew(StateTables& state, const LockedFile& file, const LockHostName& host, bool reclaim,
                                  bool exclusive) const;
  Attempt DeniedBy(StateTables& state, const Locks::LockConflict& conflict) const;
  Task<bool> Record(Loop* loop, const Process& by, ClientId host);
  Task<LocalLocks> OpenLocal(Loop* loop, const LockedFile& file, bool exclusive) const;
  // Repeats `attempt(state, local)` as long as something is done about its obstacle.
  template <class Try>
  Task<Answer> Repeat(Loop* loop, const LockedFile& file, const Process& by, bool exclusive, Try attempt);

  const Services services_;
};

}  // namespace penstock::nfs::v4
