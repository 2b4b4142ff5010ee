// The conformance suite over a traced provider of the simulated network: tracing must not change the behaviour of a
// provider.
#include "rdma/endpoint_suite.h"

#include <gmock/gmock.h>

#include "base/address.h"
#include "rdma/sim/network.h"
#include "rdma/trace/provider.h"

namespace penstock::rdma {
namespace {

class TracedEnvironment : public SuiteEnvironment {
 public:
  explicit TracedEnvironment(uint64_t seed) : world_(seed) {}
  ~TracedEnvironment() override { EXPECT_THAT(network_.violations(), testing::IsEmpty()); }
  std::unique_ptr<Provider> MakeProvider() override {
    return std::make_unique<trace::Provider>(network_.MakeProvider(), *file_, world_);
  }
  Address ListenAddress() override { return Address(asio::ip::address_v4::any(), 0); }
  Address NobodyAddress() override { return Address(asio::ip::make_address("10.1.1.1"), 1); }
  size_t max_private_data() override { return network_.options().max_private_data; }
  bool takes_turns() override { return false; }
  TimerService& timers() override { return world_; }
  bool RunUntil(const std::function<bool()>& done) override { return world_.RunUntil(done); }
  void Settle() override { EXPECT_TRUE(world_.Run()); }

 private:
  std::unique_ptr<trace::File> file_ = trace::File::Open("/dev/null", Duration::zero()).value();
  sim::World world_;
  sim::Network network_{world_};
};

std::vector<SuiteFactory> Seeds() {
  std::vector<SuiteFactory> factories;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    factories.push_back({"seed" + std::to_string(seed), [seed] { return std::make_unique<TracedEnvironment>(seed); }});
  }
  return factories;
}

INSTANTIATE_TEST_SUITE_P(Traced, EndpointSuite, testing::ValuesIn(Seeds()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace penstock::rdma
