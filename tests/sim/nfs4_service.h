// What a server of NFS version 4 is made of, in a simulation: its entropy is the world's, and nobody is called back.
#pragma once

#include <memory>

#include "findings.h"
#include "nfs/v4/attributes/owner_names.h"
#include "nfs/v4/callbacks.h"
#include "nfs/v4/namespace.h"
#include "nfs/v4/program.h"
#include "nfs/v4/state/recovery_queue.h"
#include "nfs/v4/state/state.h"

namespace penstock::simulation {

class Nfs4Service {
 public:
  Nfs4Service(rdma::sim::World& world, const nfs::Exports& exports) : world_(world) {
    entropy = &world.random();
    auto names = nfs::v4::Namespace::Make(exports, {1000, 0});
    assert(names);
    names_ = *std::move(names);
    program_.emplace(nfs::v4::Services{.names = *names_,
                                       .settings = settings_,
                                       .owners = owners_,
                                       .state = state_,
                                       .callbacks = callbacks_,
                                       .recovery = recovery_,
                                       .clock = world_,
                                       .random = [] { return entropy->Next(); }});
  }

  rpc::Program& program() { return *program_; }
  // Sessions and clients that are still known.
  size_t sessions() { return state_.Lock()->clients.session_count(); }
  size_t clients() { return state_.Lock()->clients.client_count(); }

 private:
  class NoCallbacks final : public nfs::v4::Callbacks {
    void Recall(nfs::v4::ClientId, const nfs4::stateid4&, const nfs::FileHandle&, bool) override {}
    Task<nfs::v4::HolderAttributes> GetAttributes(Loop*, nfs::v4::ClientId, const nfs::FileHandle&) override {
      co_return nfs::v4::HolderAttributes{};
    }
    void NotifyLock(nfs::v4::ClientId, const nfs::FileHandle&, ConstBytes) override {}
    void OffloadDone(nfs::v4::ClientId, const nfs::FileHandle&, const nfs4::stateid4&,
                     const nfs4::offload_info4&) override {}
  };

  // Services take a plain function. One simulation runs at a time.
  static inline rdma::sim::Random* entropy = nullptr;

  rdma::sim::World& world_;
  std::unique_ptr<const nfs::v4::Namespace> names_;
  const nfs::v4::Settings settings_{.max_read = 1 << 16, .max_write = 1 << 16, .delegations = false};
  nfs::v4::OwnerNames owners_;
  NoCallbacks callbacks_;
  nfs::v4::RecoveryQueue recovery_{std::make_unique<nfs::v4::MemoryRecoveryStore>()};
  nfs::v4::State state_{nfs::v4::StateTables{nfs::v4::Clients(settings_, 7),
                                             nfs::v4::Files(7, nfs::v4::Files::Limits{.lease = settings_.lease})}};
  std::optional<nfs::v4::Program> program_;
};

}  // namespace penstock::simulation
