// Puts the parts together that lock files for clients of NFS versions 2 and 3: the lock manager (NLM) and the status
// monitor (NSM). They live on the first loop.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "base/task.h"
#include "nfs/exports.h"
#include "nfs/nlm/local_monitor.h"
#include "nfs/nlm/lock_manager.h"
#include "nfs/nlm/program.h"
#include "nfs/nlm/status_monitor.h"
#include "nfs/v4/operations/host_locks.h"
#include "server/discovery.h"
#include "server/host_calls.h"
#include "server/nfs4.h"

namespace penstock::server {

class Locking {
 public:
  // `nfs4` has the table of locks, `discovery` tells whether another program is the status monitor of this host. All
  // arguments outlive the instance. `nfs2`: version 2 of NFS is served as well.
  Locking(const nfs::Exports& exports, Nfs4& nfs4, const Discovery& discovery, Loop& home, bool nfs2);
  ~Locking();

  // The programs. Those of NLM need the users' groups.
  std::vector<rpc::Program*> lock_managers();
  rpc::Program& status_monitor() { return status_monitor_; }

  // On the home loop: tells the hosts that had locks before the restart.
  void Start();
  // On the home loop: forgets the requests that wait for locks of files whose handles `is_gone` names.
  void ForgetFiles(const std::function<bool(const nfs::FileHandle&)>& is_gone) { manager_.ForgetFiles(is_gone); }
  // On the home loop: an operator ends this host. All that it held is released.
  void EndHost(const nfs::v4::LockHostName& host) { manager_.EndHosts({host}); }
  // On the home loop, once: ends all calls to hosts.
  Task<> Stop();

 private:
  void Sweep();

  Nfs4& nfs4_;
  const Discovery& discovery_;
  NetworkHostCalls calls_;
  nfs::v4::HostLocks locks_;
  nfs::nlm::LocalMonitor local_monitor_;
  nfs::nlm::LockManager manager_;
  const bool nfs2_;
  nfs::nlm::Program nlm1_{manager_, 1}, nlm3_{manager_, 3};  // for version 2 of NFS
  nfs::nlm::Program nlm4_{manager_, 4};
  nfs::nlm::StatusMonitor status_monitor_;
  nfs::nlm::RestartNotices restart_notices_;
  std::unique_ptr<Timer> sweep_;
};

}  // namespace penstock::server
