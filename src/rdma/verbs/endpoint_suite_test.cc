// The conformance suite over verbs. It needs an RDMA device, so it is a program of its own, `verbs_suite`, with the
// address of an interface of the device in TEST_VERBS_ADDRESS. Both ends of each connection are in this process and
// use that address.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/address.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "rdma/endpoint_suite.h"
#include "rdma/verbs/provider.h"

namespace {

// While it is set, ibv_dereg_mr() fails.
bool keeps_registrations = false;
int kept_registrations = 0;

}  // namespace

// Replaces the function of libibverbs.
extern "C" [[gnu::visibility("default")]] int ibv_dereg_mr(ibv_mr* registration) {
  static const auto own = reinterpret_cast<int (*)(ibv_mr*)>(::dlsym(RTLD_NEXT, "ibv_dereg_mr"));
  if (!keeps_registrations) return own(registration);
  ++kept_registrations;
  return EBUSY;
}

namespace penstock::rdma {
namespace {

IpAddress ThisAddress() {
  const char* text = std::getenv("TEST_VERBS_ADDRESS");
  if (!text) throw std::runtime_error("TEST_VERBS_ADDRESS is not set: the address of an RDMA device's interface");
  return asio::ip::make_address(text);
}

class VerbsEnvironment : public SuiteEnvironment {
 public:
  VerbsEnvironment() : work_(loop_.context().get_executor()) {
    const auto found = verbs::DeviceOf(ThisAddress());
    if (std::getenv("PENSTOCK_VERBOSE")) {
      log::SetSink([](const log::Record& record) { std::cerr << record.message << "\n"; }, log::Level::kDebug);
    }
    if (!found) throw std::runtime_error(found.error().message);
    if (!*found) throw std::runtime_error("no RDMA device has TEST_VERBS_ADDRESS");
    device_ = (*found)->device;
    const auto devices = verbs::ListDevices();
    for (const verbs::Traits& each : devices.value()) {
      if (each.name == device_) transport_ = each.transport;
    }
  }
  ~VerbsEnvironment() override { TurnFor(loop_, std::chrono::milliseconds(5)); }

  std::unique_ptr<Provider> MakeProvider() override {
    verbs::Options options;
    options.device = device_;
    auto provider = verbs::Provider::Make(loop_, registry_, options);
    if (!provider) throw std::runtime_error(provider.error().message);
    return *std::move(provider);
  }
  Address ListenAddress() override { return Address(ThisAddress(), 0); }
  Address UnusedAddress() override { return Address(ThisAddress(), 1); }
  size_t max_private_data() override { return verbs::MaxPrivateData(transport_, verbs::CmMessage::kRequest); }
  bool exact_private_data() override { return transport_ == verbs::Transport::kIwarp; }
  bool holds_back() override { return false; }
  bool tells_solicited() override { return false; }
  bool limits_reads() override { return transport_ != verbs::Transport::kIwarp; }
  bool checks_right_to_read() override { return transport_ != verbs::Transport::kIwarp; }
  bool tells_refusal() override { return false; }
  bool chooses_stags() override { return false; }
  TimerService& timers() override { return loop_; }
  bool RunUntil(const std::function<bool()>& done) override { return TurnUntil(loop_, done); }
  void Publish() override { loop_.context().poll(); }
  void Settle() override { TurnFor(loop_, std::chrono::milliseconds(20)); }

 private:
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  const std::shared_ptr<verbs::Registry> registry_ = std::make_shared<verbs::Registry>();
  std::string device_;
  verbs::Transport transport_ = verbs::Transport::kInfiniBand;
};

INSTANTIATE_TEST_SUITE_P(Verbs, EndpointSuite,
                         testing::Values(SuiteFactory{"verbs", [] { return std::make_unique<VerbsEnvironment>(); }}),
                         [](const auto& test) { return test.param.name; });

}  // namespace

// RFC 8166 §4.5.4: a failed invalidation never completes with success.
TEST_P(EndpointSuite, EndsTheConnectionIfARegionCannotBeInvalidated) {
  Connect();
  std::vector<std::byte> memory(64);
  const auto region = Register(*server_, memory, Access::kRemoteWrite);
  kept_registrations = 0;
  keeps_registrations = true;
  const Context invalidate = server_->PostInvalidate(*region);
  keeps_registrations = false;
  RunUntilDone(*server_, invalidate);
  if (kept_registrations == 0) GTEST_SKIP() << "this device invalidates windows";
  EXPECT_EQ(server_->StatusOf(invalidate), Status::kFlushed);
  RunUntilLost(*client_, *server_);
  EXPECT_EQ(server_->reason(), DisconnectReason::kFault);
}

}  // namespace penstock::rdma
