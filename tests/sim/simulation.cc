#include "simulation.h"

#include <algorithm>
#include <utility>

#include "at_once.h"
#include "nfs/file_handle.h"
#include "nfs3_worker.h"
#include "nfs4_locker.h"
#include "nfs4_worker.h"

namespace penstock::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

rpc::Message MakeProbe(BufferPool& buffers, rpc::Xid xid) {
  using Null = nfs3::NFSPROC3_NULL;
  xdr::Encoder encoder(buffers);
  rpc::EncodeCallHeader(encoder, {xid, Null::kProgram, Null::kVersion, Null::kNumber, {}, {}});
  return encoder.Finish();
}

}  // namespace

// A channel that makes its connection visible in ClientSide::connection. Its destructor checks the reason for the
// connection's end.
class Simulation::TrackedChannel final : public rpc::Channel {
 public:
  TrackedChannel(Simulation& simulation, ClientSide& client, std::unique_ptr<rpcrdma::Client> connection)
      : simulation_(simulation), client_(client), connection_(std::move(connection)) {
    client_.connection = connection_.get();
  }
  ~TrackedChannel() override {
    simulation_.CheckEnd(*connection_);
    if (client_.connection == connection_.get()) client_.connection = nullptr;
  }
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    return connection_->Call(std::move(call), std::move(shape));
  }

 private:
  Simulation& simulation_;
  ClientSide& client_;
  std::unique_ptr<rpcrdma::Client> connection_;
};

Simulation::Simulation(const Schedule& schedule, uint64_t seed, bool tracing, rdma::trace::File* capture)
    : schedule_(schedule),
      world_(seed),
      findings_(world_),
      network_(world_, schedule.network),
      meddlings_left_(schedule.meddlings),
      restarts_left_(schedule.restarts),
      most_granted_(schedule.server.responder.credits) {
  world_.set_tracing(tracing);
  server_ = std::make_unique<ServerSide>(ServerSide::Surroundings{
      .schedule = schedule, .world = world_, .network = network_, .findings = findings_, .capture = capture});
  MakeLockedFiles();
  for (const ClientPlan& plan : schedule.clients) AddClient(plan);
}

void Simulation::AddClient(const ClientPlan& plan) {
  ClientSide& client = *clients_.emplace_back(std::make_unique<ClientSide>(plan, network_.MakeProvider()));
  client.most_requested = plan.options.requester.credits;
  client.channel = std::make_unique<client::ReconnectingChannel>(
      world_, [this, &client](Duration) { return Open(client); }, schedule_.retry);
  client.calls = std::make_unique<rpc::Client>(
      *client.channel, client.provider->buffers(), rpc::Xid(static_cast<uint32_t>(world_.random().Next())),
      rpc::ClientCredential({.machine = "sim", .uid = 0, .gid = 0, .groups = {}}));
  if (schedule_.sessions) {
    client.session = std::make_unique<client::v4::Session>(
        world_, *client.calls,
        client::v4::CallerOptions{.owner = fmt::format("client{}", clients_.size()), .slots = plan.slots});
    client.session->set_reclaim([&client] { return Reclaim(client); });
  }
  for (unsigned i = 0; i < plan.workers; ++i) client.workers.push_back(MakeWorker(client, i));
  AddLockers(client);
}

Worker::Facts Simulation::MakeFacts(ClientSide& client, std::string name) const {
  return {.directory = std::move(name),
          .max_payload = schedule_.max_payload,
          .may_be_refused = schedule_.refuse_after > 0,
          .disk_fails = schedule_.disk_fails > 0,
          .longest_execution = schedule_.longest_execution(),
          .may_be_silent = schedule_.silences,
          .forgotten = &client.forgotten,
          .renewed = &client.renewed};
}

nfs::FileHandle Simulation::MakeDirectory(const std::string& name) {
  const nfs::FileHandle root = server_->root();
  fs::NewAttributes attributes;
  attributes.mode = 0755;
  auto made = AtOnce(server_->files().MakeDirectory(AsRoot(), root.object, name, attributes));
  assert(made.result);
  return {root.export_id, made.result->handle};
}

std::unique_ptr<Worker> Simulation::MakeWorker(ClientSide& client, unsigned number) {
  const Worker::Facts facts = MakeFacts(client, fmt::format("worker{}.{}", clients_.size(), number));
  if (!client.session) {
    const nfs3::nfs_fh3 handle{.data = xdr::Opaque<64>(nfs::EncodedHandle(server_->root()).bytes())};
    return std::make_unique<Nfs3Worker>(world_, findings_, facts, *client.calls, handle);
  }
  return std::make_unique<Nfs4Worker>(world_, findings_, facts, *client.session,
                                      nfs4::nfs_fh4(nfs::EncodedHandle(MakeDirectory(facts.directory)).bytes()));
}

