// The conformance suite over the provider of a host: a network that has a thread of its own.
#include "rdma/endpoint_suite.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "base/address.h"
#include "base/test_loop.h"
#include "library/provider/adapted_provider.h"
#include "library/provider/provider_test_support.h"
#include "library/provider_object.h"

namespace penstock::rdma {
namespace {

class HostEnvironment : public SuiteEnvironment {
 public:
  HostEnvironment() : work_(loop_.context().get_executor()) {}
  ~HostEnvironment() override { TurnFor(loop_, std::chrono::milliseconds(5)); }

  std::unique_ptr<Provider> MakeProvider() override {
    return std::make_unique<library::AdaptedProvider>(loop_, network_.provider()->host);
  }
  Address ListenAddress() override { return Address(asio::ip::address_v4::loopback(), 0); }
  Address UnusedAddress() override { return Address(asio::ip::address_v4::loopback(), 1); }
  size_t max_private_data() override { return 512; }
  bool holds_back() override { return false; }
  TimerService& timers() override { return loop_; }
  bool RunUntil(const std::function<bool()>& done) override { return TurnUntil(loop_, done); }
  void Settle() override { TurnFor(loop_, std::chrono::milliseconds(10)); }

 private:
  library::LoopbackNetwork network_;
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
};

INSTANTIATE_TEST_SUITE_P(Host, EndpointSuite,
                         testing::Values(SuiteFactory{"loopback", [] { return std::make_unique<HostEnvironment>(); }}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace penstock::rdma
