// One simulation: a server of NFS version 3 or 4.1 over a file system in memory, clients that reconnect, a network that does what the
// schedule says; and what must hold after each step and in the end.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "findings.h"
#include "fs/memory/file_system.h"
#include "rdma/trace/file.h"
#include "rpc/dispatch.h"
#include "schedule.h"
#include "slow_program.h"
#include "worker.h"

namespace penstock::simulation {

struct Totals {
  uint64_t calls = 0;
  uint64_t events = 0;
  uint64_t connections = 0;
  uint64_t refusals = 0;
  rdma::sim::Stats network;
};

class Simulation {
 public:
  // With a file, what crosses the server's endpoints is written to it; it outlives the simulation.
  Simulation(const Schedule& schedule, uint64_t seed, bool tracing, rdma::trace::File* capture = nullptr);
  ~Simulation();

  // Runs it from beginning to end; once.
  void Run();

  const Findings& findings() const { return findings_; }
  const rdma::sim::World& world() const { return world_; }
  Totals totals() const;

 private:
  struct Client;
  class ServerSide;
  class TrackedChannel;

  Task<Result<std::unique_ptr<rpc::Channel>, std::string>> Open(Client& client);
  Task<void> Use(Client& client);
  std::unique_ptr<Worker> MakeWorker(Client& client, unsigned number);
  void Meddle();
  void MeddleLater();
  bool working() const;

  void CheckStep();
  void CheckRefusals();
  void CheckCredits();
  void CheckQuiet();
  void CheckEnd(const rpcrdma::Client& connection);
  void CheckFiles();
  void EndSessions();
  void Close();

  const Schedule& schedule_;
  rdma::sim::World world_;
  Findings findings_;
  rdma::sim::Network network_;
  std::unique_ptr<ServerSide> server_;
  std::vector<std::unique_ptr<Client>> clients_;
  unsigned meddlings_left_;
  bool faults_over_ = false;
  bool has_hung_ = false;
  uint64_t refusals_ = 0;      // that were planned, and have happened
  uint32_t most_granted_ = 0;  // that the server has ever been willing to grant
};

}  // namespace penstock::simulation
