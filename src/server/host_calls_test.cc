#include "server/host_calls.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/test_loop.h"
#include "rpc/test_program.h"
#include "rpcbind/test_host.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::server {
namespace {

using nfs::nlm::HostCall;
using rpc::testing::kTestProgram;
using rpcbind::SilentHost;
using rpcbind::TestHost;
using CallOutcome = nfs::nlm::HostCalls::Outcome;

// A call of a procedure of rpc::testing::TestProgram with one number. The parameter: by UDP.
class HostCallsTest : public testing::TestWithParam<bool> {
 protected:
  ~HostCallsTest() override {
    EXPECT_TRUE(TurnUntil(loop, [&] { return loop.buffers().outstanding() == 0; }));
    TurnFor(loop, Duration::zero());  // closed channels end
  }

  // Only a failing test waits so long.
  static NetworkHostCalls::Settings Patient(uint16_t port_mapper) {
    return {.limit = 2 * kTestPatience, .port_mapper_port = port_mapper};
  }
  HostCall CallOf(const IpAddress& host, uint32_t procedure) const {
    return {
        .host = host, .ours = {}, .program = kTestProgram, .version = 3, .procedure = procedure, .by_udp = GetParam()};
  }
  static Task<> Do(NetworkHostCalls& calls, HostCall call, std::optional<CallOutcome>& into) {
    const std::function<void(xdr::Encoder&)> write = [](xdr::Encoder& encoder) { xdr::Encode(encoder, uint32_t{7}); };
    const std::function<bool(xdr::Decoder&)> read = [](xdr::Decoder& decoder) {
      uint32_t sum = 0;
      return xdr::Decode(decoder, sum) && sum == 7;
    };
    into.emplace(co_await calls.Call(call, write, read));
  }
  void ExpectOutcome(const std::optional<CallOutcome>& of, CallOutcome expected) {
    EXPECT_TRUE(TurnUntil(loop, [&] { return of.has_value(); }));
    EXPECT_EQ(of, expected);
  }

  Loop loop;
  std::optional<CallOutcome> outcome;
};

TEST_P(HostCallsTest, ACallIsAnswered) {
  TestHost host(loop, "127.0.0.1");
  NetworkHostCalls calls(loop, Patient(host.port));
  Spawn(Do(calls, CallOf(host.address, rpc::testing::Add::kNumber), outcome));
  ExpectOutcome(outcome, CallOutcome::kAnswered);
  EXPECT_EQ(host.program.sum, 7u);
}

TEST_P(HostCallsTest, AbortEndsASearchForAPort) {
  SilentHost host(loop, "127.0.0.1");
  NetworkHostCalls calls(loop, Patient(host.port()));
  Spawn(Do(calls, CallOf(host.address, rpc::testing::Add::kNumber), outcome));
  ASSERT_TRUE(TurnUntil(loop, [&] { return host.calls() > 0; }));
  EXPECT_FALSE(outcome);
  calls.Abort();
  ExpectOutcome(outcome, CallOutcome::kEnded);
}

TEST_P(HostCallsTest, AbortEndsACall) {
  TestHost host(loop, "127.0.0.1");
  NetworkHostCalls calls(loop, Patient(host.port));
  Spawn(Do(calls, CallOf(host.address, rpc::testing::SlowAdd::kNumber), outcome));
  ASSERT_TRUE(TurnUntil(loop, [&] { return !host.program.waiting.empty(); }));
  calls.Abort();
  ExpectOutcome(outcome, CallOutcome::kEnded);
  std::optional<CallOutcome> later;
  Spawn(Do(calls, CallOf(host.address, rpc::testing::Add::kNumber), later));
  EXPECT_EQ(later, CallOutcome::kEnded);
}

TEST_P(HostCallsTest, ACallCanBeEndedWhereverItIs) {
  TestHost host(loop, "127.0.0.1");
  NetworkHostCalls calls(loop, Patient(host.port));
  Cancellation before, later;
  before.Cancel();
  HostCall call = CallOf(host.address, rpc::testing::SlowAdd::kNumber);
  call.cancellation = &before;
  Spawn(Do(calls, call, outcome));
  EXPECT_EQ(outcome, CallOutcome::kEnded);
  outcome.reset();
  call.cancellation = &later;
  Spawn(Do(calls, call, outcome));
  ASSERT_TRUE(TurnUntil(loop, [&] { return !host.program.waiting.empty(); }));
  later.Cancel();
  EXPECT_EQ(outcome, CallOutcome::kEnded);
}

// By UDP, another call would be sent again after a second.
TEST_P(HostCallsTest, ACallIsSentOnlyOnceIfItMustBe) {
  TestHost host(loop, "127.0.0.1");
  SilentHost silent(loop, "127.0.0.1");
  for (rpcbind::Service& each : host.services) each.address.port(silent.port());
  NetworkHostCalls calls(loop, {.limit = std::chrono::milliseconds(1500), .port_mapper_port = host.port});
  HostCall call = CallOf(host.address, rpc::testing::Add::kNumber);
  call.only_once = true;
  Spawn(Do(calls, call, outcome));
  ExpectOutcome(outcome, CallOutcome::kNoAnswer);
  EXPECT_EQ(silent.calls(), 1u);
}

TEST_P(HostCallsTest, ACallWaitsUntilTheHostHasAnsweredAnother) {
  TestHost host(loop, "127.0.0.1");
  NetworkHostCalls calls(loop, Patient(host.port));
  std::optional<CallOutcome> second;
  Spawn(Do(calls, CallOf(host.address, rpc::testing::SlowAdd::kNumber), outcome));
  ASSERT_TRUE(TurnUntil(loop, [&] { return !host.program.waiting.empty(); }));
  Spawn(Do(calls, CallOf(host.address, rpc::testing::SlowSet::kNumber), second));
  TurnFor(loop, std::chrono::milliseconds(20));
  EXPECT_EQ(host.program.waiting.size(), 1u);
  host.program.Release();
  ASSERT_TRUE(TurnUntil(loop, [&] { return !host.program.waiting.empty(); }));
  host.program.Release();
  ExpectOutcome(outcome, CallOutcome::kAnswered);
  ExpectOutcome(second, CallOutcome::kAnswered);
}

// Each of the silent hosts holds a place, and a live one is called all the same.
TEST_P(HostCallsTest, SilentHostsDoNotMakeAnotherHostWait) {
  SilentHost first(loop, "127.0.0.2");
  SilentHost second(loop, "127.0.0.3", first.port());
  TestHost live(loop, "127.0.0.1", first.port());
  NetworkHostCalls::Settings settings = Patient(first.port());
  settings.places = {.places = 3, .places_of_silent = 1, .per_host = 4};
  NetworkHostCalls calls(loop, settings);
  std::vector<std::optional<CallOutcome>> silent(20);
  for (size_t i = 0; i < silent.size(); ++i) {
    const IpAddress& host = i % 2 == 0 ? first.address : second.address;
    Spawn(Do(calls, CallOf(host, rpc::testing::Add::kNumber), silent[i]));
  }
  ASSERT_TRUE(TurnUntil(loop, [&] { return first.calls() > 0 && second.calls() > 0; }));
  Spawn(Do(calls, CallOf(live.address, rpc::testing::Add::kNumber), outcome));
  ExpectOutcome(outcome, CallOutcome::kAnswered);
  calls.Abort();
  for (const auto& each : silent) ExpectOutcome(each, CallOutcome::kEnded);
}

INSTANTIATE_TEST_SUITE_P(All, HostCallsTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Udp" : "Tcp"; });

}  // namespace
}  // namespace penstock::server
