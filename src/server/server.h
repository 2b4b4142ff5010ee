// A whole NFS server in one object: exports, the programs of NFS and MOUNT, listeners for TCP and RDMA, and threads.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/descriptor_shortage.h"
#include "base/result.h"
#include "base/timer.h"
#include "base/workers.h"
#include "metrics/counts.h"
#include "nfs/acl/program.h"
#include "nfs/exports.h"
#include "nfs/host_names.h"
#include "nfs/mount/program.h"
#include "nfs/quota/program.h"
#include "nfs/user_groups.h"
#include "nfs/v2/program.h"
#include "nfs/v3/program.h"
#include "rdma/trace/recording.h"
#include "rpc/connection_table.h"
#include "rpc/dispatch.h"
#include "rpc/gss/acceptor.h"
#include "rpc/gss/kerberos.h"
#include "rpc/memory_budget.h"
#include "rpc/reply_cache.h"
#include "server/discovery.h"
#include "server/locking.h"
#include "server/nfs4.h"
#include "server/options.h"
#include "server/parts.h"
#include "server/retired_exports.h"
#include "server/serving_loop.h"
#include "server/statistics.h"
#include "server/wall_clock.h"
#include "watch/http_server.h"

namespace penstock::server {

struct RdmaPlace;

// Serves from Start() to Stop(). Every port answers all versions of NFS, and MOUNT; the MOUNT port exists for clients
// that want a port for MOUNT alone. It answers MOUNT and the other small programs over UDP as well, on the first loop.
// If the server does not offer NFS over TCP, the MOUNT port answers the small programs only.
// One thread at a time uses a Server.
//
// The server reports trouble through base/log.h, and prints nothing.
class Server {
 public:
  // Adds the exports and listens on the ports. The error is for the operator: a port that is taken, a damaged file in
  // the state directory, and so on.
  static SetupResult<std::unique_ptr<Server>> Make(const Options& options, Parts parts);
  ~Server();

  const nfs::Exports& exports() const { return exports_; }
  // Where the server listens, with the ports that the system has chosen.
  const Addresses& addresses() const { return addresses_; }
  // For people, for each of addresses().rdma: the device that serves RDMA, or that software does.
  const std::vector<std::string>& rdma_descriptions() const { return rdma_descriptions_; }

  // Whether each loop runs a function within this time. From Start() to Stop(), on any thread but those of the loops;
  // blocks for at most the limit.
  bool LoopsAnswer(Duration limit) const;
  // For people, one line: what the server exports, and how many clients it has. As LoopsAnswer(), but does not block.
  std::string DescribeLoad() const;

  // Where the server answers monitors; nothing without Options::metrics.
  std::optional<SocketAddress> metrics_address() const { return http_ ? std::optional(http_->local()) : std::nullopt; }
  // All metrics (docs/metrics.md). From Start() to Stop(), on any thread but those of the loops.
  metrics::Families CollectMetrics();

  // Whether clients can ask a port mapper for the ports of NFS and of the programs beside it.
  bool ports_can_be_found() const { return discovery_.ports_can_be_found(); }
  // Whether clients may use RPCSEC_GSS.
  bool offers_gss() const { return kerberos_ != nullptr; }
  // Whether clients may use TLS over TCP.
  bool offers_tls() const { return tls_ != nullptr; }
  // Changes the server while it runs, after Start(): the exports, and the options `connections`, `memory`, `ccm_from`
  // and `tls`, of which it reads the files again. All other options keep their values, and a server without TLS gets
  // none. If the exports or the files cannot be used, returns the reason and changes nothing.
  //
  // Calls that run keep the exports with which they began. File handles of an export stay valid as long as its path
  // stays and its file system knows them; a file system that stays should be the same object. When the calls that use a
  // removed export have ended, its opens, locks and delegations are revoked and its file system is released.
  //
  // Any thread, but one at a time. Blocks: it reads files.
  SetupResult<void> Reload(const Options& options, std::vector<Export> exports);

