// Nfs4Service is one run of the simulated NFSv4 server, from a start until the server is killed or stopped. It draws
// its entropy from the world. It sends callbacks to clients with sessions of 2004 only.
#pragma once

#include <functional>
#include <memory>

#include "dying_stream_store.h"
#include "idmap/mapper.h"
#include "nfs/v4/callback/callback_sender.h"
#include "nfs/v4/callback/test_callbacks.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/engine/program.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "rdma/sim/world.h"
#include "schedule.h"

namespace penstock::simulation {

// The stores that survive a restart of the server.
struct Nfs4Memory {
  nfs::v4::MemoryRecoveryStore clients;
  nfs::v4::MemoryReplyStore replies;
  nfs::v4::MemoryStreamStore streams;
};

class Nfs4Service {
 public:
  // Begins a run. Clients of the run before may reclaim their state. If Schedule::persistent is true, replies of
  // sessions survive a restart. `buffers` is for callbacks. `dies` is that of DyingStreamStore. The references outlive
  // the run.
  Nfs4Service(rdma::sim::World& world, const nfs::Exports& exports, Nfs4Memory& memory, const Schedule& schedule,
              BufferPool& buffers, std::function<bool()> dies);

  rpc::Program& program() { return program_; }
  const nfs::v4::Settings& settings() const { return settings_; }
  // Return the numbers of sessions and clients that the server knows.
  size_t sessions() {
    return state_.Run([&](nfs::v4::StateTables& state) { return state.sessions.session_count(); });
  }
  size_t clients() {
    return state_.Run([&](nfs::v4::StateTables& state) { return state.clients.client_count(); });
  }
  // Returns a description of an inconsistency between the server's tables, or null if they are consistent.
  const char* FindInconsistency() {
    return state_.Run([&](nfs::v4::StateTables& state) { return state.FindInconsistency(); });
  }
  // Lets the kept replies of earlier runs expire, and returns the number of sessions whose replies are still stored.
  // All sessions must have ended.
  size_t CountForgottenReplies();

  // Stops the timer that checks the leases, and the callbacks.
  void Stop() {
    timer_->Cancel();
    sender_.Stop();
  }
  // Kill() also ends all changes of stable storage by this run.
  void Kill() {
    Stop();
    streams_.Kill();
  }
  // The callbacks under way.
  size_t callbacks() const { return sender_.under_way(); }

 private:
  nfs::v4::StateTables::Beginning BeginTables();
  static nfs::v4::Settings SettingsOf(const Schedule& schedule);
  nfs::v4::Services MakeServices(const Schedule& schedule);
  void KeepLeases();

  // A static member, because Services takes a plain function. Only one simulation runs at a time.
  static inline rdma::sim::Random* entropy = nullptr;

  rdma::sim::World& world_;
  Nfs4Memory& memory_;
  Published<nfs::v4::Namespace> names_;
  const nfs::v4::Settings settings_;
  idmap::Mapper owners_;
  nfs::v4::NoCallbacks no_callbacks_;
  DyingStreamStore streams_;
  nfs::v4::RecoveryQueue recovery_;
  nfs::v4::ReplyWriter replies_{memory_.replies, streams_};
  nfs::v4::State state_{BeginTables()};
  nfs::v4::CallbackSender sender_;
  nfs::v4::Callbacks& callbacks_;
  const nfs::v4::Services services_;
  nfs::v4::Program program_{services_};
  const Duration interval_;  // between two calls of KeepLeases()
  std::unique_ptr<Timer> timer_;
};

}  // namespace penstock::simulation
