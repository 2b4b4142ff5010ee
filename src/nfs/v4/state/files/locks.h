// The table of byte-range locks, and of the lock-owners that wait for them (RFC 8881 §9.1 to §9.6, §18.10 to §18.12).
//
// The invariants: no two lock-owners hold conflicting ranges of a file; the ranges in FileState::held are those of all
// lock-owners of the file; a lock-owner is known only while it has a lock stateid. Programs on the server's host see
// the locks of clients as locks of the file system (fs::LocalLocks).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/timer.h"
#include "fs/file_system.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/files/lock_ranges.h"
#include "nfs/v4/state/files/room.h"
#include "nfs/v4/state/files/state_records.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/owed.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

class Locks {
 public:
  // Both outlive this table.
  Locks(StateRecords& records, Room& room) : records_(records), room_(room) {}

  struct LockConflict {
    LockedRange held;
    ClientId client;  // zero if a local program holds the lock
    std::string owner;
  };
  // The result of LocalLocks::Lock(). Local programs do not wait in the queue of the clients, and the server does not
  // learn when they unlock: a client that they have in its way is denied, and asks again.
  struct LocalAnswer {
    std::optional<fs::LocalLocks::Conflict> conflict{};
  };
  struct LockRequest {
    LockRange range;
    bool exclusive = false;
    bool blocking = false;     // READW_LT, WRITEW_LT
    bool can_be_told = false;  // by CB_NOTIFY_LOCK
    // The locks that local programs see, for this lock-owner's locks on the file from now on. See NeedsLocalLocks().
    std::shared_ptr<fs::LocalLocks> local{};
    // False if the caller did not open `local`, because NeedsLocalLocks() returned false. (A null `local` does not
    // tell: it is also null if local programs see no locks.)
    bool is_local_open = true;
    // The answer of the local locks: see LockResult::asks.
    std::optional<LocalAnswer> answer{};
  };
  struct LockResult {
    nfs4::nfsstat4 status = nfs4::NFS4_OK;
    // The lock was not tried: the owner had locks when the caller called NeedsLocalLocks(), and has none now. The
    // caller opens `local` and tries again.
    bool needs_local = false;
    // No client is in the way. Now these locks must be taken for local programs. That takes time if the file has many
    // locks, so the caller does it without the state's lock, while the file is changing (BeginChange), and then repeats
    // the request with the answer.
    std::shared_ptr<fs::LocalLocks> asks{};
    nfs4::stateid4 stateid{};
    std::optional<LockConflict> conflict{};  // of NFS4ERR_DENIED
    std::optional<ClientId> blocker{};       // the client in the conflict, unless a local program is in it
  };
  // LOCK by an owner that may be new on the file. NFS4ERR_OPENMODE if the open does not allow the lock; the opens that
  // stand for the locks of hosts (HostLocks) allow all locks.
  LockResult Lock(OpenState& open, ConstBytes owner, const LockRequest& request, const Dialect& dialect, TimePoint now);
  // LOCK by an owner that has locks on the file.
  LockResult Lock(LockState& locks, const LockRequest& request, const Dialect& dialect, TimePoint now);
  // Makes the local locks in the range those of the owner again: the request that has taken or released them there has
  // failed after all.
  static void RestoreLocally(const LockState& locks, const LockRange& range);
  // Whether Unlock() has room for both parts of a range that it cuts in two.
  bool HasRoomToUnlock(const LockState& locks, const LockRange& range) const;
  // LOCKU. The caller unlocks the range for local programs (`locks.local`), before others see the result. If the range
  // cuts another one in two and there is no room for both parts: NFS4ERR_DELAY, in minor version 0 NFS4ERR_RESOURCE
  // (ErrorWords::no_room, the same as for Lock; RFC 8881 §15.2).
  nfs4::nfsstat4 Unlock(LockState& locks, const LockRange& range, const Dialect& dialect, TimePoint now);
  // LOCKT, as far as clients are concerned.
  std::optional<LockConflict> TestLock(const NamedFile& file, ClientId client, ConstBytes owner, const LockRange& range,
                                       bool exclusive) const;
  // LOCKT, as far as local programs are concerned: `local` are the owner's local locks, or null. Call it without the
  // state's lock.
  static std::optional<LockConflict> TestLocally(const fs::LocalLocks* local, const LockRange& range, bool exclusive);
  // Returns the local locks for TestLocally(): those of the owner's locks, or `opened` if the owner
  // has no locks on the file that local programs see.
  std::shared_ptr<fs::LocalLocks> LocalLocksOf(const NamedFile& file, ClientId client, ConstBytes owner,
                                               std::shared_ptr<fs::LocalLocks> opened) const;
  LockOwner* FindLockOwner(ClientId client, ConstBytes name);
  // Returns null if the owner has no lock stateid for the file by this export.
  LockState* FindLocks(const NamedFile& file, ClientId client, ConstBytes owner) const;
  // RELEASE_LOCKOWNER (RFC 7530 §16.37): NFS4ERR_LOCKS_HELD if the owner holds any lock.
  nfs4::nfsstat4 ReleaseLockOwner(ClientId client, ConstBytes owner);
  void RemoveLocks(LockState& locks, Ending ending);

