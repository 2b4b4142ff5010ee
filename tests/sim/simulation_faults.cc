// The faults that a simulation plans at random: of the network, of the server and of clients.
#include <algorithm>
#include <utility>

#include "simulation.h"

namespace penstock::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

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
      if (schedule_.loses_all && client.bound) {
        world_.Trace("meddling: the connections of a client are lost");
        return network_.LoseAllOf(*client.provider);
      }
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
      // A server that dies at chosen moments needs its restarts for them.
      if (schedule_.bound && schedule_.bound->dies > 0) break;
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
  KillServer();
}

bool Simulation::Dies() {
  if (!schedule_.bound || faults_over_ || restarts_left_ == 0 || !server_->running()) return false;
  if (!world_.random().Chance(schedule_.bound->dies)) return false;
  --restarts_left_;
  world_.Trace("the server dies while it keeps a request");
  // The call that keeps it is still running.
  world_.Schedule(Duration::zero(), [this] { KillServer(); });
  return true;
}

void Simulation::KillServer() {
  if (!server_->running()) return;
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
  if (client.phase() != SessionUse::Phase::kReady || any_client_is_silent()) return;
  world_.Trace("meddling: a client is silent");
  client.silent_until = world_.Now() + world_.random().UpTo(at_most);
  if (client.bound) network_.LoseAllOf(*client.provider);
  if (client.connection && !client.connection->lost()) network_.Lose(client.connection->endpoint());
}

bool Simulation::any_client_is_silent() const {
  return std::ranges::any_of(clients_, [this](const auto& client) { return world_.Now() < client->silent_until; });
}

}  // namespace penstock::simulation
