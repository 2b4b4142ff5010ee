// NFS version 4 of a server, put together: the tree of exports, what is remembered of clients and files, the store that
// outlives the process, and what clients are called back with.
#pragma once

#include <filesystem>
#include <memory>

#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "base/workers.h"
#include "nfs/exports.h"
#include "nfs/v4/attributes/owner_names.h"
#include "nfs/v4/callback/callback_sender.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/engine/program.h"
#include "nfs/v4/operations/claims.h"
#include "nfs/v4/state/settings.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"

namespace penstock::server {

class Nfs4 {
 public:
  struct Surroundings {
    const nfs::Exports& exports;  // complete
    Workers& pool;                // for what blocks
    Loop& home;                   // where clients are called from, and their leases kept
    std::filesystem::path state_directory;
  };
  // Begins a run of the server: clients of the last one may reclaim what they held. The surroundings outlive it.
  static SetupResult<std::unique_ptr<Nfs4>> Make(nfs::v4::Settings settings, const Surroundings& surroundings);

  rpc::Program& program() { return program_; }
  // For the other versions of NFS.
  nfs::FileClaims& claims() { return claims_; }

  // On the home loop, when it runs: leases are kept from now on.
  void Start();
  // On the home loop: a local program may have broken a lease (fs/local_lease.h).
  void LookAtLocalLeases();
  // On the home loop, once: no client is called any more, nor its lease looked at, and nothing is copied for it. The
  // loops go on until nothing is served any more.
  Task<> Stop();

 private:
  // What outlives a run of the server, and what it has to say of the last one.
  struct Memory {
    std::unique_ptr<nfs::v4::RecoveryStore> clients;
    nfs::v4::RecoveryStore::Restart restart;
    std::unique_ptr<nfs::v4::ReplyStore> replies;
  };
  static SetupResult<Memory> OpenMemory(const std::filesystem::path& directory, const nfs::v4::Settings& settings,
                                        std::chrono::sys_seconds now);
  Nfs4(nfs::v4::Settings settings, const Surroundings& surroundings, std::unique_ptr<const nfs::v4::Namespace> names,
       Memory memory);
  nfs::v4::Services MakeServices();
  Task<> KeepLeases();
  Task<> LookAgain();
  void EndWork();

  const nfs::v4::Settings settings_;
  Loop& home_;
  std::unique_ptr<const nfs::v4::Namespace> names_;
  nfs::v4::OwnerNames owners_;
  std::unique_ptr<nfs::v4::ReplyStore> reply_store_;
  nfs::v4::ReplyWriter replies_;
  nfs::v4::State state_;
  nfs::v4::RecoveryQueue recovery_;
  nfs::v4::CallbackSender caller_;
  nfs::v4::Program program_;
  nfs::v4::Claims claims_;
  std::unique_ptr<Timer> timer_;

  // While clients' leases, or those of the file systems, are being looked at; Stop() waits for the end of that.
  unsigned under_way_ = 0;
  OneShot<>* all_ended_ = nullptr;
  bool looking_ = false;
  bool look_again_ = false;
  bool stopping_ = false;
};

}  // namespace penstock::server