  // Accepts and serves connections from now on, on threads of the server's own.
  void Start();
  // From Start() to Stop(), on any thread but not in a signal handler: a local program may have broken a lease of a
  // file system (fs/local_lease.h). For fs/posix the kernel tells the process by SIGIO.
  void LookAtLocalLeases();
  // Accepts no more calls, waits for the calls that run, and closes all connections. The loops still run when this
  // returns: Reload() and Administration may be used until Stop(). Called once, if at all.
  void Drain();
  // Does that, unless it is done. All threads of the server and of its pool have ended when this returns. Called once.
  void Stop();

 private:
  friend class Administration;  // what operators see and change beside the configuration

  // `listening`: see ListeningDescriptors().
  Server(const Options& options, Parts parts, size_t listening);
  // Ends asynchronous copies, and tells their clients, until `limit`.
  void EndCopies(Duration limit);
  SetupResult<void> OpenKeytab();
  SetupResult<void> OpenTls();
  SetupResult<void> CompleteTerms(const Options& options, const std::string& path, nfs::ExportOptions& terms) const;
  // Keeps the exports of the current table that do not change.
  SetupResult<std::shared_ptr<const nfs::ExportTable>> MakeTable(const Options& options,
                                                                 std::vector<Export> exports) const;
  // Opens the port for monitors, whose pages are in watching.cc. The port answers from now on.
  SetupResult<void> OpenMetrics(std::vector<FileDescriptor> sockets);
  // Why the server takes no new clients; empty if it does.
  std::string WhyNotReady() const;
  LoopDelays DelaysOfLoops(Duration limit) const;
  std::optional<size_t> FindHungLoop(Duration limit) const;
  watch::Response ShowHealth();
  watch::Response ShowReadiness();
  watch::Response ShowMetrics();
  watch::Response ShowDashboardData();
  SetupResult<void> AddExports(std::vector<Export> exports);
  void TrustNetworks(const std::vector<nfs::Network>& networks);
  static std::vector<nfs::ClientSpec> ClientsOf(const nfs::ExportTable& table);
  SetupResult<void> Listen(PassedSockets passed);
  using RdmaListeners = std::vector<std::unique_ptr<rdma::Listener>>;  // one for each loop
  SetupResult<RdmaListeners> ListenForRdma(const RdmaPlace& place);
  SetupResult<void> TellPorts(const Addresses& reachable);
  void ServeVersion2();
  // Offers a program of NFS over TCP and RDMA.
  void Serve(rpc::Program& program);
  // Offers one of the small programs beside NFS over TCP, RDMA and UDP.
  void ServeBeside(rpc::Program& program);
  // Returns the program, or another one in front of it that looks up the users' groups.
  rpc::Program& WithGroups(rpc::Program& program);
  // Returns the program, or another one in front of it that serves the audit log, if there is one.
  rpc::Program& WithAudit(rpc::Program& program);
  // Returns a program in front of it that looks up the names of the callers' hosts, where exports need them.
  rpc::Program& WithHostNames(rpc::Program& program);
  void TellLongHandles() const;
  void CloseIdle();
  // Logs the numbers of refusals that are due, once a second.
  void TellRefusals();
  // Closes files that no call uses, on the pool, so that connections get descriptors.
  void MakeRoomForConnections();

