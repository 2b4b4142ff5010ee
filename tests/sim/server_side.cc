#include "server_side.h"

#include <cassert>

#include "base/address.h"
#include "rdma/trace/provider.h"

namespace penstock::simulation {
namespace {

constexpr uint16_t kPort = 20049;
constexpr uint16_t kTcpPort = 2049;

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
      dies_(surroundings.dies),
      options_(schedule_.server),
      provider_(MakeProvider(surroundings)),
      served_files_(std::make_shared<fs::faulty::FileSystem>(
          files_, schedule_.FileFaults(),
          fs::faulty::Surroundings{.timers = &world_, .random = [this] { return world_.random().Next(); }})),
      address_{asio::ip::address_v4::any(), kPort},
      tcp_address_{asio::ip::address_v4::any(), kTcpPort} {
  options_.connections = std::make_shared<rpc::ConnectionTable>();
  options_.memory = std::make_shared<rpc::MemoryBudget>();
  const auto added = exports_.Add("/", served_files_, {.squash = nfs::Squash::kNone});
  assert(added);
  Start();
}

ServerSide::~ServerSide() = default;

void ServerSide::Start() {
  Run& run = *runs_.emplace_back(std::make_unique<Run>(world_, options_));
  served_files_->AllowWaiting();
  const bool sessions = schedule_.sessions;
  if (sessions) run.nfs4.emplace(world_, exports_, *memory_, schedule_, provider_->buffers(), dies_);
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
  if (schedule_.bound) StartStreams(run);
}

void ServerSide::StartStreams(Run& run) {
  StreamServer::Options options{.connections = options_.connections, .memory = options_.memory};
  if (schedule_.bound->steps_up) {
    options.step_up_limits = run.server.agreed_limits();
    options.step_up = [this, &run](rpc::SteppingConnection connection) {
      run.server.StepUp(*provider_, std::move(connection));
    };
  }
  run.streams.emplace(network_, provider_->buffers(), run.dispatcher, findings_, std::move(options));
  run.streams->Start(tcp_address_);
}

void ServerSide::Kill() {
  world_.Trace("the server is killed");
  restarts_.push_back({world_.Now(), std::nullopt});
  Run& killed = run();
  killed.program->Kill();
  served_files_->ForbidWaiting();
  if (const char* wrong = killed.nfs4->FindInconsistency()) findings_.Add("the server's tables: {}", wrong);
  killed.nfs4->Kill();
  network_.LoseAll();
  Spawn(Stop(killed, world_, Duration::zero()));
}

Task<void> ServerSide::Stop(Run& run, TimerService& world, Duration drain_limit) {
  // Both give up their listeners at once.
  bool streams_stopped = !run.streams;
  if (run.streams) {
    Spawn([](StreamServer& streams, bool& stopped) -> Task<> {
      co_await streams.Stop();
      stopped = true;
    }(*run.streams, streams_stopped));
  }
  co_await run.server.Stop(drain_limit);
  while (!streams_stopped || (run.nfs4 && run.nfs4->callbacks() > 0))
    co_await Sleep(world, std::chrono::milliseconds(1));
  run.stopped = true;
}

void ServerSide::SetCredits(uint32_t credits) {
  options_.responder.credits = credits;
  if (running()) run().server.SetCredits(credits);
}

Task<void> ServerSide::Stop() {
  if (run().nfs4) run().nfs4->Stop();
  co_await Stop(run(), world_, std::chrono::seconds(1));
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
