// The simulated network as an environment of the conformance suite. The suites of sim and of trace run over it, each
// case with several seeds.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "rdma/endpoint_suite.h"
#include "rdma/sim/network.h"

namespace penstock::rdma {

class SimEnvironment : public SuiteEnvironment {
 public:
  explicit SimEnvironment(uint64_t seed) : world_(seed) {}
  ~SimEnvironment() override {
    EXPECT_THAT(network_.violations(), testing::IsEmpty());
    if (testing::Test::HasFailure()) std::fputs(world_.TraceText().c_str(), stderr);
  }
  std::unique_ptr<Provider> MakeProvider() override { return network_.MakeProvider(); }
  Address ListenAddress() override { return Address(asio::ip::address_v4::any(), 0); }
  Address UnusedAddress() override { return Address(asio::ip::make_address("10.1.1.1"), 1); }
  size_t max_private_data() override { return network_.options().max_private_data; }
  bool takes_turns() override { return false; }
  TimerService& timers() override { return world_; }
  bool RunUntil(const std::function<bool()>& done) override { return world_.RunUntil(done); }
  void Settle() override { EXPECT_TRUE(world_.Run()); }

 private:
  sim::World world_;
  sim::Network network_{world_};
};

// Environments with the seeds 1 to `count`, named after them. `Environment` is constructed from a seed.
template <class Environment>
std::vector<SuiteFactory> WithSeeds(uint64_t count) {
  std::vector<SuiteFactory> factories;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    factories.push_back({"seed" + std::to_string(seed), [seed] { return std::make_unique<Environment>(seed); }});
  }
  return factories;
}

}  // namespace penstock::rdma
