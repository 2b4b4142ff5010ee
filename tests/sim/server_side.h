// The server of a simulation: it may be killed, and started again over the same files with what it kept in its state directory.
#pragma once

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

namespace penstock::simulation {

class ServerSide {
 public:
  struct Surroundings {
    const Schedule& schedule;
    rdma::sim::World& world;
    rdma::sim::Network& network;
    Findings& findings;
    rdma::trace::File* capture;  // may be null
  };
  explicit ServerSide(const Surroundings& surroundings);
  ~ServerSide();

  // What is under way in files comes to an end; nothing more is executed, and no connection is left.
  void Kill();
  // Once more.
  void Start();
  struct Restart {
    TimePoint killed;
    std::optional<TimePoint> grace_ends;  // at the latest; nothing: it is not started again yet
  };
  const std::vector<Restart>& restarts() const { return restarts_; }
  bool running() const { return restarts_.empty() || restarts_.back().grace_ends; }

  nfs::FileHandle root() const { return exports_.Resolve("/").found->root(); }
  const rdma::Address& address() const { return address_; }
  // At once, unlike those that are served.
  fs::memory::FileSystem& files() { return *files_; }
  rdma::Provider& provider() { return *provider_; }

  // Of the run that goes on, or went on last.
  SlowProgram& program() { return *run().program; }
  // Null where version 3 is spoken.
  Nfs4Service* nfs4() { return run().nfs4 ? &*run().nfs4 : nullptr; }
  rpcrdma::Server& server() { return run().server; }

  // As many credits for each connection, now and after a restart.
  void SetCredits(uint32_t credits);
  // Done when nothing is served any more, nor is anything still under way of earlier runs.
  Task<void> Stop();
  // Calls that are still executed.
  size_t calls() const;
  // After Stop(): all replies that are kept, and all runs.
  void Forget();

 private:
  // From a start to the next, or the end.
  struct Run {
    Run(rdma::Provider& provider, rdma::sim::World& world, const rpcrdma::ServerOptions& options)
        : dispatcher(cache, world), server(provider, world, dispatcher, options) {}

    std::optional<Nfs4Service> nfs4;
    std::optional<SlowProgram> program;
    rpc::ReplyCache cache{rpc::ReplyCache::Limits{.entries = 4096}};
    rpc::Dispatcher dispatcher;
    rpcrdma::Server server;
    bool stopped = false;
  };
  Run& run() { return *runs_.back(); }
  static Task<void> Stop(Run& run, Duration drain_limit);

  const Schedule& schedule_;
  rdma::sim::World& world_;
  rdma::sim::Network& network_;
  Findings& findings_;
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
  // What was under way in a run that was killed comes to an end later, and nobody hears of it.
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Restart> restarts_;
};

}  // namespace penstock::simulation
