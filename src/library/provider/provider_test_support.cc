#include "library/provider/provider_test_support.h"

#include <gtest/gtest.h>

#include <utility>

#include "loopback_provider/loopback_provider.h"

namespace penstock::library {
namespace {

penstock_provider_options Properties() {
  penstock_provider_options properties = PENSTOCK_PROVIDER_OPTIONS_INIT;
  properties.flags = PENSTOCK_PROVIDER_REMOTE_INVALIDATION;
  properties.name = "loopback";
  return properties;
}

}  // namespace

struct LoopbackNetwork::State {
  std::shared_ptr<loopback::LoopbackProvider> network = std::make_shared<loopback::LoopbackProvider>();
  penstock::Provider provider = penstock::Provider::Make(network, Properties()).value();
};

LoopbackNetwork::LoopbackNetwork() : state_(std::make_unique<State>()) {}

LoopbackNetwork::~LoopbackNetwork() {
  const std::weak_ptr<loopback::LoopbackProvider> network = state_->network;
  state_.reset();
  EXPECT_TRUE(network.expired()) << "the provider is in use";
}

penstock_provider* LoopbackNetwork::provider() const { return state_->provider.get(); }
void LoopbackNetwork::LoseAll() { state_->network->LoseAll(); }
uint64_t LoopbackNetwork::moved() const { return state_->network->moved(); }

}  // namespace penstock::library
