#include "rdma/sim/network.h"

#include <utility>

#include "base/address.h"
#include "rdma/sim/setup.h"
#include "rdma/sim/side.h"
#include "rdma/sim/stream.h"

namespace penstock::rdma::sim {

Network::Network(World& world, Options options) : world_(world), options_(options) {}
Network::~Network() = default;

std::unique_ptr<Provider> Network::MakeProvider() {
  asio::ip::address_v4 host(0x0A000000 + next_host_++);  // 10.0.0.0/8
  return std::make_unique<SimProvider>(*this, host);
}

void Network::LoseAll() {
  for (auto& weak : std::exchange(sides_, {})) {
    if (auto side = weak.lock()) {
      side->Break(DisconnectReason::kPeerReset, DisconnectReason::kPeerReset, "the network has lost the connection");
    }
  }
  for (auto& weak : std::exchange(streams_, {})) {
    if (auto stream = weak.lock()) stream->Lose();
  }
}

void Network::LoseAllOf(const Provider& host) {
  const IpAddress& address = dynamic_cast<const SimProvider&>(host).host();
  for (const auto& weak : std::vector(sides_)) {
    const auto side = weak.lock();
    if (!side || (side->info().peer.address() != address && side->info().local.address() != address)) continue;
    side->Break(DisconnectReason::kPeerReset, DisconnectReason::kPeerReset, "the network has lost the connection");
  }
  for (const auto& weak : std::vector(streams_)) {
    const auto stream = weak.lock();
    if (stream && stream->IsOf(address)) stream->Lose();
  }
}

void Network::Lose(const Endpoint& endpoint) {
  Side::Of(endpoint).Break(DisconnectReason::kPeerReset, DisconnectReason::kPeerReset,
                           "the network has lost the connection");
}

EndpointState Network::Inspect(const Endpoint& endpoint) const { return Side::Of(endpoint).Inspect(); }

bool Network::StepLoses() {
  ++steps_;
  if (faults_.lose_at == steps_) return true;
  return faults_.lose > 0 && world_.random().Chance(faults_.lose);
}

bool Network::AccessRefused() {
  ++accesses_;
  if (faults_.refuse_at == accesses_) return true;
  return faults_.refuse > 0 && world_.random().Chance(faults_.refuse);
}

Stag Network::NewStag() {
  for (;;) {
    auto stag = static_cast<uint32_t>(world_.random().Next());
    if (stag != 0 && stags_.insert(stag).second) return Stag(stag);
  }
}

void Network::Violation(std::string what) {
  world_.Trace("violation: {}", what);
  violations_.push_back(std::move(what));
}

std::shared_ptr<ListenQueue> Network::FindListener(const Address& address) const {
  for (const Address& candidate : {address, Address(asio::ip::address_v4::any(), address.port())}) {
    if (auto found = listeners_.find(candidate); found != listeners_.end()) return found->second;
  }
  return nullptr;
}

}  // namespace penstock::rdma::sim
