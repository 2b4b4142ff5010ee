// A Worker who locks ranges of files that others lock, too: whatever happens to connections and to the server, nobody else has what
// he has, and he has it until he gives it back.
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
    // In the directory, with their handles, as the book numbers them.
    std::vector<std::pair<std::string, nfs4::nfs_fh4>> files;
    // Whether his client has its lease still.
    std::function<bool()> keeps;
    // Whether it is worth waiting for a lock until its holder's lease is over.
    std::function<bool()> somebody_is_silent;
  };
  Nfs4Locker(rdma::sim::World& world, Findings& findings, Facts facts, client::v4::Session& session, Locks locks);

  Task<void> Reclaim() override;
  void HandleLeaseOver() override { locks_.book.Doubt(holder_); }

 private:
  using Grade = LockBook::Grade;
  using Span = LockBook::Span;
  struct LockedFile {
    std::string name;
    File open;
    std::optional<nfs4::stateid4> stateid{};  // of the locks
    uint64_t epoch = 0;                       // the same, see SessionWorker::File
    // What he knows that he has, and so what he reclaims.
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
  const size_t holder_;  // in the book
  std::vector<LockedFile> files_;
};

}  // namespace penstock::simulation
