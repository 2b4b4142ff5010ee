// The conformance suite over the simulated network, with many seeds.
#include "rdma/endpoint_suite.h"

#include "rdma/sim/suite_environment.h"

namespace penstock::rdma {
namespace {

INSTANTIATE_TEST_SUITE_P(Sim, EndpointSuite, testing::ValuesIn(WithSeeds<SimEnvironment>(8)),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace penstock::rdma
