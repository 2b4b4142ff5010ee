#include "simulation.h"

#include <algorithm>
#include <utility>

#include "at_once.h"
#include "base/log.h"
#include "nfs/file_handle.h"
#include "nfs3_worker.h"
#include "nfs4_locker.h"
#include "nfs4_sharer.h"
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
  server_ = std::make_unique<ServerSide>(ServerSide::Surroundings{.schedule = schedule,
                                                                  .world = world_,
                                                                  .network = network_,
                                                                  .findings = findings_,
                                                                  .capture = capture,
                                                                  .dies = [this] { return Dies(); }});
  locked_files_ = MakeSharedFiles("locked", kLockedFiles);
  if (schedule.bound) shared_files_ = MakeSharedFiles("shared", kSharedFiles);
  for (const ClientPlan& plan : schedule.clients) AddClient(plan);
}

void Simulation::AddClient(const ClientPlan& plan) {
  ClientSide& client = *clients_.emplace_back(std::make_unique<ClientSide>(plan, network_.MakeProvider()));
  client.most_requested = plan.options.requester.credits;
  client.channel = std::make_unique<client::ReconnectingChannel>(
      world_,
      [this, &client](Duration time_limit) {
        return client.session04 ? client.session04->first().Open(time_limit) : Open(client);
      },
      schedule_.retry);
  const rpc::Xid first_xid(static_cast<uint32_t>(world_.random().Next()));
  const rpc::ClientCredential credential({.machine = "sim", .uid = 0, .gid = 0, .groups = {}});
  client.calls = std::make_unique<rpc::Client>(*client.channel, client.provider->buffers(), first_xid, credential);
  const std::string owner = fmt::format("client{}", clients_.size());
  if (schedule_.bound) {
    MakeBound(client);
    auto session = client.bound->MakeSession(*client.channel, *client.calls, first_xid, credential, owner);
    client.session04 = session.get();
    client.session = std::move(session);
  } else if (schedule_.sessions) {
    auto session = std::make_unique<client::v4::Session>(
        world_, *client.calls, client::v4::CallerOptions{.owner = owner, .slots = plan.slots});
    client.session41 = session.get();
    client.session = std::move(session);
  }
  if (client.session) client.session->set_reclaim([&client] { return Reclaim(client); });
  for (unsigned i = 0; i < plan.workers; ++i) client.workers.push_back(MakeWorker(client, i));
  AddLockers(client);
  AddSharers(client);
}

void Simulation::MakeBound(ClientSide& client) {
  client.bound = std::make_unique<BoundClient>(
      BoundClient::Surroundings{.schedule = schedule_,
                                .plan = client.plan,
                                .network = network_,
                                .provider = *client.provider,
                                .rdma = server_->address(),
                                .tcp = server_->tcp_address(),
                                .options = [this, &client] { return OptionsOf(client); },
                                .before_open = [this, &client] { return BeforeOpen(client); },
                                .on_end = [this](const rpcrdma::Client& connection) { CheckEnd(connection); },
                                .may_lose = [this] { return schedule_.has_faults && !faults_over_; }});
}

Worker::Facts Simulation::MakeFacts(ClientSide& client, std::string name) const {
  return {.directory = std::move(name),
          .max_payload = schedule_.max_payload,
          .may_be_refused = schedule_.refuse_after > 0,
          .disk_fails = schedule_.disk_fails > 0,
          .longest_execution = schedule_.longest_execution(),
          .may_be_silent = schedule_.silences,
          .forgotten = &client.forgotten,
          .replies_are_kept = !schedule_.bound || client.plan.session.persist,
          .fate_may_be_unknown = schedule_.fate_may_be_unknown(),
          .splits = schedule_.bound && client.plan.session.chain,
          .may_be_cut = schedule_.bound && client.plan.session.chain && schedule_.has_faults,
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
  return std::make_unique<Nfs4Worker>(world_, findings_, facts, client.use(),
                                      nfs4::nfs_fh4(nfs::EncodedHandle(MakeDirectory(facts.directory)).bytes()));
}

std::vector<std::pair<std::string, nfs4::nfs_fh4>> Simulation::MakeSharedFiles(const std::string& name, size_t count) {
  std::vector<std::pair<std::string, nfs4::nfs_fh4>> files;
  const nfs::FileHandle root = server_->root();
  for (size_t i = 0; i < count; ++i) {
    const std::string numbered = fmt::format("{}{}", name, i);
    fs::CreateHow how;
    how.mode = fs::CreateMode::kGuarded;
    auto made = AtOnce(server_->files().Create(AsRoot(), root.object, numbered, how));
    assert(made.result);
    const nfs::FileHandle file{root.export_id, made.result->handle};
    files.emplace_back(numbered, nfs4::nfs_fh4(nfs::EncodedHandle(file).bytes()));
  }
  return files;
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
    client.workers.push_back(std::make_unique<Nfs4Locker>(world_, findings_, facts, client.use(), std::move(locks)));
  }
}

void Simulation::AddSharers(ClientSide& client) {
  for (unsigned i = 0; i < client.plan.sharers; ++i) {
    const Worker::Facts facts = MakeFacts(client, fmt::format("sharer{}.{}", clients_.size(), i));
    MakeDirectory(facts.directory);
    Nfs4Sharer::Shares shares{.book = shares_,
                              .directory = nfs4::nfs_fh4(nfs::EncodedHandle(server_->root()).bytes()),
                              .files = shared_files_,
                              .keeps = [this, &client] { return client.Keeps(server_->restarts(), world_.Now()); },
                              .unit = sharers_++};
    client.workers.push_back(
        std::make_unique<Nfs4Sharer>(world_, findings_, facts, client.use(), std::move(shares), *client.bound));
  }
}

Simulation::~Simulation() {
  if (traces_log_) log::SetSink({});
}

void Simulation::TraceLog() {
  traces_log_ = true;
  log::SetSink([this](const log::Record& record) { world_.Trace("log: {}", record.message); }, log::Level::kDebug);
}

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

rpcrdma::ClientOptions Simulation::OptionsOf(ClientSide& client) {
  rpcrdma::ClientOptions options = client.plan.options;
  if (client.plan.probes) {
    options.requester.health = {.probe = MakeProbe, .after = milliseconds(100), .limit = milliseconds(100)};
  }
  return options;
}

Task<void> Simulation::BeforeOpen(ClientSide& client) {
  if (world_.Now() < client.silent_until) co_await Silence(client);
  // Requests without a reply are executed again over the next connection.
  if (schedule_.bound && !client.plan.session.persist) ++client.forgotten;
}

Task<SetupResult<std::unique_ptr<rpc::Channel>>> Simulation::Open(ClientSide& client) {
  co_await BeforeOpen(client);
  rpcrdma::ClientOptions options = OptionsOf(client);
  client.most_requested = std::max(client.most_requested, options.requester.credits);
  auto connected = co_await rpcrdma::Connect(*client.provider, server_->address(), std::move(options), world_);
  if (!connected) co_return std::unexpected(SetupError{connected.error().detail, EHOSTUNREACH});
  auto channel = std::make_unique<TrackedChannel>(*this, client, *std::move(connected));
  if (client.session41 && client.session41->lease().ready()) {
    rpc::Client calls(*channel, client.provider->buffers(), rpc::Xid(static_cast<uint32_t>(world_.random().Next())));
    co_await client.session41->Bind(calls);
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
    const auto established = co_await client.session->Establish("a session");
    if (established) break;
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

}  // namespace penstock::simulation
