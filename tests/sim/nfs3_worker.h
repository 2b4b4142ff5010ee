// Nfs3Worker is a worker that uses NFS version 3. It checks that the server's duplicate request cache prevents second
// executions.
#pragma once

#include "nfs_protocol/nfs3_reply_bounds.h"
#include "protocol/nfs3.h"
#include "rpc/client.h"
#include "worker.h"

namespace penstock::simulation {

class Nfs3Worker final : public Worker {
 public:
  Nfs3Worker(rdma::sim::World& world, Findings& findings, Facts facts, rpc::Client& client, nfs3::nfs_fh3 root)
      : Worker(world, findings, std::move(facts)), client_(client), root_(root) {}

 private:
  // Makes a call. Returns no value if the call has no reply.
  template <class Procedure>
  Task<std::optional<rpc::Reply<typename Procedure::Results>>> Ask(typename Procedure::Arguments arguments,
                                                                   Bytes destination = {});

  Task<void> MakeDirectory() override;
  Task<void> Act() override;
  Task<void> Ping();
  Task<void> GetAttributes();
  Task<void> Lookup();
  Task<void> Create();
  Task<void> Remove();
  Task<void> Rename();
  Task<void> Write();
  Task<void> Read();
  Task<void> MakeSymlink();
  Task<void> ReadLink();
  Task<void> List();
  Task<void> Commit();

  rpc::Client& client_;
  const nfs3::nfs_fh3 root_;
  nfs3::nfs_fh3 directory_{};
  std::map<std::string, nfs3::nfs_fh3> handles_;  // the filehandles of entries_
};

}  // namespace penstock::simulation