  const Options options_;
  const size_t listening_;                // descriptors; see ListeningDescriptors()
  const StateDirectory state_directory_;  // stays locked until everything that writes to it is gone
  const std::shared_ptr<Workers> pool_;
  const std::shared_ptr<RefusalLog> refusals_ = std::make_shared<RefusalLog>();
  const std::shared_ptr<rpc::ConnectionTable> connections_;
  const std::shared_ptr<rpc::MemoryBudget> memory_;
  const std::shared_ptr<rpc::MemoryBudget> messages_;  // see rpcrdma::ServerOptions
  const std::shared_ptr<metrics::Counts> counts_;
  const std::shared_ptr<fs::OpenFiles> open_files_;  // null if the file systems keep none open
  const std::shared_ptr<DescriptorShortage> shortage_;
  const std::shared_ptr<fs::audited::AuditLog> audit_;  // null without one
  // Until the parts of version 4 take them.
  std::shared_ptr<cluster::Cluster> cluster_;
  std::function<void(const std::string& why)> expelled_;
  std::unique_ptr<rpc::gss::Kerberos> kerberos_;  // null if RPCSEC_GSS is not offered
  std::string no_kerberos_;                       // the reason why RPCSEC_GSS is not offered
  std::shared_ptr<rpc::tls::Credentials> tls_;    // null if TLS is not offered
  Published<std::vector<nfs::Network>> ccm_from_;
  // Look up users and their groups, and the names of hosts, so that a directory service that hangs takes no thread from
  // disks or from the other one.
  Workers user_threads_;
  std::shared_ptr<nfs::UserGroups> groups_;  // null if groups come from the credentials
  Workers host_threads_;
  nfs::HostNames host_names_;
  nfs::Exports exports_{nfs::Refusals(refusals_, options_.acts_as_callers)};
  nfs::mount::Program mount_{exports_,
                             options_.nfs2 ? nfs::mount::Versions::kOneToThree : nfs::mount::Versions::kThree};
  nfs::quota::Program rquota_{exports_, &SecondsSince1970};
  rpc::ReplyCache replies_;
  Addresses addresses_;
  std::vector<std::string> rdma_descriptions_;
  // Before loops_, which use it.
  const std::shared_ptr<rdma::trace::Recording> recording_ = std::make_shared<rdma::trace::Recording>();
  std::vector<std::unique_ptr<ServingLoop>> loops_;
  std::unique_ptr<Timer> tell_refusals_;  // on the first loop, while that runs
  std::unique_ptr<Timer> close_idle_;     // on the first loop, while that runs; null without open_files_
  std::atomic<bool> is_closing_idle_ = false;
  std::unique_ptr<Nfs4> nfs4_;                // lives on the first loop
  std::unique_ptr<Locking> locking_;          // likewise; uses the locks of nfs4_
  std::optional<nfs::v2::Program> nfs2_;      // after nfs4_, whose claims it respects; none without Options::nfs2
  std::optional<nfs::v3::Program> nfs3_;      // likewise
  std::optional<nfs::acl::Program> nfs_acl_;  // likewise, and after nfs2_
  std::optional<RetiredExports> retired_;
  std::vector<std::unique_ptr<nfs::WithGroups>> with_groups_;
  std::vector<std::unique_ptr<nfs::WithHostNames>> with_host_names_;
  std::vector<std::unique_ptr<rpc::Program>> with_audit_;
  std::unique_ptr<rpc::gss::Acceptor> acceptor_;  // null if RPCSEC_GSS is not offered; lives as long as the dispatcher
  std::unique_ptr<rpc::Dispatcher> dispatcher_;   // after loops_, whose clock it uses
  std::unique_ptr<rpc::Dispatcher> datagrams_;    // the small programs, for calls over UDP
  std::unique_ptr<rpc::Dispatcher> beside_;       // the small programs, for calls over TCP
  std::vector<const rpc::Program*> nfs_programs_;
  std::vector<const rpc::Program*> small_programs_;
  Discovery discovery_{options_};
  enum class Phase : uint8_t { kStarting, kServing, kDraining };
  bool drained_ = false;
  std::atomic<Phase> phase_ = Phase::kStarting;
  std::atomic<bool> started_ = false;        // everything that a scrape asks exists
  std::unique_ptr<watch::HttpServer> http_;  // last: its threads use everything else; null without Options::metrics
};

}  // namespace penstock::server