void Simulation::MakeLockedFiles() {
  const nfs::FileHandle root = server_->root();
  for (size_t i = 0; i < kLockedFiles; ++i) {
    const std::string name = fmt::format("locked{}", i);
    fs::CreateHow how;
    how.mode = fs::CreateMode::kGuarded;
    auto made = AtOnce(server_->files().Create(AsRoot(), root.object, name, how));
    assert(made.result);
    const nfs::FileHandle file{root.export_id, made.result->handle};
    locked_files_.emplace_back(name, nfs4::nfs_fh4(nfs::EncodedHandle(file).bytes()));
  }
}

void Simulation::AddLockers(ClientSide& client) {
  for (unsigned i = 0; i < client.plan.lockers; ++i) {
    const Worker::Facts facts = MakeFacts(client, fmt::format("locker{}.{}", clients_.size(), i));
    MakeDirectory(facts.directory);
    Nfs4Locker::Locks locks{.book = locks_,
                            .directory = nfs4::nfs_fh4(nfs::EncodedHandle(server_->root()).bytes()),
                            .files = locked_files_,
                            .keeps = [this, &client] { return client.Keeps(server_->restarts(), world_.Now()); },
                            .any_client_is_silent = [this] { return any_client_is_silent(); }};
    client.workers.push_back(std::make_unique<Nfs4Locker>(world_, findings_, facts, *client.session, std::move(locks)));
  }
}

Simulation::~Simulation() = default;

Totals Simulation::totals() const {
  Totals totals{.events = world_.events_run(),
                .connections = network_.stats().connections,
                .refusals = refusals_,
                .restarts = schedule_.restarts - restarts_left_,
                .network = network_.stats()};
  for (const auto& client : clients_) {
    for (const auto& worker : client->workers) totals.calls += worker->calls();
  }
  return totals;
}

Task<Result<std::unique_ptr<rpc::Channel>, std::string>> Simulation::Open(ClientSide& client) {
  if (world_.Now() < client.silent_until) co_await Silence(client);
  rpcrdma::ClientOptions options = client.plan.options;
  if (client.plan.probes) {
    options.requester.health = {.probe = MakeProbe, .after = milliseconds(100), .limit = milliseconds(100)};
  }
  client.most_requested = std::max(client.most_requested, options.requester.credits);
  auto connected = co_await rpcrdma::Connect(*client.provider, server_->address(), std::move(options), world_);
  if (!connected) co_return std::unexpected(connected.error().detail);
  auto channel = std::make_unique<TrackedChannel>(*this, client, *std::move(connected));
  if (client.session && client.session->lease().ready()) {
    rpc::Client calls(*channel, client.provider->buffers(), rpc::Xid(static_cast<uint32_t>(world_.random().Next())));
    co_await client.session->Bind(calls);
    // Return from a fresh event: the code of the channel that called Open may still be on the stack.
    co_await Sleep(world_, Duration::zero());
  }
  co_return channel;
}

void Simulation::Run() {
  for (auto& client : clients_) Spawn(Use(*client));
  network_.faults().lose = schedule_.lose;
  if (schedule_.refuse_after > 0) network_.faults().refuse_at = schedule_.refuse_after;
  MeddleLater();
  const bool ended = world_.RunUntil(
      [this] {
        CheckStep();
        return !findings_.empty() || !working();
      },
      kManyEvents);
  // The steps below would destroy coroutines that still wait, so stop here after an error.
  if (!ended)
    findings_.Add("calls do not end: {}", world_.events_pending() ? "too many events" : "no event is pending");
  if (!findings_.empty()) return;
  faults_over_ = true;
  network_.faults() = {};
  if (schedule_.sessions) EndSessions();
  if (!findings_.empty()) return;
  CheckQuiet();
  CheckFiles();
  Close();
}

Task<void> Simulation::Use(ClientSide& client) {
  while (findings_.empty()) {
    auto connected = co_await client.channel->Connect();
    if (connected) break;
    co_await Sleep(world_, milliseconds(1));
  }
  while (client.session && findings_.empty()) {
    if (co_await client.session->Establish("a session")) break;
  }
  if (client.session) client.session->set_lease_time(nfs::v4::Settings().lease);
  for (size_t i = 0; i < client.workers.size(); ++i) {
    const bool locks = i >= client.plan.workers;
    Spawn(client.workers[i]->Run(locks ? schedule_.calls : schedule_.calls / schedule_.workers() + 1));
  }
}

