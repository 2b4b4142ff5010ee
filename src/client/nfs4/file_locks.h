// The byte-range locks of one open file (RFC 8881 §9, §18.10 to §18.12, RFC 7530 §9). Each owner name of the user
// becomes a lock-owner with its own stateid. The client reclaims the locks together with the file (RFC 8881 §8.4.2.1).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/signal.h"
#include "client/held_locks.h"
#include "client/mount.h"
#include "client/nfs4/compound_caller.h"
#include "client/nfs4/state_owner.h"
#include "protocol/nfs4.h"

namespace penstock::client::v4 {

class OpenFile;

class FileLocks {
 public:
  // `file` owns this object.
  explicit FileLocks(OpenFile& file) : file_(file) {}

  // See client::File.
  Task<Result<void>> Lock(std::string name, ByteRange range, LockKind kind, Duration patience,
                          Cancellation* impatience);
  Task<Result<void>> Unlock(std::string name, ByteRange range);
  Task<Result<std::optional<LockConflict>>> Test(std::string name, ByteRange range, LockKind kind);

  // Call it before the file is closed: a server may refuse to close a locked file (RFC 8881 §18.2.3).
  Task<void> ReleaseAll();
  // Reclaims the locks during the server's grace period, after the file has been reclaimed.
  Task<void> Reclaim();
  // The server does not honor the open of the file any more.
  void HandleLost();
  // The server has revoked the locks of this stateid, if they are some of this file.
  void HandleRevoked(const nfs4::stateid4& revoked);
  // Adds the stateids that the server has.
  void AddStateids(std::vector<nfs4::stateid4>& stateids) const;
  // The file has moved from the server where `before` were its locks: they are lost.
  void HandleMoved(const FileLocks& before);
  // Whether an owner has lost its locks and has not been told yet. Until then the file must not be read or written,
  // because another client may have locked it.
  bool has_lost() const;
  // The server says that a denied lock may be available now. Waiting calls ask again (RFC 8881 §20.11).
  void HandleAvailable() { available_.Notify(); }

 private:
  struct Owner {
    StateOwner id;
    nfs4::stateid4 stateid{};
    uint64_t epoch = 0;  // the epoch of the stateid; zero: the owner has no stateid
    HeldLocks held{};
    bool lost = false;  // it has lost locks and has not been told yet
    // The range of a LOCKU that is under way. It is not reclaimed: the LOCKU may have been executed before a restart of
    // the server, and another client may have locked the range.
    std::optional<ByteRange> unlocking{};
  };
  struct UnlockingGuard {
    Owner& owner;
    ~UnlockingGuard() { owner.unlocking.reset(); }
  };

  Owner& OwnerOf(const std::string& name);
  // Fails once if the owner has lost locks. Only for functions that users call.
  Result<void> CheckLost(Owner& owner);
  bool IsKnown(const Owner& owner) const;
  // The server does not honor the stateid of this owner any more.
  void Lose(Owner& owner);
  nfs4::LOCK4args MakeLock(const Owner& owner, ByteRange range, LockKind kind, bool reclaim) const;
  // Updates the seqid counts after a LOCK with this status. `is_new`: the LOCK introduced the lock-owner to the server.
  void Count(Owner& owner, bool is_new, std::optional<nfs4::nfsstat4> status);
  void HandleNoReply(Owner& owner, bool is_new);
  Task<Result<void>> LockOnce(Owner& owner, ByteRange range, LockKind kind);
  Task<Result<void>> TryLock(Owner& owner, ByteRange range, LockKind kind);
  Task<void> WaitUntilAvailable(Duration at_most, Cancellation* impatience);
  Task<Result<void>> UnlockOnce(Owner& owner, ByteRange range);
  Task<void> ReleaseOwner(Owner& owner);
  Task<Reclaimed> ReclaimOne(Owner& owner, const HeldLocks::Piece& piece);
  // Unlocks the reclaimed locks of an owner that could not reclaim all: the owner will be told that it has lost its
  // locks.
  Task<void> GiveBack(Owner& owner);
  // Handles a status that says that the stateid `used` is lost. If the server has not restarted, the locks are lost.
  Task<Result<void>> FindOut(Owner& owner, const nfs4::stateid4& used);

  OpenFile& file_;
  std::map<std::string, Owner> owners_;
  Signal available_;
};

}  // namespace penstock::client::v4
