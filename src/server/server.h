// A whole server: exports, programs, listeners and threads, put together.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/descriptor_shortage.h"
#include "base/result.h"
#include "base/state_directory.h"
#include "base/timer.h"
#include "base/workers.h"
#include "fs/posix/open_objects.h"
#include "nfs/exports.h"
#include "nfs/mount/program.h"
#include "nfs/user_groups.h"
#include "nfs/v3/program.h"
#include "rdma/trace/file.h"
#include "rpc/connection_table.h"
#include "rpc/dispatch.h"
#include "rpc/gss/acceptor.h"
#include "rpc/gss/kerberos.h"
#include "rpc/memory_budget.h"
#include "rpc/reply_cache.h"
#include "server/nfs4.h"
#include "server/options.h"

namespace penstock::server {

struct Addresses {
  SocketAddress tcp;
  SocketAddress rdma;
  SocketAddress mount;
};

// Serves from Start() to Stop(). All versions of NFS, and MOUNT, are answered on every port alike; the MOUNT port is
// there for clients that want one of its own. To be used by one thread.
class Server {
 public:
  // Opens the exported directories and listens. The error is for the operator: a directory that is not there, a port
  // that is taken, and so on. The calling thread, and those of the server, lose CAP_SYS_RESOURCE.
  static SetupResult<std::unique_ptr<Server>> Make(const Options& options);
  ~Server();

  const nfs::Exports& exports() const { return exports_; }
  const Addresses& addresses() const { return addresses_; }
  // By which device, or how else, RDMA is served; for people.
  const std::string& rdma_description() const { return rdma_.description; }

  // Whether clients may come by RPCSEC_GSS.
  bool offers_gss() const { return kerberos_ != nullptr; }

  // Connections are accepted and served from now on, on threads of the server's own.
  void Start();
  // From Start() to Stop(), in any thread: there was a SIGIO. See Options::local_leases. Not in a signal handler.
  void LookAtLocalLeases();
  // Takes no more calls, lets those that run end, and closes all connections. Done when no thread is left. Once.
  void Stop();

 private:
  class Worker;

  explicit Server(const Options& options);
  SetupResult<void> OpenKeytab();
  SetupResult<void> OpenExports();
  SetupResult<void> Listen();
  SetupResult<void> OpenStateDirectory();
  void Serve(rpc::Program& program);
  void TidyUp();
  // Has files that are idle closed for connections, soon.
  void MakeRoomForConnections();

  const Options options_;
  bool acts_as_callers_ = false;
  std::optional<StateDirectory> state_directory_;  // until nothing writes to it any more
  Workers pool_;
  const std::shared_ptr<rpc::ConnectionTable> connections_;
  const std::shared_ptr<rpc::MemoryBudget> memory_;
  const std::shared_ptr<fs::posix::OpenObjects> objects_;  // of all exports
  const std::shared_ptr<DescriptorShortage> shortage_;
  std::unique_ptr<rpc::gss::Kerberos> kerberos_;  // null where RPCSEC_GSS is not offered
  std::string no_kerberos_;                       // why, then
  std::shared_ptr<nfs::UserGroups> groups_;       // null where they are the credentials'
  nfs::Exports exports_;
  nfs::mount::Program mount3_{exports_};
  rpc::ReplyCache replies_;
  Addresses addresses_;
  rdma::Chosen rdma_;
  std::unique_ptr<rdma::trace::File> trace_;  // before workers_, which write to it; null without a trace
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Timer> tidy_up_;  // on the first worker's loop, while that runs
  std::atomic<bool> is_tidying_ = false;
  std::unique_ptr<Nfs4> nfs4_;            // lives on the first worker's loop
  std::optional<nfs::v3::Program> nfs3_;  // after nfs4_, whose claims it respects
  std::vector<std::unique_ptr<nfs::WithGroups>> with_groups_;
  std::unique_ptr<rpc::gss::Acceptor> acceptor_;  // null where RPCSEC_GSS is not offered; as the dispatcher
  std::unique_ptr<rpc::Dispatcher> dispatcher_;   // after workers_, whose clock it uses
};

}  // namespace penstock::server
