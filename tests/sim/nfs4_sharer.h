// Nfs4Sharer is a worker that opens files which the sharers of all clients use, and holds delegations of them. It
// checks that the server recalls a delegation before another client opens the file in conflict with it, and that no
// other client changes a file while its delegation lasts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bound_client.h"
#include "lock_book.h"
#include "session_worker.h"

namespace penstock::simulation {

class Nfs4Sharer final : public SessionWorker, private DelegationHolder {
 public:
  struct Shares {
    // A delegation counts as a lock on all units of its file, an open as one on the unit of its sharer: shared for
    // reading, exclusive for writing.
    LockBook& book;
    nfs4::nfs_fh4 directory;
    // The shared files of the directory, with their filehandles. The index is the book's number of the file.
    std::vector<std::pair<std::string, nfs4::nfs_fh4>> files;
    // Tells whether the server must keep the state of the sharer's client.
    std::function<bool()> keeps;
    size_t unit;  // different for each sharer
  };
  // Every client has at most one sharer, since the server recalls no delegation from the client that opens the file.
  Nfs4Sharer(rdma::sim::World& world, Findings& findings, Facts facts, SessionUse session, Shares shares,
             BoundClient& client);

  Task<void> Reclaim() override;
  void HandleLeaseOver() override;

 private:
  using Grade = LockBook::Grade;
  struct SharedFile {
    std::string name;
    File open{};
    bool writes = false;                         // the open, or the one that is under way, is for writing
    std::optional<nfs4::stateid4> delegation{};  // until its return begins
    unsigned leases_over = 0;                    // when the last OPEN was sent
    bool returning = false;                      // DELEGRETURN is under way
    std::optional<std::string> seen{};           // the content, as the delegation guarantees it
  };

  Task<void> MakeDirectory() override { co_return; }
  Task<void> Act() override;
  Task<void> Finish() override;
  Task<void> Open(size_t index);
  Task<void> Read(size_t index);
  Task<void> Write(size_t index);
  Task<void> Close(size_t index);
  Task<void> Return(size_t index);
  bool HandleRecall(const nfs4::stateid4& delegation) override;
  void HandleOpen(File& file, const nfs4::OPEN4res& opened) override;
  size_t IndexOf(const File& file) const;

  // Records a lock on the own unit, or on all others.
  void Enter(size_t index, bool own, Grade grade);
  void Leave(size_t index, bool own);
  void Left(size_t index, bool own);
  void Lose(size_t index);
  template <class Function>
  void ForSpans(bool own, Function function) const;

  const Shares shares_;
  const size_t holder_;  // the sharer's number in the book
  std::vector<SharedFile> files_;
  unsigned leases_over_ = 0;  // counts the leases that have expired
};

}  // namespace penstock::simulation
