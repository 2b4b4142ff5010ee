#include "simulation.h"

#include <algorithm>
#include <utility>

#include "fs/memory/change.h"
#include "nfs/exports.h"
#include "nfs/file_handle.h"
#include "nfs/v3/program.h"
#include "nfs3_worker.h"
#include "nfs4_service.h"
#include "nfs4_worker.h"
#include "rdma/trace/provider.h"

namespace penstock::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr uint16_t kPort = 20049;
constexpr uint64_t kManyEvents = 3'000'000;

rpc::Message MakeProbe(BufferPool& buffers, rpc::Xid xid) {
  using Null = nfs3::NFSPROC3_NULL;
  xdr::Encoder encoder(buffers);
  rpc::EncodeCallHeader(encoder, {xid, Null::kProgram, Null::kVersion, Null::kNumber, {}, {}});
  return encoder.Finish();
}

// Runs a task that never waits: everything of fs::memory.
template <class T>
T Now(Task<T> task) {
  std::optional<T> result;
  Spawn([](Task<T> inner, std::optional<T>& to) -> Task<> { to.emplace(co_await std::move(inner)); }(std::move(task),
                                                                                                     result));
  assert(result);
  return std::move(*result);
}

}  // namespace

class Simulation::ServerSide {
 public:
  ServerSide(Simulation& simulation, const rpcrdma::ServerOptions& options, rdma::trace::File* capture)
      : world_(simulation.world_),
        provider_(MakeProvider(simulation, capture)),
        server_(*provider_, world_, dispatcher_, options) {
    const auto added = exports_.Add("/", files_, {.squash = nfs::Squash::kNone});
    assert(added);
    const bool sessions = simulation.schedule_.sessions;
    if (sessions) nfs4_.emplace(world_, exports_);
    rpc::Program& program = sessions ? nfs4_->program() : nfs3_;
    program_.emplace(program, sessions, world_, simulation.findings_, simulation.schedule_.max_service);
    dispatcher_.Add(*program_);
    auto listener = provider_->Listen({asio::ip::address_v4::any(), kPort});
    assert(listener);
    address_ = (*listener)->local();
    server_.Start(*std::move(listener));
  }

  nfs::FileHandle root() const { return exports_.Resolve("/").found->root(); }
  const rdma::Address& address() const { return address_; }
  SlowProgram& program() { return *program_; }
  // Null where version 3 is spoken.
  Nfs4Service* nfs4() { return nfs4_ ? &*nfs4_ : nullptr; }
  fs::memory::FileSystem& files() { return *files_; }
  rpcrdma::Server& server() { return server_; }
  rdma::Provider& provider() { return *provider_; }
  // After the last call.
  void ForgetReplies() { cache_.reset(); }

 private:
  static std::unique_ptr<rdma::Provider> MakeProvider(Simulation& simulation, rdma::trace::File* capture) {
    std::unique_ptr<rdma::Provider> provider = simulation.network_.MakeProvider();
    if (capture) provider = std::make_unique<rdma::trace::Provider>(std::move(provider), *capture, simulation.world_);
    return provider;
  }

  rdma::sim::World& world_;
  int64_t ticks_ = 1'000'000;
  std::unique_ptr<rdma::Provider> provider_;
  std::shared_ptr<fs::memory::FileSystem> files_ = std::make_shared<fs::memory::FileSystem>(
      fs::memory::Options{.clock = [this] { return fs::Timestamp{++ticks_, 0}; }});
  nfs::Exports exports_;
  nfs::v3::Program nfs3_{exports_, {.max_read = 1 << 16, .max_write = 1 << 16, .max_directory = 1 << 16}};
  std::optional<Nfs4Service> nfs4_;
  std::optional<SlowProgram> program_;
  std::optional<rpc::ReplyCache> cache_{std::in_place, rpc::ReplyCache::Limits{.entries = 4096}};
  rpc::Dispatcher dispatcher_{*cache_, world_};
  rdma::Address address_;
  rpcrdma::Server server_;
};

struct Simulation::Client {
  const ClientPlan& plan;
  std::unique_ptr<rdma::Provider> provider;
  std::unique_ptr<client::ReconnectingChannel> channel{};
  std::unique_ptr<rpc::Client> calls{};
  std::unique_ptr<client::v4::Session> session{};  // where version 4.1 is spoken
  std::vector<std::unique_ptr<Worker>> workers{};
  rpcrdma::Client* connection = nullptr;  // the last that was made, while it is there
  uint32_t most_requested = 0;
};

// A connection that its Client can look at. When it goes we ask why.
class Simulation::TrackedChannel final : public rpc::Channel {
 public:
  TrackedChannel(Simulation& simulation, Client& client, std::unique_ptr<rpcrdma::Client> connection)
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
  Client& client_;
  std::unique_ptr<rpcrdma::Client> connection_;
};

