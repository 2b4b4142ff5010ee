#include "server/administration.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "nfs/v4/operations/lease.h"
#include "server/statistics.h"

namespace penstock::server {
namespace {

constexpr Duration kAskLimit = std::chrono::seconds(1);

}  // namespace

Administration::Status Administration::GetStatus() {
  LoopDelays delays = server_.DelaysOfLoops(kAskLimit);
  std::string not_ready = server_.WhyNotReady();
  const std::optional<size_t> hung = FirstHung(delays);
  if (not_ready.empty() && hung) not_ready = fmt::format("event loop {} does not answer", *hung);
  return {.not_ready = std::move(not_ready),
          .draining = server_.connections_->is_draining(),
          .in_grace = server_.nfs4_->InGrace(),
          .loop_delays = std::move(delays),
          .connections = server_.connections_->connections(),
          .most_connections = server_.connections_->limits().connections,
          .call_octets = server_.memory_->shared_octets(),
          .most_call_octets = server_.memory_->octets(),
          .nfs4 = server_.nfs4_->statistics(),
          .recording = server_.recording_->is_on()};
}

std::vector<rpc::ConnectionTable::Shown> Administration::Connections() const {
  return server_.connections_->List(server_.loops_.front()->loop().Now());
}

std::vector<nfs::v4::ShownClient> Administration::Clients() {
  return nfs::v4::ListClients(server_.nfs4_->services().state, home().Now());
}

std::vector<nfs::v4::ShownClient> Administration::ClientsWithCounts() {
  auto clients = Clients();
  nfs::v4::CountStates(server_.nfs4_->services().state, clients);
  return clients;
}

std::vector<nfs::v4::ShownSession> Administration::Sessions() {
  return nfs::v4::ListSessions(server_.nfs4_->services().state);
}

void Administration::VisitStates(const nfs::v4::StateFilter& filter,
                                 const std::function<bool(nfs::v4::ShownState)>& look) {
  nfs::v4::VisitStates(server_.nfs4_->services().state, home().Now(), filter, look);
}

Administration::FilePath Administration::PathOf(const nfs::FileHandle& file) const {
  const auto table = server_.exports_.Get();
  const nfs::Export* const found = table->Find(file.export_id);
  if (!found) return {.text = "(an export that has ended)", .is_known = false};
  const std::string below = found->file_system().PathOf(file.object);
  if (below.empty()) {
    return {.text = fmt::format("{} (a file whose name is not known)", found->path()),
            .is_known = false,
            .within = found->path()};
  }
  if (found->path() == "/") return {.text = below};
  return {.text = below == "/" ? found->path() : found->path() + below};
}

bool Administration::FilePath::MayBe(std::string_view path) const {
  if (is_known) return text == path;
  if (within.empty() || within == "/") return true;
  return path.starts_with(within) && (path.size() == within.size() || path[within.size()] == '/');
}

SetupResult<bool> Administration::Evict(nfs::v4::ClientId client) {
  if (nfs::v4::IsLockHost(client)) {
    const auto clients = Clients();
    const auto host = std::ranges::find(clients, client, &nfs::v4::ShownClient::id);
    if (host == clients.end()) return false;
    std::promise<void> ended;
    home().Post([&] {
      server_.locking_->EndHost({.address = *host->address, .name = host->owner});
      ended.set_value();
    });
    ended.get_future().wait();
    return true;
  }
  std::promise<bool> evicted;
  home().Post([&] {
    Spawn([](nfs::v4::Services services, Loop& loop, nfs::v4::ClientId id, std::promise<bool>& done) -> Task<> {
      const bool gone = co_await nfs::v4::EvictClient(services, &loop, id);
      done.set_value(gone);
    }(server_.nfs4_->services(), home(), client, evicted));
  });
  if (evicted.get_future().get()) return true;
  const bool there = server_.nfs4_->services().state.Run(
      [&](nfs::v4::StateTables& state) { return state.clients.Find(client) != nullptr; });
  if (!there) return false;
  return std::unexpected(
      SetupError{"the client's record cannot be removed from the state directory, so the client stays: see the log"});
}

bool Administration::Revoke(const nfs4::stateid4& id) {
  return server_.nfs4_->services().state.Run(
      [&](nfs::v4::StateTables& state) { return state.files.Revoke(id, home().Now()); });
}

void Administration::BeginGrace(Duration length) {
  server_.nfs4_->services().state.Run(
      [&](nfs::v4::StateTables& state) { state.clients.grace().Begin(home().Now() + length); });
}

bool Administration::EndGrace() {
  return server_.nfs4_->services().state.Run([](nfs::v4::StateTables& state) {
    nfs::v4::Grace& grace = state.clients.grace();
    if (grace.is_own()) grace.Hurry();
    return grace.is_own();
  });
}

SetupResult<void> Administration::StartRecording(const std::filesystem::path& path, std::optional<IpAddress> only) {
  if (server_.recording_->is_on()) return std::unexpected(SetupError{"a trace is being written already"});
  PENSTOCK_TRY(std::unique_ptr<rdma::trace::File> file,
               rdma::trace::File::Open(path, rdma::trace::File::RealEpoch(), {.only_new = true}));
  if (!server_.recording_->Start(std::move(file), std::move(only))) {
    return std::unexpected(SetupError{"a trace is being written already"});
  }
  return {};
}

std::optional<uint64_t> Administration::StopRecording() {
  const auto file = server_.recording_->Stop();
  if (!file) return std::nullopt;
  file->Finish();
  return file->lost();
}

}  // namespace penstock::server
