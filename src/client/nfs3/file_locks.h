// The byte-range locks of one open file of version 3, which the server's lock manager has (NLM). Each owner name of the
// user becomes an owner with a number of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/cancellation.h"
#include "base/task.h"
#include "base/timer.h"
#include "client/file.h"
#include "client/held_locks.h"
#include "client/nfs3/lock_service.h"
#include "client/node.h"
#include "client/turn.h"
#include "protocol/nlm4.h"

namespace penstock::client::v3 {

// The service keeps it while it has locks.
class FileLocks : public std::enable_shared_from_this<FileLocks> {
 public:
  // `service` outlives the calls. `name` is for messages.
  FileLocks(LockService& service, const Handle& file, std::string_view name)
      : service_(service), file_(file), name_(name) {}

  // See client::File.
  Task<Result<void>> Lock(std::string owner_name, ByteRange range, LockKind kind, Duration patience,
                          Cancellation* impatience);
  Task<Result<void>> Unlock(std::string owner_name, ByteRange range);
  Task<Result<std::optional<LockConflict>>> Test(std::string owner_name, ByteRange range, LockKind kind);

  // Whether the file has locks, or an owner has lost its locks and has not been told yet.
  bool in_use() const;
  // For a file that is in use, before its data are read or written: waits while locks may have to be reclaimed. Fails
  // if an owner has lost its locks and has not been told yet, because another client may have locked the file.
  Task<Result<void>> CheckData();

  // Gives all locks back. Returns false if the server may keep some: then the service keeps this object, and tries
  // again when it stops.
  Task<bool> ReleaseAll();
  // Asks for the locks again, of which a server that has restarted does not know. Returns false if the server has not
  // answered: then nothing is known yet.
  Task<bool> Reclaim();

 private:
  struct Owner {
    int32_t number;
    std::string handle;  // oh
    HeldLocks held{};
    bool lost = false;      // it has lost locks and has not been told yet
    bool recorded = false;  // see LockService::Remember
    bool unsure = false;    // the server may have locks of it that are not in `held`
  };
  enum class Reclaimed : uint8_t { kYes, kNo, kUnknown };

  Owner& OwnerOf(const std::string& name);
  LockRecord RecordOf(const Owner& owner) const;
  Result<void> CheckLost(Owner& owner);
  nlm4::nlm4_lock LockOf(const Owner& owner, ByteRange range) const;
  Task<Result<void>> LockOnce(Owner& owner, ByteRange range, LockKind kind);
  Task<Result<void>> UnlockOnce(Owner& owner, ByteRange range);
  // Makes attempts until the server's grace period is over. Between them the turn is free: the recovery needs it.
  template <class Attempt>
  Task<Result<void>> AfterGrace(Attempt attempt);
  // Gives back what the server may have of an owner that holds nothing.
  Task<Result<void>> ReleaseOnce(Owner& owner);
  // The same for an owner that has lost its locks. It may lock something meanwhile.
  Task<void> ReleaseLost(std::shared_ptr<FileLocks> self, Owner& owner);
  // UNLOCK, in the caller's turn.
  Task<Result<void>> SendUnlock(Owner& owner, ByteRange range);
  Task<Result<std::optional<LockConflict>>> TestOnce(const Owner& owner, ByteRange range, LockKind kind);
  Task<void> Wait(Duration at_most, Cancellation* impatience);
  Task<Reclaimed> ReclaimOne(const Owner& owner, const HeldLocks::Piece& piece);

  LockService& service_;
  const Handle file_;
  const std::string name_;
  // The calls that change locks, and the recovery, are one behind the other.
  Turn turn_;
  std::map<std::string, Owner> owners_;
};

}  // namespace penstock::client::v3
