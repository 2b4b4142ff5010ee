// Somebody who works in a directory of his own, one call after the other, and knows what must come of each: whatever happens to
// connections, calls are executed once and replies are right.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "findings.h"
#include "nfs/v3/reply_bounds.h"
#include "protocol/nfs3.h"
#include "rpc/client.h"

namespace penstock::simulation {

class Worker {
 public:
  struct Entry {
    bool symlink = false;
    std::string content;  // the file's, or where the link leads
    nfs3::nfs_fh3 handle{};
    bool operator==(const Entry&) const = default;
  };

  // `directory` is the name of his own below `root`. `may_be_refused`: a call that has chunks may have no reply, because the
  // network refuses accesses to memory; he then finds out what has come of it.
  Worker(rdma::sim::World& world, Findings& findings, rpc::Client& client, nfs3::nfs_fh3 root, std::string directory,
         size_t max_payload, bool may_be_refused)
      : world_(world),
        findings_(findings),
        client_(client),
        root_(root),
        name_(std::move(directory)),
        max_payload_(max_payload),
        may_be_refused_(may_be_refused) {}

  Task<void> Run(unsigned calls);

  bool done() const { return done_; }
  unsigned calls() const { return calls_; }
  const std::string& name() const { return name_; }
  // What the directory must hold.
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  // No value where the call has failed.
  template <class Procedure>
  Task<std::optional<rpc::Reply<typename Procedure::Results>>> Ask(typename Procedure::Arguments arguments,
                                                                   Bytes destination = {});
  void Expect(bool right, std::string_view what);

  Task<void> MakeDirectory();
  Task<void> Act();
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

  std::string NewName();
  std::string Text(size_t most);
  // One of the entries of that kind; null where there is none.
  std::pair<const std::string, Entry>* Pick(std::optional<bool> symlink);

  rdma::sim::World& world_;
  Findings& findings_;
  rpc::Client& client_;
  const nfs3::nfs_fh3 root_;
  const std::string name_;
  const size_t max_payload_;
  const bool may_be_refused_;
  nfs3::nfs_fh3 directory_{};
  std::map<std::string, Entry> entries_;
  unsigned names_ = 0;
  unsigned calls_ = 0;
  bool done_ = false;
};

}  // namespace penstock::simulation
