// Puts the parts of NFS version 4 together for a server: the tree of exports, the state of clients and files, the
// stores that survive a restart, and the sender of callbacks.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/task.h"
#include "base/under_way.h"
#include "base/workers.h"
#include "cluster/cluster.h"
#include "idmap/lookups.h"
#include "idmap/mapper.h"
#include "nfs/exports.h"
#include "nfs/v4/callback/callback_sender.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/engine/program.h"
#include "nfs/v4/operations/claims.h"
#include "nfs/v4/state/clients/lock_hosts.h"
#include "nfs/v4/state/settings.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "server/callback_connections.h"
#include "server/copy_sources.h"

namespace penstock::server {

class Nfs4 {
 public:
  struct Surroundings {
    const nfs::Exports& exports;
    Workers& pool;  // runs calls that block
    Loop& home;     // sends the callbacks and keeps the leases
    std::filesystem::path state_directory;
    std::vector<SocketAddress> tcp;      // where clients reach NFS over TCP
    rpc::SecurityFlavor* gss = nullptr;  // null if RPCSEC_GSS is not offered
    // The path of the keytab of Kerberos; empty: the host's.
    std::string keytab{};
    size_t loops = 1;  // that serve calls
    // See Parts.
    std::shared_ptr<cluster::Cluster> cluster{};
    std::function<void(const std::string& why)> expelled{};
  };
  // Begins a run of the server: clients of the previous run may reclaim their state. The surroundings must outlive the
  // result.
  static SetupResult<std::unique_ptr<Nfs4>> Make(nfs::v4::Settings settings, const Surroundings& surroundings);

  ~Nfs4();

  rpc::Program& program() { return program_; }
  // For operations outside of NFSv4 that use its state. The referred objects live as long as this.
  nfs::v4::Services services() { return MakeServices(); }
  // The number of this run of the server: see nfs::v4::RecoveryStore::Restart.
  uint32_t instance() const { return instance_; }
  // The hosts that held locks through NLM before the restart.
  std::vector<nfs::v4::RememberedHost> TakeRememberedHosts() { return std::move(remembered_hosts_); }
  // The tree of these exports, for Replace(). Fails as Namespace::Make() does. Any thread.
  SetupResult<std::shared_ptr<const nfs::v4::Namespace>> MakeNames(std::shared_ptr<const nfs::ExportTable> table) const;
  // Calls that begin from now on use this tree. Any thread.
  void Replace(std::shared_ptr<const nfs::v4::Namespace> names) { names_.Set(std::move(names)); }
  // The exports have changed: see nfs::v4::Files::HandleNewExports(). Any thread.
  void HandleNewExports(const std::function<bool(nfs::ExportId)>& is_referral);
  // Revokes the opens, locks and delegations of the file handles that `is_gone` names. Any thread.
  void RevokeState(const std::function<bool(const nfs::FileHandle&)>& is_gone);
  // From now on, `notify` tells hosts of locks that may be free. Before any call is served, or after the last one.
  void NotifyHostsBy(std::function<void(const nfs::v4::LockNotice&)> notify) {
    caller_.NotifyHostsBy(std::move(notify));
  }
  // Lets the other versions of NFS respect the opens, locks and delegations of version 4.
  nfs::FileClaims& claims() { return claims_; }

  // Any thread; takes the lock of the state for a moment.
  bool InGrace();
  // The sizes of the tables, and the callbacks so far. Any thread; takes the lock of the state for a moment.
  struct Statistics {
    bool in_grace = false;
    size_t clients = 0;
    size_t hosts = 0;  // that lock through NLM
    size_t sessions = 0, bound_sessions = 0;
    size_t slots = 0, busy_slots = 0;
    size_t kept_octets = 0;  // of replies that sessions keep
    size_t opens = 0, locks = 0, delegations = 0;
    size_t ranges = 0;             // locked
    size_t copies = 0;             // asynchronous ones that are running
    ShardedLock::Counts visits{};  // of the state: see State::visits()
  };
  Statistics statistics();
  const nfs::v4::CallbackSender& callbacks() const { return caller_; }

  // Checks leases from now on. On the home loop.
  void Start();
  // Looks for leases that a local program has broken (fs/local_lease.h), and recalls their delegations. On the home
  // loop.
  void LookAtLocalLeases();
  // Whether asynchronous copies are under way. Any thread.
  bool IsCopying();
  // Ends copies while their clients can still be told, until `limit`. On the home loop, before Stop().
  Task<> EndCopies(Duration limit);
  // Ends callbacks, the checks of leases, and copies. On the home loop, once. The loops must run until all serving has
  // ended.
  Task<> Stop();

 private:
  // The stores that survive a restart, and their record of the previous run.
  struct Memory {
    std::unique_ptr<nfs::v4::RecoveryStore> clients;
    nfs::v4::RecoveryStore::Restart restart;
    std::vector<nfs::v4::RememberedHost> hosts;  // those among the clients in `restart` that lock through NLM
    std::unique_ptr<nfs::v4::ReplyStore> replies;
    std::unique_ptr<nfs::v4::StreamStore> streams;
  };
  static SetupResult<Memory> OpenMemory(const Surroundings& surroundings, const nfs::v4::Settings& settings,
                                        std::chrono::sys_seconds now);
  // The replies of the runs that have ended are in `memory` afterwards.
  static SetupResult<void> OpenClusterMemory(cluster::Cluster& cluster, Memory& memory,
                                             const nfs::v4::Settings& settings, std::chrono::sys_seconds now);
  void FollowCluster();
  Nfs4(nfs::v4::Settings settings, const Surroundings& surroundings, std::shared_ptr<const nfs::v4::Namespace> names,
       Memory memory);
  static std::optional<std::string> KeytabForCallbacks(const Surroundings& surroundings);
  nfs::v4::Services MakeServices();
  Task<> KeepLeases();
  Task<> LookAgain();

  // Tells the cluster that this server ends, when all that uses the cluster has ended.
  struct Departure {
    std::shared_ptr<cluster::Cluster> from;
    ~Departure() {
      if (from) from->Leave();
    }
  };

  const Departure departure_;
  const std::function<void(const std::string& why)> expelled_;
  const nfs::v4::Settings settings_;
  const uint32_t instance_;
  std::vector<nfs::v4::RememberedHost> remembered_hosts_;
  Loop& home_;
  rpc::SecurityFlavor* const gss_;
  const nfs::Exports& exports_;
  Published<nfs::v4::Namespace> names_;
  idmap::Lookups lookups_;
  const idmap::Mapper owners_;
  std::unique_ptr<nfs::v4::ReplyStore> reply_store_;
  std::unique_ptr<nfs::v4::StreamStore> stream_store_;
  nfs::v4::ReplyWriter replies_;
  nfs::v4::State state_;
  nfs::v4::RecoveryQueue recovery_;
  CallbackConnections connections_;
  nfs::v4::CallbackSender caller_;
  NetworkCopySources copy_sources_;
  nfs::v4::Program program_;
  nfs::v4::Claims claims_;
  std::unique_ptr<Timer> timer_;

  // How many checks of leases are running, of clients or of file systems. Stop() waits for their end.
  UnderWay under_way_;
  bool looking_ = false;
  bool look_again_ = false;
  bool stopping_ = false;
};

}  // namespace penstock::server