Simulation::Simulation(const Schedule& schedule, uint64_t seed, bool tracing, rdma::trace::File* capture)
    : schedule_(schedule),
      world_(seed),
      findings_(world_),
      network_(world_, schedule.network),
      meddlings_left_(schedule.meddlings),
      most_granted_(schedule.server.responder.credits) {
  world_.set_tracing(tracing);
  server_ = std::make_unique<ServerSide>(*this, schedule.server, capture);
  for (const ClientPlan& plan : schedule.clients) {
    auto& client = *clients_.emplace_back(std::make_unique<Client>(plan, network_.MakeProvider()));
    client.most_requested = plan.options.requester.credits;
    client.channel =
        std::make_unique<client::ReconnectingChannel>(world_, [this, &client] { return Open(client); }, schedule.retry);
    client.calls = std::make_unique<rpc::Client>(
        *client.channel, client.provider->buffers(), rpc::Xid(static_cast<uint32_t>(world_.random().Next())),
        rpc::ClientCredential({.machine = "sim", .uid = 0, .gid = 0, .groups = {}}));
    if (schedule.sessions) {
      client.session = std::make_unique<client::v4::Session>(
          world_, *client.calls,
          client::v4::CallerOptions{.owner = fmt::format("client{}", clients_.size()), .slots = plan.slots});
    }
    for (unsigned i = 0; i < plan.workers; ++i) client.workers.push_back(MakeWorker(client, i));
  }
}

std::unique_ptr<Worker> Simulation::MakeWorker(Client& client, unsigned number) {
  const Worker::Facts facts{.directory = fmt::format("worker{}.{}", clients_.size(), number),
                            .max_payload = schedule_.max_payload,
                            .may_be_refused = schedule_.refuse_after > 0};
  const nfs::FileHandle root = server_->root();
  if (!client.session) {
    const nfs3::nfs_fh3 handle{.data = xdr::Opaque<64>(nfs::EncodedHandle(root).bytes())};
    return std::make_unique<Nfs3Worker>(world_, findings_, facts, *client.calls, handle);
  }
  const fs::Context context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  fs::NewAttributes attributes;
  attributes.mode = 0755;
  auto made = Now(server_->files().MakeDirectory(context, root.object, facts.directory, attributes));
  assert(made.result);
  const nfs::FileHandle directory{root.export_id, made.result->handle};
  return std::make_unique<Nfs4Worker>(world_, findings_, facts, *client.session,
                                      nfs4::nfs_fh4(nfs::EncodedHandle(directory).bytes()));
}

Simulation::~Simulation() = default;

Totals Simulation::totals() const {
  Totals totals{.events = world_.events_run(),
                .connections = network_.stats().connections,
                .refusals = refusals_,
                .network = network_.stats()};
  for (const auto& client : clients_) {
    for (const auto& worker : client->workers) totals.calls += worker->calls();
  }
  return totals;
}

Task<Result<std::unique_ptr<rpc::Channel>, std::string>> Simulation::Open(Client& client) {
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
    // The channel's own code may be below us still.
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
  // Coroutines that wait for ever would not survive what follows.
  if (!ended)
    findings_.Add("calls without an end: {}", world_.events_pending() ? "they go on and on" : "nothing happens");
  if (!findings_.empty()) return;
  faults_over_ = true;
  network_.faults() = {};
  if (schedule_.sessions) EndSessions();
  if (!findings_.empty()) return;
  CheckQuiet();
  CheckFiles();
  Close();
}

Task<void> Simulation::Use(Client& client) {
  while (findings_.empty()) {
    auto connected = co_await client.channel->Connect();
    if (connected) break;
    co_await Sleep(world_, milliseconds(1));
  }
  while (client.session && findings_.empty()) {
    if (co_await client.session->Establish("a session")) break;
  }
  unsigned workers = 0;
  for (const auto& each : clients_) workers += each->plan.workers;
  for (auto& worker : client.workers) Spawn(worker->Run(schedule_.calls / workers + 1));
}

bool Simulation::working() const {
  return std::ranges::any_of(clients_, [](const auto& client) {
    return std::ranges::any_of(client->workers, [](const auto& worker) { return !worker->done(); });
  });
}

// ---- what goes wrong ----

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
  Client& client = *clients_[random.Below(clients_.size())];
  switch (random.Below(8)) {
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
      return server_->server().SetCredits(credits);
    }
    default: {
      if (!schedule_.changes_credits || !client.connection || client.connection->lost()) break;
      const auto credits = static_cast<uint32_t>(random.Between(1, 12));
      world_.Trace("meddling: {} credits at a client", credits);
      client.most_requested = std::max(client.most_requested, credits);
      return client.connection->requester().set_credits(credits);
    }
  }
}

// ---- what must hold ----

void Simulation::CheckStep() {
  for (const std::string& violation : network_.violations()) findings_.Add("the interface was misused: {}", violation);
  CheckRefusals();
  CheckCredits();
}

// The network refuses what reaches for memory that is not registered, a Send that finds no receive, an invalidation of what
// is not valid: nothing of that happens, but what the schedule makes happen.
void Simulation::CheckRefusals() {
  std::optional<uint64_t>& planned = network_.faults().refuse_at;
  if (planned && network_.accesses() >= *planned) {
    ++refusals_;
    *planned = network_.accesses() + 1 + world_.random().Below(2 * schedule_.refuse_after);
  }
  if (network_.stats().refused_accesses != refusals_) {
    findings_.Add("{} accesses were refused, not {}", network_.stats().refused_accesses, refusals_);
  }
  // RFC 8166 §4.4.1
  if (network_.stats().unfenced_regions > 0) findings_.Add("memory was given back that the peer could still reach");
}

