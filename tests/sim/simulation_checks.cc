// The checks of a simulation: invariants after each step, and the final state of connections, files, sessions and
// memory.
#include <algorithm>

#include "at_once.h"
#include "fs/memory/change.h"
#include "simulation.h"

namespace penstock::simulation {

void Simulation::CheckStep() {
  for (const std::string& violation : network_.violations())
    findings_.Add("misuse of the provider interface: {}", violation);
  CheckRefusals();
  CheckCredits();
}

// The network refuses an access to memory that is not registered, a Send without a posted receive, and an invalidation
// of an invalid region. Only the refusals that the schedule plans may happen.
void Simulation::CheckRefusals() {
  std::optional<uint64_t>& planned = network_.faults().refuse_at;
  if (planned && network_.accesses() >= *planned) {
    ++refusals_;
    *planned = network_.accesses() + 1 + world_.random().Below(2 * schedule_.refuse_after);
  }
  if (network_.stats().refused_accesses != refusals_) {
    findings_.Add("the network refused {} accesses instead of {}", network_.stats().refused_accesses, refusals_);
  }
  // RFC 8166 §4.4.1
  if (network_.stats().unfenced_regions > 0) findings_.Add("memory was released while the peer could still access it");
}

void Simulation::CheckCredits() {
  for (const auto& client : clients_) {
    if (!client->connection || client->connection->lost()) continue;
    const rpcrdma::RequesterCredits& credits = client->connection->requester().credits();
    if (credits.in_flight() > std::min(client->most_requested, most_granted_)) {
      findings_.Add("{} calls are under way with {} credits requested and {} granted", credits.in_flight(),
                    client->most_requested, most_granted_);
    }
  }
}

// No call is under way any more, so all credits and memory regions of calls must be released.
void Simulation::CheckQuiet() {
  for (const auto& client : clients_) {
    if (client->connection) CheckQuiet(*client->connection, client->plan.probes ? 1 : 0);
    if (!client->bound) continue;
    for (rpcrdma::Client* const connection : client->bound->connections()) {
      CheckQuiet(*connection, client->plan.probes ? 1 : 0);
    }
  }
}

void Simulation::CheckQuiet(rpcrdma::Client& connection, uint32_t probes) {
  if (connection.lost()) return;
  const uint32_t in_flight = connection.requester().credits().in_flight();
  if (in_flight > probes) findings_.Add("{} credits are lost", in_flight - probes);
  const size_t regions = network_.Inspect(connection.endpoint()).valid_regions;
  if (regions > 0) findings_.Add("{} regions of memory are still registered", regions);
}

void Simulation::CheckEnd(const rpcrdma::Client& connection) {
  if (!connection.lost()) return;
  const std::string& why = connection.end();
  world_.Trace("a connection has ended: {}", why);
  // With a session of 2004, the server closes connections after the loss of others, and when the session ends.
  if (schedule_.bound && (schedule_.has_faults || ending_)) return;
  if (why.contains("the network has lost")) return;
  if (refusals_ > 0 && why.contains("may not reach its memory")) return;
  if (has_hung_ && why == "the peer does not answer") return;
  findings_.Add("a connection ended although no fault was injected: {}", why);
}

void Simulation::CheckFiles() {
  for (const auto& client : clients_) {
    for (const auto& worker : client->workers) CheckWorker(*worker);
  }
}

void Simulation::CheckWorker(const Worker& worker) {
  fs::memory::FileSystem& files = server_->files();
  auto directory = AtOnce(files.Lookup(AsRoot(), files.Root(), worker.name()));
  if (!directory.result) return findings_.Add("{} does not exist", worker.name());
  for (const auto& [name, entry] : worker.entries()) {
    auto found = AtOnce(files.Lookup(AsRoot(), directory.result->handle, name));
    if (!found.result) {
      findings_.Add("{}/{} does not exist", worker.name(), name);
    } else if (entry.symlink) {
      auto target = AtOnce(files.ReadLink(AsRoot(), found.result->handle));
      if (!target.result || *target.result != entry.content)
        findings_.Add("{}/{} has a wrong link target", worker.name(), name);
    } else {
      auto read = AtOnce(files.Read(AsRoot(), found.result->handle, 0, 1 << 24));
      if (!read.result || AsText(read.result->data.bytes()) != entry.content) {
        findings_.Add("{}/{} has wrong content", worker.name(), name);
      }
    }
  }
}

// Closes all sessions, and checks that the server keeps no session, client or reply. A session may still be binding a
// connection; the function does not wait for that. A slot that stays in use on either side would prevent the end of its
// session.
void Simulation::EndSessions() {
  ending_ = true;
  if (!world_.RunUntil([this] { return server_->running(); }, kManyEvents)) {
    return findings_.Add("the server does not start again");
  }
  size_t open = clients_.size();
  for (const auto& client : clients_) {
    Spawn([](client::v4::CompoundCaller& session, bool is_bound, size_t& left) -> Task<> {
      // Without this, a client whose last call had no reply would not try to end its session.
      if (is_bound) (void)co_await session.Call([] { return std::tuple<>(); }, "the last call");
      co_await session.Close();
      --left;
    }(*client->session, client->bound != nullptr, open));
  }
  if (!world_.RunUntil([this, &open] { return CheckStep(), open == 0; }, kManyEvents)) {
    return findings_.Add("{} sessions do not end", open);
  }
  for (const auto& client : clients_) {
    if (client->session41 && !client->session41->slots().idle()) {
      findings_.Add("{} slots are lost", client->session41->slots().in_use());
    }
    if (client->session04 && !client->session04->streams().idle()) {
      findings_.Add("{} streamids are lost", client->session04->streams().in_use());
    }
  }
  Nfs4Service& server = *server_->nfs4();
  if (const char* wrong = server.FindInconsistency()) findings_.Add("the server's tables: {}", wrong);
  if (server.sessions() + server.clients() > 0) {
    findings_.Add("the server still has {} sessions and {} clients at the end", server.sessions(), server.clients());
  }
  if (const size_t left = server.CountForgottenReplies()) {
    findings_.Add("the server still stores the replies of {} ended sessions", left);
  }
}

// Closes all connections, stops the server, and checks that no call and no buffer is left.
void Simulation::Close() {
  world_.Trace("the end");
  for (auto& client : clients_) {
    if (client->bound) client->session.reset();
    client->channel.reset();
  }
  bool stopped = false;
  Spawn([](ServerSide& server, bool& done) -> Task<> {
    co_await server.Stop();
    done = true;
  }(*server_, stopped));
  if (!world_.RunUntil([this, &stopped] { return CheckStep(), stopped; }, kManyEvents)) {
    return findings_.Add("the server does not stop: {} connections, {} calls", server_->server().connections(),
                         server_->calls());
  }
  if (!world_.Run(kManyEvents)) return findings_.Add("events do not end");
  CheckStep();
  if (server_->calls() > 0) return findings_.Add("{} calls are still under way", server_->calls());
  for (auto& client : clients_) {
    if (const size_t left = client->provider->buffers().outstanding())
      findings_.Add("{} buffers are left at a client", left);
  }
  server_->Forget();
  if (const size_t left = server_->provider().buffers().outstanding())
    findings_.Add("{} buffers are left at the server", left);
  server_.reset();
  if (const size_t left = fs::memory::ThreadBuffers().outstanding()) findings_.Add("{} file buffers are left", left);
}

}  // namespace penstock::simulation
