// Tests of lost connections. One test loses the connection at each step of the network in turn. In each case all calls
// end, no resource is left over, and the memory of a call belongs to its caller again when the call returns.
#include <gtest/gtest.h>

#include "rpcrdma/test_rig.h"

namespace penstock::rpcrdma {
namespace {

// Runs some calls. Loses the connection at step `lose_at`, and refuses memory access number `refuse_at`; 0 means never.
// Returns the number of steps of the run.
uint64_t RunWithFault(uint64_t lose_at, uint64_t refuse_at) {
  Rig rig(17);
  if (lose_at > 0) rig.network.faults().lose_at = lose_at;
  if (refuse_at > 0) rig.network.faults().refuse_at = refuse_at;
  rig.handler.set_max_delay(std::chrono::microseconds(30));
  rig.client_options.private_data.receive_size = 2048;
  rig.StartServer();
  if (rig.Connect()) {
    const std::vector<TestCall> calls{{.xid = 1},
                                      {.xid = 2, .arguments = {5000}},
                                      {.xid = 3, .results = {20'001}},
                                      {.xid = 4, .filler = 9000, .arguments = {4999, 7}},
                                      {.xid = 5, .reply_filler = 9000, .results = {17, 6000}},
                                      {.xid = 6, .filler = 20'000, .reply_filler = 20'000}};
    std::vector<ByteVector> destinations(calls.size());
    std::vector<CallResult> results(calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      rpc::ReplyShape shape = rig.ShapeOf(calls[i]);
      if (!shape.results.empty()) {
        destinations[i].resize(shape.results.back().max_length);
        shape.results.back().destination = destinations[i];
      }
      Spawn(
          Store(rig.client->Call(EncodeCall(rig.client_provider->buffers(), calls[i]), std::move(shape)), results[i]));
    }
    size_t returned = 0;
    EXPECT_TRUE(rig.world.RunUntil([&] {
      for (size_t i = 0; i < calls.size(); ++i) {
        if (!results[i] || destinations[i].empty()) continue;
        // AddressSanitizer and the simulator report any access to this memory from here on.
        if (!*results[i]) destinations[i] = ByteVector();
      }
      returned = std::ranges::count_if(results, [](auto& result) { return result.has_value(); });
      return returned == calls.size();
    })) << returned
        << " calls returned";
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!results[i]) continue;
      if (*results[i]) {
        EXPECT_TRUE(IsReplyTo(calls[i], **results[i])) << i;
      } else {
        EXPECT_EQ(results[i]->error(), rpc::CallError::kDisconnected) << i;
        EXPECT_TRUE(rig.world.RunUntil([&] { return rig.client->lost(); }));
      }
    }
    results.clear();
  }
  const uint64_t steps = rig.network.steps();
  EXPECT_EQ(rig.network.stats().unfenced_regions, 0u);
  rig.Finish();
  return steps;
}

TEST(Loss, EveryCallEndsIfTheConnectionIsLostAtAnyStep) {
  const uint64_t steps = RunWithFault(0, 0);
  EXPECT_GT(steps, 20u);
  for (uint64_t step = 1; step <= steps && !testing::Test::HasFailure(); ++step) {
    SCOPED_TRACE("lost at step " + std::to_string(step));
    RunWithFault(step, 0);
  }
}

TEST(Loss, EveryCallEndsIfAnyAccessIsRefused) {
  for (uint64_t access = 1; access <= 40 && !testing::Test::HasFailure(); ++access) {
    SCOPED_TRACE("access " + std::to_string(access) + " refused");
    RunWithFault(0, access);
  }
}

const std::vector<TestCall> kCallsWithMemory{{.xid = 7, .results = {5000}}, {.xid = 7, .arguments = {5000}}};

// The client repeats the call with other memory, which may be accessible.
TEST(Loss, ACallWithInaccessibleMemoryIsExecutedWhenItIsRepeated) {
  for (const TestCall& call : kCallsWithMemory) {
    Rig rig;
    rig.network.faults().refuse_at = 1;
    rig.Start();
    EXPECT_EQ(rig.Call(call).error(), rpc::CallError::kDisconnected);
    rig.client.reset();
    ASSERT_TRUE(rig.Connect());
    EXPECT_TRUE(rig.CallAndCheck(call));
    rig.Finish();
  }
}

// The client gives the call up before the reply, and fences its memory. The access of the server then fails and ends
// the connection.
TEST(Loss, ACallThatTimedOutIsExecutedWhenItIsRepeated) {
  Rig rig;
  rig.client_options.requester.call_timeout = std::chrono::seconds(10);
  rig.handler.set_delay(std::chrono::seconds(15));
  rig.Start();
  const TestCall call{.xid = 7, .results = {5000}};
  for (unsigned i = 0; i < 2 * RefusedCalls::kChances; ++i) {
    EXPECT_EQ(rig.Call(call).error(), rpc::CallError::kTimedOut);
    ASSERT_TRUE(rig.world.RunUntil([&] { return rig.client->lost(); }));
    rig.client.reset();
    ASSERT_TRUE(rig.Connect());
  }
  rig.handler.set_delay(Duration::zero());
  EXPECT_TRUE(rig.CallAndCheck(call));
  rig.Finish();
}

// RFC 8166 §4.5.3: one call must not end one connection after the other.
TEST(Loss, ACallWithInaccessibleMemoryIsRefusedAfterSeveralRepetitions) {
  for (const TestCall& call : kCallsWithMemory) {
    Rig rig;
    rig.network.faults().refuse = 1;
    rig.Start();
    for (unsigned i = 0; i < RefusedCalls::kChances; ++i) {
      EXPECT_EQ(rig.Call(call).error(), rpc::CallError::kDisconnected);
      rig.client.reset();
      ASSERT_TRUE(rig.Connect());
    }
    rig.network.faults().refuse = 0;
    EXPECT_EQ(rig.Call(call).error(), rpc::CallError::kRefused);
    EXPECT_TRUE(rig.CallAndCheck({.xid = 8, .arguments = {5000}, .results = {5000}}));
    EXPECT_FALSE(rig.client->lost());
    rig.world.RunFor(RefusedCalls::kAge);
    EXPECT_TRUE(rig.CallAndCheck(call)) << "after kAge the XID counts as that of another call";
    rig.Finish();
  }
}

TEST(Loss, ARefusedCallDoesNotAffectOtherClients) {
  Rig rig;
  rig.network.faults().refuse = 1;
  rig.Start();
  const TestCall call{.xid = 7, .results = {5000}};
  for (unsigned i = 0; i < RefusedCalls::kChances; ++i) {
    EXPECT_EQ(rig.Call(call).error(), rpc::CallError::kDisconnected);
    rig.client.reset();
    ASSERT_TRUE(i + 1 == RefusedCalls::kChances || rig.Connect());
  }
  rig.network.faults().refuse = 0;
  rig.world.RunFor(std::chrono::seconds(1));
  rig.client_provider = rig.network.MakeProvider();
  ASSERT_TRUE(rig.Connect());
  EXPECT_TRUE(rig.CallAndCheck(call));
  rig.Finish();
}

TEST(Loss, AClientThatReconnectsCompletesAllItsCalls) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Rig rig(seed);
    rig.network.faults().lose = 0.01;
    rig.StartServer();
    for (uint32_t xid = 1; xid <= 20;) {
      TestCall call{.xid = xid, .arguments = {xid * 700}, .results = {xid * 500}};
      if (!rig.client && !rig.Connect()) continue;
      Result<rpc::Message, rpc::CallError> reply = rig.Call(call);
      if (reply) {
        ASSERT_TRUE(IsReplyTo(call, *reply));
        ++xid;
      } else {
        ASSERT_EQ(reply.error(), rpc::CallError::kDisconnected);
        rig.client.reset();
      }
    }
    rig.network.faults().lose = 0;
    rig.Finish();
  }
}

}  // namespace
}  // namespace penstock::rpcrdma
