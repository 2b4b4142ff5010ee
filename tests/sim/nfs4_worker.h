// A Worker by NFS version 4.1, through the client's own session: what must not be executed twice, the slots know.
#pragma once

#include "client/nfs4/session.h"
#include "worker.h"

namespace penstock::simulation {

class Nfs4Worker final : public Worker {
 public:
  // His directory is there.
  Nfs4Worker(rdma::sim::World& world, Findings& findings, Facts facts, client::v4::Session& session,
             nfs4::nfs_fh4 directory)
      : Worker(world, findings, std::move(facts)), session_(session), directory_(directory) {}

 private:
  // What is known of a file's open.
  struct File {
    nfs4::nfs_fh4 handle;
    std::optional<nfs4::stateid4> stateid;
    bool doubtful = false;  // OPEN or CLOSE had no reply: the server may have it open all the same
  };

  template <class... Operations>
  using Reply = std::optional<client::v4::CompoundReply<Operations...>>;
  // No value where the call has failed: refused_ says whether it was the server that said no, and why.
  template <class... Operations>
  Task<Reply<Operations...>> Ask(std::string_view what, Bytes destination, Operations... operations);

  Task<void> MakeDirectory() override;
  Task<void> Act() override;
  Task<void> Finish() override;
  Task<void> Lookup();
  Task<void> Create();
  Task<void> Open(const std::string& name);
  Task<void> Close(const std::string& name);
  Task<void> Release(const std::string& name);
  Task<void> Remove();
  Task<void> Write();
  Task<void> Read();
  Task<void> List();

  // Whether there is such a file; nothing where there is something wrong.
  Task<std::optional<bool>> IsThere(const std::string& name);
  nfs4::OPEN4args MakeOpen(const std::string& name, nfs4::openflag4 how) const;
  void HandleOpened(File& file, const nfs4::OPEN4res& opened);

  client::v4::Session& session_;
  const nfs4::nfs_fh4 directory_;
  std::map<std::string, File> files_;  // of entries_
  std::optional<client::Status> refused_;
};

}  // namespace penstock::simulation
