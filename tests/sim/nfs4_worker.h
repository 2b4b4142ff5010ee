// Nfs4Worker is a worker that uses a session. It creates, opens, reads, writes, renames, links and removes files
// in its directory.
#pragma once

#include "session_worker.h"

namespace penstock::simulation {

class Nfs4Worker final : public SessionWorker {
 public:
  // `directory` is the worker's existing directory.
  Nfs4Worker(rdma::sim::World& world, Findings& findings, Facts facts, SessionUse session, nfs4::nfs_fh4 directory)
      : SessionWorker(world, findings, std::move(facts), std::move(session)), directory_(directory) {}

  Task<void> Reclaim() override;

 private:
  Task<void> MakeDirectory() override;
  Task<void> Act() override;
  Task<void> Finish() override;
  Task<void> Lookup();
  Task<void> Create();
  Task<void> Open(const std::string& name) { return OpenFile(directory_, name, files_[name]); }
  Task<void> Release(const std::string& name);
  Task<void> Remove();
  Task<void> Rename();
  Task<void> Link();
  Task<void> Write();
  // Writes several pieces in one COMPOUND, which may become a chain.
  Task<void> WritePieces();
  Task<void> Read();
  Task<void> List();

  // Tells whether the file exists, by LOOKUP. Returns no value if the simulation has detected an error.
  Task<std::optional<bool>> IsThere(const std::string& name);
  // Sends REMOVE and tells whether the name is gone. Asks by LOOKUP if REMOVE has no reply.
  Task<bool> RemoveName(const std::string& name);
  void HandleRenamed(const std::string& from, const std::string& to);

  const nfs4::nfs_fh4 directory_;
  std::map<std::string, File> files_;  // the filehandles and stateids of entries_
};

}  // namespace penstock::simulation
