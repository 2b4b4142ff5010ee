// The conformance suite over real sockets, with each agreement that two ends of this provider can have. Revision 1 is
// missing, because it does not negotiate read depths: provider_test.cc tests it.
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include "base/address.h"
#include "base/test_loop.h"
#include "rdma/endpoint_suite.h"
#include "rdma/iwarp/provider.h"

namespace penstock::rdma {
namespace {

using iwarp::Options;

class LoopbackEnvironment : public SuiteEnvironment {
 public:
  explicit LoopbackEnvironment(const Options& options) : options_(options), work_(loop_.context().get_executor()) {}
  ~LoopbackEnvironment() override { TurnFor(loop_, std::chrono::milliseconds(5)); }

  std::unique_ptr<Provider> MakeProvider() override { return std::make_unique<iwarp::Provider>(loop_, options_); }
  Address ListenAddress() override { return Address(asio::ip::address_v4::loopback(), 0); }
  Address UnusedAddress() override { return Address(asio::ip::address_v4::loopback(), 1); }
  size_t max_private_data() override { return options_.revision >= 2 ? 508 : 512; }
  TimerService& timers() override { return loop_; }
  bool RunUntil(const std::function<bool()>& done) override { return TurnUntil(loop_, done); }
  void Settle() override { TurnFor(loop_, std::chrono::milliseconds(10)); }

 private:
  const Options options_;
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
};

SuiteFactory Variant(std::string name, void (*change)(Options&)) {
  Options options;
  change(options);
  return {std::move(name), [options] { return std::make_unique<LoopbackEnvironment>(options); }};
}

INSTANTIATE_TEST_SUITE_P(Iwarp, EndpointSuite,
                         testing::Values(Variant("plain", [](Options& o) { o.crc = false; }),
                                         Variant("crc", [](Options&) {}),
                                         Variant("markers", [](Options& o) { o.markers = true; }),
                                         Variant("rtr_write",
                                                 [](Options& o) {
                                                   o.peer_to_peer = true;
                                                   o.rtr = {.send = false, .write = true, .read = false};
                                                 }),
                                         Variant("rtr_read",
                                                 [](Options& o) {
                                                   o.peer_to_peer = true;
                                                   o.rtr = {.send = false, .write = false, .read = true};
                                                 }),
                                         Variant("rtr_send",
                                                 [](Options& o) {
                                                   o.peer_to_peer = true;
                                                   o.rtr = {.send = true, .write = false, .read = false};
                                                 }),
                                         Variant("small_fpdus", [](Options& o) { o.max_ulpdu = 1400; })),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace penstock::rdma
