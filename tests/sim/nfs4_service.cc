#include "nfs4_service.h"

#include <cassert>

#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/operations/lease.h"

namespace penstock::simulation {
namespace {

// Lends the store that all runs share to one run, which owns a RecoveryStore of its own.
class SharedStore final : public nfs::v4::RecoveryStore {
 public:
  explicit SharedStore(nfs::v4::RecoveryStore& store) : store_(store) {}
  SetupResult<Restart> Begin(Duration lease, std::chrono::sys_seconds wall_clock) override {
    return store_.Begin(lease, wall_clock);
  }
  bool Record(const nfs::v4::RecoveryRecord& client) override { return store_.Record(client); }
  bool Remove(const std::string& owner) override { return store_.Remove(owner); }
  bool EndGrace() override { return store_.EndGrace(); }

 private:
  nfs::v4::RecoveryStore& store_;
};

std::shared_ptr<const nfs::v4::Namespace> MakeNames(const nfs::Exports& exports) {
  auto names = nfs::v4::Namespace::Make(exports, {1000, 0});
  assert(names);
  return *std::move(names);
}

}  // namespace

Nfs4Service::Nfs4Service(rdma::sim::World& world, const nfs::Exports& exports, Nfs4Memory& memory,
                         const Schedule& schedule, BufferPool& buffers, std::function<bool()> dies)
    : world_(world),
      memory_(memory),
      names_(MakeNames(exports)),
      settings_(SettingsOf(schedule)),
      streams_(memory.streams, std::move(dies)),
      recovery_(std::make_unique<SharedStore>(memory.clients)),
      sender_(state_, nullptr, world, buffers,
              [](const nfs::v4::CallbackAddress&) -> Task<std::shared_ptr<rpc::Channel>> { co_return nullptr; }, {}),
      callbacks_(schedule.bound ? static_cast<nfs::v4::Callbacks&>(sender_) : no_callbacks_),
      services_(MakeServices(schedule)),
      // Most schedules end within a second. Those with credit recalls must begin them earlier.
      interval_(schedule.bound && schedule.bound->kept_octets ? std::chrono::milliseconds(20)
                                                              : Duration(std::chrono::seconds(1))),
      timer_(world.MakeTimer([this] { KeepLeases(); })) {
  entropy = &world.random();
  state_.SendBy(callbacks_);
  timer_->ExpireAfter(interval_);
}

nfs::v4::Settings Nfs4Service::SettingsOf(const Schedule& schedule) {
  nfs::v4::Settings settings{.max_read = 1 << 16, .max_write = 1 << 16, .delegations = false};
  if (!schedule.bound) return settings;
  settings.bound_sessions = true;
  settings.delegations = schedule.bound->delegations;
  if (const auto& kept = schedule.bound->kept_octets) {
    settings.max_kept_octets = *kept;
    settings.max_slots = 4;  // the first recall then concerns clients with three streamids or more
  }
  settings.max_request = settings.max_response = 80 << 10;
  return settings;
}

nfs::v4::StateTables::Beginning Nfs4Service::BeginTables() {
  const auto restart = memory_.clients.Begin(settings_.lease, std::chrono::sys_seconds(std::chrono::seconds(1000)));
  assert(restart);
  const TimePoint now = world_.Now();
  return {.settings = settings_,
          .instance = restart->instance,
          .secret = SipKey{1, 2},
          .limits = {.lease = settings_.lease},
          .grace = nfs::v4::Grace(*restart, settings_.grace, now),
          .dead_sessions = nfs::v4::DeadSessions(memory_.replies.Load(), settings_.lease, now),
          .bound_sessions = streams_.Load(),
          .bound_dialect = &nfs::v4::DialectOfBoundSessions(),
          .now = now};
}

nfs::v4::Services Nfs4Service::MakeServices(const Schedule& schedule) {
  return {.names = names_,
          .settings = settings_,
          .owners = owners_,
          .state = state_,
          .callbacks = callbacks_,
          .recovery = recovery_,
          .clock = world_,
          .replies = schedule.persistent ? &replies_ : nullptr,
          .random = [] { return entropy->Next(); }};
}

void Nfs4Service::KeepLeases() {
  Spawn(nfs::v4::KeepLeases(services_, nullptr));
  timer_->ExpireAfter(interval_);
}

size_t Nfs4Service::CountForgottenReplies() {
  const auto ended = state_.Run(
      [&](nfs::v4::StateTables& state) { return state.sessions.TakeEnded(world_.Now() + 2 * settings_.lease); });
  for (const auto& session : ended) session->Remove();
  const auto ended_bound =
      state_.Run([](nfs::v4::StateTables& state) { return state.bound_sessions.TakeEndedStorage(); });
  for (const auto& session : ended_bound) session->Remove(true);
  return memory_.replies.Load().size() + memory_.streams.Load().size();
}

}  // namespace penstock::simulation
