#include "server_side.h"

#include <cassert>

#include "base/address.h"
#include "rdma/trace/provider.h"

namespace penstock::simulation {
namespace {

constexpr uint16_t kPort = 20049;

std::unique_ptr<rdma::Provider> MakeProvider(const ServerSide::Surroundings& surroundings) {
  std::unique_ptr<rdma::Provider> provider = surroundings.network.MakeProvider();
  if (!surroundings.capture) return provider;
  return std::make_unique<rdma::trace::Provider>(std::move(provider), *surroundings.capture, surroundings.world);
}

}  // namespace

ServerSide::ServerSide(const Surroundings& surroundings)
    : schedule_(surroundings.schedule),
      world_(surroundings.world),
      network_(surroundings.network),
      findings_(surroundings.findings),
      options_(schedule_.server),
      provider_(MakeProvider(surroundings)),
      served_files_(std::make_shared<fs::faulty::FileSystem>(
          files_, schedule_.FileFaults(),
          fs::faulty::Surroundings{.timers = &world_, .random = [this] { return world_.random().Next(); }})),
      address_{asio::ip::address_v4::any(), kPort} {
  const auto added = exports_.Add("/", served_files_, {.squash = nfs::Squash::kNone});
  assert(added);
  Start();
}

ServerSide::~ServerSide() = default;

void ServerSide::Start() {
  Run& run = *runs_.emplace_back(std::make_unique<Run>(*provider_, world_, options_));
  served_files_->AllowWaiting();
  const bool sessions = schedule_.sessions;
  if (sessions) run.nfs4.emplace(world_, exports_, *memory_, schedule_.persistent);
  rpc::Program& program = sessions ? run.nfs4->program() : nfs3_;
  run.program.emplace(program, sessions, world_, findings_, schedule_.max_service);
  run.dispatcher.Add(*run.program);
  if (!restarts_.empty()) {
    world_.Trace("the server starts again");
    restarts_.back().grace_ends = world_.Now() + run.nfs4->settings().grace;
  }
  auto listener = provider_->Listen(address_);
  assert(listener);
  address_ = (*listener)->local();
  run.server.Start(*std::move(listener));
}

void ServerSide::Kill() {
  world_.Trace("the server is killed");
  restarts_.push_back({world_.Now(), std::nullopt});
  Run& killed = run();
  killed.program->Kill();
  served_files_->ForbidWaiting();
  if (const char* wrong = killed.nfs4->FindInconsistency()) findings_.Add("the server's tables: {}", wrong);
  killed.nfs4->Stop();
  network_.LoseAll();
  Spawn(Stop(killed, Duration::zero()));
}

Task<void> ServerSide::Stop(Run& run, Duration drain_limit) {
  co_await run.server.Stop(drain_limit);
  run.stopped = true;
}

void ServerSide::SetCredits(uint32_t credits) {
  options_.responder.credits = credits;
  if (running()) run().server.SetCredits(credits);
}

Task<void> ServerSide::Stop() {
  if (run().nfs4) run().nfs4->Stop();
  co_await Stop(run(), std::chrono::seconds(1));
  for (const auto& each : runs_) {
    while (!each->stopped) co_await Sleep(world_, std::chrono::milliseconds(1));
  }
}

size_t ServerSide::calls() const {
  size_t calls = 0;
  for (const auto& each : runs_) calls += each->program->running();
  return calls;
}

void ServerSide::Forget() {
  runs_.clear();
  memory_.reset();
}

}  // namespace penstock::simulation
