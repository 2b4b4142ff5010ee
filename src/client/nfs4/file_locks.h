// The byte-range locks of one open file: RFC 8881 §9, §18.10 to §18.12, RFC 7530 §9. Each name that the user gives is a
// lock-owner with a stateid of its own. Reclaimed with the file (RFC 8881 §8.4.2.1).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/signal.h"
#include "client/mount.h"
#include "client/nfs4/compound_caller.h"
#include "client/nfs4/held_locks.h"
#include "client/nfs4/state_owner.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {

class OpenFile;

class FileLocks {
 public:
  // The file that they belong to.
  explicit FileLocks(OpenFile& file) : file_(file) {}

  // See client::File.
  Task<Result<void>> Lock(std::string name, ByteRange range, LockKind kind, Duration patience);
  Task<Result<void>> Unlock(std::string name, ByteRange range);
  Task<Result<std::optional<LockConflict>>> Test(std::string name, ByteRange range, LockKind kind);

  // Before the file is closed: RFC 8881 §18.2.3 lets a server refuse to close what is locked.
  Task<void> ReleaseAll();
  // Within the server's grace period, when the file has been reclaimed.
  Task<void> Reclaim();
  // The server does not honour the open any more that they belong to.
  void HandleLost();
  // Whether some owner has lost its locks, and does not know yet. The file is not to be read or written: it may be another's by now.
  bool has_lost() const;
  // The server says that one may be had that was denied: those who wait for one ask again (RFC 8881 §20.11).
  void HandleAvailable() { available_.Notify(); }

 private:
  struct Owner {
    StateOwner id;
    nfs4::stateid4 stateid{};
    uint64_t epoch = 0;  // of the stateid; zero: there is none
    HeldLocks held{};
    bool lost = false;  // and nobody has been told yet
    // By a LOCKU that is under way. It is not reclaimed: without a reply it may have been another's when the server restarted.
    std::optional<ByteRange> unlocking{};
  };
  struct UnlockingGuard {
    Owner& owner;
    ~UnlockingGuard() { owner.unlocking.reset(); }
  };

  Owner& OwnerOf(const std::string& name);
  // The error, once, where locks were lost. For those functions alone that users call.
  Result<void> CheckLost(Owner& owner);
  bool IsKnown(const Owner& owner) const;
  nfs4::LOCK4args MakeLock(const Owner& owner, ByteRange range, LockKind kind, bool reclaim) const;
  // What a LOCK with that result did to the counts; `is_new`: the server was told the owner with it.
  void Count(Owner& owner, bool is_new, std::optional<nfs4::nfsstat4> status);
  void HandleNoReply(Owner& owner, bool is_new);
  Task<Result<void>> LockOnce(Owner& owner, ByteRange range, LockKind kind);
  Task<Result<void>> TryLock(Owner& owner, ByteRange range, LockKind kind);
  Task<void> WaitUntilAvailable(Duration at_most);
  Task<Result<void>> UnlockOnce(Owner& owner, ByteRange range);
  Task<void> ReleaseOwner(Owner& owner);
  Task<Reclaimed> ReclaimOne(Owner& owner, const HeldLocks::Piece& piece);
  // Unlocks what an owner has reclaimed that could not reclaim all: it is told that it has lost its locks.
  Task<void> GiveBack(Owner& owner);
  // After an answer that says so: where the server has not restarted, they are gone.
  Task<Result<void>> FindOut(Owner& owner, const nfs4::stateid4& used);

  OpenFile& file_;
  std::map<std::string, Owner> owners_;
  Signal available_;
};

}  // namespace penstock::client::v4
