// The conformance suite over the simulated network, with many seeds.
#include <gmock/gmock.h>

#include <cstdio>

#include "base/address.h"
#include "rdma/endpoint_suite.h"

#include "rdma/sim/network.h"

namespace penstock::rdma {
namespace {

class SimEnvironment : public SuiteEnvironment {
 public:
  explicit SimEnvironment(uint64_t seed) : world_(seed) {}
  ~SimEnvironment() override {
    EXPECT_THAT(network_.violations(), testing::IsEmpty());
    if (testing::Test::HasFailure()) std::fputs(world_.TraceText().c_str(), stderr);
  }
  std::unique_ptr<Provider> MakeProvider() override { return network_.MakeProvider(); }
  Address ListenAddress() override { return Address(asio::ip::address_v4::any(), 0); }
  Address NobodyAddress() override { return Address(asio::ip::make_address("10.1.1.1"), 1); }
  size_t max_private_data() override { return network_.options().max_private_data; }
  bool takes_turns() override { return false; }
  TimerService& timers() override { return world_; }
  bool RunUntil(const std::function<bool()>& done) override { return world_.RunUntil(done); }
  void Settle() override { EXPECT_TRUE(world_.Run()); }

 private:
  sim::World world_;
  sim::Network network_{world_};
};

std::vector<SuiteFactory> Seeds() {
  std::vector<SuiteFactory> factories;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    factories.push_back({"seed" + std::to_string(seed), [seed] { return std::make_unique<SimEnvironment>(seed); }});
  }
  return factories;
}

INSTANTIATE_TEST_SUITE_P(Sim, EndpointSuite, testing::ValuesIn(Seeds()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace penstock::rdma
