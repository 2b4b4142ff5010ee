// Nfs4Locker is a worker that locks byte ranges of files that all lockers share. It checks that a conflicting lock is
// never granted to another locker, and that the server keeps each lock until the locker unlocks it, also after lost
// connections and restarts.
#pragma once

#include <functional>
#include <vector>

#include "lock_book.h"
#include "session_worker.h"

namespace penstock::simulation {

class Nfs4Locker final : public SessionWorker {
 public:
  struct Locks {
    LockBook& book;
    nfs4::nfs_fh4 directory;
    // The shared files of the directory, with their filehandles. The index is the book's number of the file.
    std::vector<std::pair<std::string, nfs4::nfs_fh4>> files;
    // Tells whether the server must keep the state of the locker's client.
    std::function<bool()> keeps;
    // Tells whether a client is silent: then a denied lock may be granted once that client's lease has expired.
    std::function<bool()> any_client_is_silent;
  };
  Nfs4Locker(rdma::sim::World& world, Findings& findings, Facts facts, SessionUse session, Locks locks);

  Task<void> Reclaim() override;
  void HandleLeaseOver() override { locks_.book.Doubt(holder_); }

 private:
  using Grade = LockBook::Grade;
  using Span = LockBook::Span;
  struct LockedFile {
    std::string name;
    File open;
    std::optional<nfs4::stateid4> stateid{};  // the lock stateid
    uint64_t epoch = 0;                       // the epoch of that stateid, see SessionWorker::File
    // The locks that the locker certainly has. It reclaims them after a restart.
    std::array<Grade, LockBook::kUnits> held{};
  };

  Task<void> MakeDirectory() override { co_return; }
  Task<void> Act() override;
  Task<void> Finish() override;
  Task<void> Lock(size_t index);
  Task<void> Unlock(size_t index);
  Task<void> Test(size_t index);
  Task<void> Close(size_t index);
  Task<void> ReclaimLocks(size_t index);

  bool IsKnown(const LockedFile& file) const { return file.stateid && file.epoch == session_.epoch(); }
  nfs4::LOCK4args MakeLock(const LockedFile& file, Span span, Grade grade, bool reclaim) const;
  void HandleLost(size_t index);
  void CheckMet(std::string_view what, const std::string& holder);
  Span DrawSpan();
  Grade DrawGrade();

  const Locks locks_;
  const size_t holder_;  // the locker's number in the book
  std::vector<LockedFile> files_;
};

}  // namespace penstock::simulation
