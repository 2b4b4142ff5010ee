// The conformance suite over a traced provider of the simulated network: tracing must not change the behaviour of a
// provider.
#include "rdma/endpoint_suite.h"

#include "rdma/sim/suite_environment.h"
#include "rdma/trace/provider.h"

namespace penstock::rdma {
namespace {

class TracedEnvironment : public SimEnvironment {
 public:
  using SimEnvironment::SimEnvironment;
  std::unique_ptr<Provider> MakeProvider() override {
    return std::make_unique<trace::Provider>(SimEnvironment::MakeProvider(), *file_, timers());
  }

 private:
  std::unique_ptr<trace::File> file_ = trace::File::Open("/dev/null", Duration::zero()).value();
};

INSTANTIATE_TEST_SUITE_P(Traced, EndpointSuite, testing::ValuesIn(WithSeeds<TracedEnvironment>(2)),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace penstock::rdma