Task<void> Simulation::Reclaim(ClientSide& client) {
  for (auto& worker : client.workers) co_await worker->Reclaim();
}

// Waits for the end of the client's silence. If its lease expired meanwhile, tells its workers.
Task<void> Simulation::Silence(ClientSide& client) {
  co_await Sleep(world_, client.silent_until - world_.Now());
  if (client.Keeps(server_->restarts(), world_.Now())) co_return;
  world_.Trace("a client comes back after its lease has expired");
  ++client.forgotten;
  for (auto& worker : client.workers) worker->HandleLeaseOver();
}

bool Simulation::working() const {
  return std::ranges::any_of(clients_, [](const auto& client) {
    return std::ranges::any_of(client->workers, [](const auto& worker) { return !worker->done(); });
  });
}

// ---- random faults ----

void Simulation::MeddleLater() {
  if (meddlings_left_ == 0) {
    faults_over_ = true;
    network_.faults() = {};
    return;
  }
  --meddlings_left_;
  world_.Schedule(microseconds(50) + world_.random().UpTo(milliseconds(5)), [this] {
    if (faults_over_) return;
    Meddle();
    MeddleLater();
  });
}

void Simulation::Meddle() {
  rdma::sim::Random& random = world_.random();
  ClientSide& client = *clients_[random.Below(clients_.size())];
  switch (random.Below(schedule_.sessions ? 11 : 8)) {
    case 0:
      if (!schedule_.loses_all) break;
      world_.Trace("meddling: all connections are lost");
      return network_.LoseAll();
    case 1:
      if (!schedule_.loses_all || !client.connection || client.connection->lost()) break;
      world_.Trace("meddling: a connection is lost");
      return network_.Lose(client.connection->endpoint());
    case 2:
      if (!schedule_.hangs) break;
      world_.Trace("meddling: the server hangs");
      has_hung_ = true;
      return server_->program().HangFor(random.UpTo(milliseconds(500)));
    case 3: {
      if (!schedule_.refuses_connections) break;
      using Kind = rdma::ConnectError::Kind;
      constexpr Kind kKinds[] = {Kind::kUnreachable, Kind::kRefused, Kind::kRejected, Kind::kTimedOut};
      network_.faults().connects.push_back(kKinds[random.Below(4)]);
      return;
    }
    case 4:
    case 5: {
      if (!schedule_.changes_credits) break;
      const auto credits = static_cast<uint32_t>(random.Between(1, 12));
      world_.Trace("meddling: {} credits at the server", credits);
      most_granted_ = std::max(most_granted_, credits);
      return server_->SetCredits(credits);
    }
    case 8:
    case 9:
      return Restart();
    case 10:
      if (schedule_.silences) BeSilent(client, seconds(200));
      return;
    default: {
      if (!schedule_.changes_credits || !client.connection || client.connection->lost()) break;
      const auto credits = static_cast<uint32_t>(random.Between(1, 12));
      world_.Trace("meddling: {} credits at a client", credits);
      client.most_requested = std::max(client.most_requested, credits);
      return client.connection->requester().set_credits(credits);
    }
  }
}

void Simulation::Restart() {
  if (restarts_left_ == 0 || !server_->running()) return;
  --restarts_left_;
  server_->Kill();
  if (!schedule_.persistent) {
    for (auto& client : clients_) ++client->forgotten;
  }
  // One client may come back later than the others, perhaps after the grace period.
  ClientSide& late = *clients_[world_.random().Below(clients_.size())];
  if (world_.random().Chance(0.5)) BeSilent(late, schedule_.silences ? seconds(200) : seconds(1));
  world_.Schedule(world_.random().UpTo(milliseconds(100)), [this] { server_->Start(); });
}

// Cuts the client off for a random time up to `at_most`. The lease lasts 90 seconds.
void Simulation::BeSilent(ClientSide& client, Duration at_most) {
  if (!client.session->lease().ready() || any_client_is_silent()) return;
  world_.Trace("meddling: a client is silent");
  client.silent_until = world_.Now() + world_.random().UpTo(at_most);
  if (client.connection && !client.connection->lost()) network_.Lose(client.connection->endpoint());
}

bool Simulation::any_client_is_silent() const {
  return std::ranges::any_of(clients_, [this](const auto& client) { return world_.Now() < client->silent_until; });
}

}  // namespace penstock::simulation