  // ---- many locks at once
  //
  // A thread that holds the state's lock makes all clients wait. So a release of more locks than kMostAtOnce takes
  // several visits: each but the last one releases a part. In between, the file is changing (BeginChange): LOCK and
  // LOCKT wait, so that nobody sees some of the locks released and others not.

  // The most lock stateids and ranges, taken together, that one visit releases.
  static constexpr size_t kMostAtOnce = 128;
  // If the owner holds more than kMostAtOnce ranges in `range`: unlocks so many of them and returns true. Otherwise
  // does nothing; Unlock() then does the rest.
  bool UnlockPart(LockState& locks, const LockRange& range);
  // Does RemoveLocks(), or a part of it, and takes the released stateids and ranges off `left`. Returns true if the
  // locks are gone. Requires that `left` is not zero.
  bool RemovePart(LockState& locks, Ending ending, size_t& left);
  void BeginChange(const NamedFile& file) { ++changing_[file]; }
  void EndChange(const NamedFile& file);
  bool IsChanging(const NamedFile& file) const { return !changing_.empty() && changing_.contains(file); }

  // ---- locks that local programs see

  // Whether the caller must open the locks for local programs (FileSystem::OpenLocks) before this owner locks or tests:
  // the owner has no lock on the file yet, or its local locks can only be shared and this lock is exclusive.
  bool NeedsLocalLocks(const NamedFile& file, ClientId client, ConstBytes owner, bool exclusive) const;
  static bool NeedsLocalLocks(const LockState& locks, bool exclusive);
  // Whether the client has locked ranges that local programs see.
  bool HasLocalLocks(ClientId client) const;

  // ---- waiters

  // The owner no longer waits for locks in the range.
  void StopWaiting(const NamedFile& file, ClientId client, ConstBytes owner, const LockRange& range, TimePoint now);
  // Notifies the waiters of a file whose locks are free now.
  void TellWaiters(FileState& file, TimePoint now);
  // Ends the turn of each waiter that missed it, and notifies the next waiter. Call this regularly.
  void EndTurns(TimePoint now);
  // Whether notices are to be sent, and takes them: those to clients, and those to hosts that lock through NLM.
  bool has_notices() const { return !notices_.empty() || !host_notices_.empty(); }
  std::vector<LockNotice> TakeNotices() { return std::exchange(notices_, {}); }
  std::vector<LockNotice> TakeHostNotices() { return std::exchange(host_notices_, {}); }

  // The number of locked ranges, of all clients.
  size_t ranges() const { return ranges_; }
  bool IsFull() const { return ranges_ + kMoreRanges > records_.limits().ranges; }
  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  // A lock adds at most two ranges: if it cuts a range in two, the second part and the lock itself.
  static constexpr size_t kMoreRanges = 2;
  bool HasRoomForRanges(const ClientFiles& client, size_t more) const;

  LockOwner* FindLockOwner(ClientId client, std::string_view name) const;
  LockState* FindLocks(const FileState& file, const Party& party, std::string_view owner) const;
  void Apply(LockState& locks, const LockChange& change);
  void DropLockOwnerIfUnused(LockOwner& owner);
  std::optional<LockConflict> FindHeldConflict(const FileState& file, const Party& party, std::string_view owner,
                                               const LockRange& range, bool exclusive) const;
  std::optional<LockConflict> FindWaiterAhead(const FileState& file, const Party& party, std::string_view owner,
                                              const LockRequest& request) const;
  std::optional<LockConflict> FindObstacle(FileState& file, const OpenState& open, std::string_view owner,
                                           const LockRequest& request, TimePoint now);
  LockResult Extend(LockState& locks, const LockRequest& request, const Dialect& dialect, TimePoint now);
  static void ReplaceLocal(LockState& locks, const std::shared_ptr<fs::LocalLocks>& local);
  static LockResult Denied(std::optional<LockConflict> obstacle);

  struct Turn {
    TimePoint until;
    NamedFile file;
  };

  StateRecords& records_;
  Room& room_;
  size_t ranges_ = 0;  // of all clients
  uint64_t last_holder_ = 0;
  std::vector<LockNotice> notices_, host_notices_;
  // The files in which a waiter was notified, in the order of time. Each file is in it once at most
  // (FileState::has_turn).
  std::deque<Turn> turns_;
  std::unordered_map<NamedFile, size_t, NamedFileHash> changing_;  // the number of changes under way; see BeginChange()
};

}  // namespace penstock::nfs::v4
