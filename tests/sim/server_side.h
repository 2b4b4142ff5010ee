// ServerSide is the server of a simulation. The simulation can kill it and start it again: the new run serves the same
// files and has the same stable storage.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "findings.h"
#include "fs/faulty/file_system.h"
#include "fs/memory/file_system.h"
#include "nfs/exports.h"
#include "nfs/v3/program.h"
#include "nfs4_service.h"
#include "rdma/sim/network.h"
#include "rdma/trace/file.h"
#include "rpc/dispatch.h"
#include "schedule.h"
#include "slow_program.h"
#include "stream_server.h"

namespace penstock::simulation {

class ServerSide {
 public:
  struct Surroundings {
    const Schedule& schedule;
    rdma::sim::World& world;
    rdma::sim::Network& network;
    Findings& findings;
    rdma::trace::File* capture;  // may be null
    std::function<bool()> dies;  // see DyingStreamStore
  };
  explicit ServerSide(const Surroundings& surroundings);
  ~ServerSide();

  // Ends the run and all its connections. File operations under way finish; the server executes no further call.
  void Kill();
  // Starts the server, or starts it again after Kill().
  void Start();
  struct Restart {
    TimePoint killed;
    std::optional<TimePoint> grace_ends;  // the latest end of the grace period; no value before the new start
  };
  const std::vector<Restart>& restarts() const { return restarts_; }
  bool running() const { return restarts_.empty() || restarts_.back().grace_ends; }

  nfs::FileHandle root() const { return exports_.table().Resolve("/").found->root(); }
  const rdma::Address& address() const { return address_; }
  const rdma::Address& tcp_address() const { return tcp_address_; }  // only for sessions of 2004
  // Returns the files without the faults and delays of the served file system.
  fs::memory::FileSystem& files() { return *files_; }
  rdma::Provider& provider() { return *provider_; }

  // The next three functions return parts of the current run, or of the last one if the server is killed.
  SlowProgram& program() { return *run().program; }
  // Returns null in version 3.
  Nfs4Service* nfs4() { return run().nfs4 ? &*run().nfs4 : nullptr; }
  rpcrdma::Server& server() { return run().server; }

  // Sets the number of credits that each connection gets, now and after a restart.
  void SetCredits(uint32_t credits);
  // Stops the server. Completes when the last run and all killed runs have stopped.
  Task<void> Stop();
  // Returns the number of calls that are under way, in all runs.
  size_t calls() const;
  // Destroys all runs, with their kept replies, and the stable storage. To be called after Stop().
  void Forget();

 private:
  // One run of the server: from a start to the next start, or to the end of the simulation.
  struct Run {
    Run(rdma::sim::World& world, rpcrdma::ServerOptions options)
        : dispatcher(cache, world), server(world, dispatcher, std::move(options)) {}

    std::optional<Nfs4Service> nfs4;
    std::optional<SlowProgram> program;
    rpc::ReplyCache cache{rpc::ReplyCache::Limits{.entries = 4096}};
    rpc::Dispatcher dispatcher;
    rpcrdma::Server server;
    std::optional<StreamServer> streams;  // only for sessions of 2004
    bool stopped = false;
  };
  Run& run() { return *runs_.back(); }
  void StartStreams(Run& run);
  static Task<void> Stop(Run& run, TimerService& world, Duration drain_limit);

  const Schedule& schedule_;
  rdma::sim::World& world_;
  rdma::sim::Network& network_;
  Findings& findings_;
  const std::function<bool()> dies_;
  rpcrdma::ServerOptions options_;
  int64_t ticks_ = 1'000'000;
  std::unique_ptr<rdma::Provider> provider_;
  std::shared_ptr<fs::memory::FileSystem> files_ = std::make_shared<fs::memory::FileSystem>(
      fs::memory::Options{.clock = [this] { return fs::Timestamp{++ticks_, 0}; }});
  std::shared_ptr<fs::faulty::FileSystem> served_files_;
  nfs::Exports exports_;
  nfs::v3::Program nfs3_{exports_, {.max_read = 1 << 16, .max_write = 1 << 16, .max_directory = 1 << 16}};
  std::optional<Nfs4Memory> memory_{std::in_place};
  rdma::Address address_;
  const rdma::Address tcp_address_;
  // Killed runs stay here, because their calls finish later, without replies.
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Restart> restarts_;
};

}  // namespace penstock::simulation