void Simulation::CheckCredits() {
  for (const auto& client : clients_) {
    if (!client->connection || client->connection->lost()) continue;
    const rpcrdma::RequesterCredits& credits = client->connection->requester().credits();
    if (credits.in_flight() > std::min(client->most_requested, most_granted_)) {
      findings_.Add("{} calls under way, of {} asked for and {} granted", credits.in_flight(), client->most_requested,
                    most_granted_);
    }
  }
}

// Nobody waits for anything: what was taken for calls has been given back.
void Simulation::CheckQuiet() {
  for (const auto& client : clients_) {
    if (!client->connection || client->connection->lost()) continue;
    const uint32_t probes = client->plan.probes ? 1 : 0;
    const uint32_t in_flight = client->connection->requester().credits().in_flight();
    if (in_flight > probes) findings_.Add("{} credits are lost", in_flight - probes);
    const size_t regions = network_.Inspect(client->connection->endpoint()).valid_regions;
    if (regions > 0) findings_.Add("{} regions of memory are still registered", regions);
  }
}

void Simulation::CheckEnd(const rpcrdma::Client& connection) {
  if (!connection.lost()) return;
  const std::string& why = connection.end();
  world_.Trace("a connection has ended: {}", why);
  if (why.contains("the network has lost")) return;
  if (refusals_ > 0 && why.contains("may not reach its memory")) return;
  if (has_hung_ && why == "the peer does not answer") return;
  findings_.Add("a connection has ended without a fault: {}", why);
}

void Simulation::CheckFiles() {
  const fs::Context context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  fs::memory::FileSystem& files = server_->files();
  for (const auto& client : clients_) {
    for (const auto& worker : client->workers) {
      auto directory = Now(files.Lookup(context, files.Root(), worker->name()));
      if (!directory.result) {
        findings_.Add("{} is not there", worker->name());
        continue;
      }
      for (const auto& [name, entry] : worker->entries()) {
        auto found = Now(files.Lookup(context, directory.result->handle, name));
        if (!found.result) {
          findings_.Add("{}/{} is not there", worker->name(), name);
        } else if (entry.symlink) {
          auto target = Now(files.ReadLink(context, found.result->handle));
          if (!target.result || *target.result != entry.content)
            findings_.Add("{}/{} is another link", worker->name(), name);
        } else {
          auto read = Now(files.Read(context, found.result->handle, 0, 1 << 24));
          if (!read.result || AsText(read.result->data.bytes()) != entry.content) {
            findings_.Add("{}/{} has other octets than were written", worker->name(), name);
          }
        }
      }
    }
  }
}

// They may still be binding a connection: nobody waits for that. A slot that were in use at either side would be in the way.
void Simulation::EndSessions() {
  size_t open = clients_.size();
  for (const auto& client : clients_) {
    Spawn([](client::v4::Session& session, size_t& left) -> Task<> {
      co_await session.Close();
      --left;
    }(*client->session, open));
  }
  if (!world_.RunUntil([this, &open] { return CheckStep(), open == 0; }, kManyEvents)) {
    return findings_.Add("{} sessions do not end", open);
  }
  for (const auto& client : clients_) {
    if (!client->session->slots().idle()) findings_.Add("{} slots are lost", client->session->slots().in_use());
  }
  Nfs4Service& server = *server_->nfs4();
  if (server.sessions() + server.clients() > 0) {
    findings_.Add("the server knows {} sessions of {} clients that have gone", server.sessions(), server.clients());
  }
}

// Ends everything; nothing may be left over.
void Simulation::Close() {
  world_.Trace("the end");
  for (auto& client : clients_) client->channel.reset();
  bool stopped = false;
  Spawn([](rpcrdma::Server& server, bool& done) -> Task<> {
    co_await server.Stop(std::chrono::seconds(1));
    done = true;
  }(server_->server(), stopped));
  if (!world_.RunUntil([this, &stopped] { return CheckStep(), stopped; }, kManyEvents)) {
    return findings_.Add("the server does not stop: {} connections, {} calls", server_->server().connections(),
                         server_->program().running());
  }
  if (!world_.Run(kManyEvents)) return findings_.Add("events without an end");
  CheckStep();
  if (server_->program().running() > 0)
    return findings_.Add("{} calls are still executed", server_->program().running());
  for (auto& client : clients_) {
    if (const size_t left = client->provider->buffers().outstanding())
      findings_.Add("{} buffers left at a client", left);
  }
  server_->ForgetReplies();
  if (const size_t left = server_->provider().buffers().outstanding())
    findings_.Add("{} buffers left at the server", left);
  server_.reset();
  if (const size_t left = fs::memory::ThreadBuffers().outstanding()) findings_.Add("{} buffers of files left", left);
}

}  // namespace penstock::simulation
