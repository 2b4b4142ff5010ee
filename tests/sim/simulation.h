// Simulation runs one schedule: a server of NFS version 3, 4.1 or of the sessions of 2004, over a file system in
// memory, clients that reconnect, and a network with the schedule's faults, in virtual time. It checks invariants after
// each step and at the end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client_side.h"
#include "findings.h"
#include "lock_book.h"
#include "rdma/trace/file.h"
#include "schedule.h"
#include "server_side.h"

namespace penstock::simulation {

struct Totals {
  uint64_t calls = 0;
  uint64_t events = 0;
  uint64_t connections = 0;
  uint64_t refusals = 0;
  uint64_t restarts = 0;  // restarts of the server
  rdma::sim::Stats network;
};

class Simulation {
 public:
  // If `capture` is not null, writes the traffic of the server's endpoints to it. The file must outlive the simulation.
  Simulation(const Schedule& schedule, uint64_t seed, bool tracing, rdma::trace::File* capture = nullptr);
  ~Simulation();

  // Also writes the program's log into the trace. Its lines differ from run to run: they name connections, whose
  // numbers are unique in the process.
  void TraceLog();
  // Runs the simulation from beginning to end. May be called once.
  void Run();

  const Findings& findings() const { return findings_; }
  const rdma::sim::World& world() const { return world_; }
  Totals totals() const;

 private:
  class TrackedChannel;

  void AddClient(const ClientPlan& plan);
  void MakeBound(ClientSide& client);
  void AddLockers(ClientSide& client);
  void AddSharers(ClientSide& client);
  Worker::Facts MakeFacts(ClientSide& client, std::string name) const;
  // Makes a directory below the root, for a worker.
  nfs::FileHandle MakeDirectory(const std::string& name);
  // Makes files that workers of all clients use.
  std::vector<std::pair<std::string, nfs4::nfs_fh4>> MakeSharedFiles(const std::string& name, size_t count);
  std::unique_ptr<Worker> MakeWorker(ClientSide& client, unsigned number);

  Task<SetupResult<std::unique_ptr<rpc::Channel>>> Open(ClientSide& client);
  rpcrdma::ClientOptions OptionsOf(ClientSide& client);
  Task<void> BeforeOpen(ClientSide& client);
  Task<void> Silence(ClientSide& client);
  Task<void> Use(ClientSide& client);
  static Task<void> Reclaim(ClientSide& client);
  void Meddle();
  void MeddleLater();
  void Restart();
  // Tells whether the server is killed now, while it keeps something.
  bool Dies();
  void KillServer();
  void BeSilent(ClientSide& client, Duration at_most);
  bool any_client_is_silent() const;
  bool working() const;

  void CheckStep();
  void CheckRefusals();
  void CheckCredits();
  void CheckQuiet();
  void CheckQuiet(rpcrdma::Client& connection, uint32_t probes);
  void CheckEnd(const rpcrdma::Client& connection);
  void CheckFiles();
  void CheckWorker(const Worker& worker);
  void EndSessions();
  void Close();

  static constexpr uint64_t kManyEvents = 3'000'000;
  static constexpr size_t kLockedFiles = 2;
  static constexpr size_t kSharedFiles = 2;

  const Schedule& schedule_;
  rdma::sim::World world_;
  Findings findings_;
  rdma::sim::Network network_;
  std::unique_ptr<ServerSide> server_;
  LockBook locks_{kLockedFiles};
  std::vector<std::pair<std::string, nfs4::nfs_fh4>> locked_files_;
  LockBook shares_{kSharedFiles};
  size_t sharers_ = 0;
  std::vector<std::pair<std::string, nfs4::nfs_fh4>> shared_files_;
  std::vector<std::unique_ptr<ClientSide>> clients_;
  unsigned meddlings_left_;
  unsigned restarts_left_;
  bool faults_over_ = false;
  bool has_hung_ = false;
  bool traces_log_ = false;
  bool ending_ = false;        // EndSessions() has begun
  uint64_t refusals_ = 0;      // the planned refusals that have happened
  uint32_t most_granted_ = 0;  // the highest number of credits that the server has had to grant
};

}  // namespace penstock::simulation
