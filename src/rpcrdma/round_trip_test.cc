// Tests of a complete requester and a complete responder in a simulated network.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpcrdma/test_rig.h"

namespace penstock::rpcrdma {
namespace {

using rpc::CallError;

TEST(RoundTrip, AShortCallAndItsReplyTakeTwoSends) {
  Rig rig;
  rig.Start();
  EXPECT_TRUE(rig.CallAndCheck({.filler = 100, .reply_filler = 100}));
  EXPECT_EQ(rig.network.stats().sends, 2u);
  EXPECT_EQ(rig.network.stats().writes + rig.network.stats().reads, 0u);
  rig.Finish();
}

struct Sizes {
  uint32_t client_send, client_receive, server_send, server_receive;
};

class RoundTripSizes : public testing::TestWithParam<Sizes> {};

TEST_P(RoundTripSizes, ConveysEveryShapeOfCallAndReply) {
  const Sizes& sizes = GetParam();
  for (bool invalidation : {false, true}) {
    Rig rig(sizes.client_send + invalidation);
    rig.client_options.private_data = {invalidation, sizes.client_send, sizes.client_receive};
    rig.server_options.private_data = {true, sizes.server_send, sizes.server_receive};
    rig.Start();
    EXPECT_EQ(rig.client->thresholds().send, std::min(sizes.client_send, sizes.server_receive));
    EXPECT_EQ(rig.client->thresholds().receive, std::min(sizes.client_receive, sizes.server_send));
    uint32_t xid = 1;
    for (size_t filler : {0, 1, 900, 5000, 300'000}) {
      for (size_t length : {0, 1, 3, 4, 700, 4096, 4097, 100'001}) {
        for (size_t count : {0, 1, 2, 3}) {
          TestCall call{.xid = xid++};
          // Vary which parts of the call and of the reply are long.
          (xid % 2 ? call.filler : call.reply_filler) = filler;
          (xid % 3 ? call.arguments : call.results).assign(count, length);
          if (count == 3) call.results = {length, 0, 5};
          ASSERT_TRUE(rig.CallAndCheck(call))
              << filler << " " << length << " x " << count << " invalidation " << invalidation;
        }
      }
    }
    rig.Finish();
  }
}

INSTANTIATE_TEST_SUITE_P(Thresholds, RoundTripSizes,
                         testing::Values(Sizes{1024, 1024, 1024, 1024}, Sizes{4096, 4096, 4096, 4096},
                                         Sizes{1024, 65536, 65536, 65536}, Sizes{65536, 65536, 65536, 1024},
                                         Sizes{65536, 2048, 65536, 4096}, Sizes{65536, 65536, 65536, 65536}),
                         [](const auto& test) {
                           return std::to_string(test.param.client_send) + "_" +
                                  std::to_string(test.param.client_receive) + "_" +
                                  std::to_string(test.param.server_send) + "_" +
                                  std::to_string(test.param.server_receive);
                         });

TEST(RoundTrip, UsesTheDefaultsForAPeerWithoutPrivateData) {
  Rig rig;
  rig.server_options.private_data = {};
  rig.Start();
  EXPECT_EQ(rig.client->thresholds().send, 1024u);
  EXPECT_EQ(rig.client->thresholds().receive, 1024u);
  EXPECT_TRUE(rig.CallAndCheck({.filler = 2000, .reply_filler = 2000}));
  rig.Finish();
}

// RFC 8797 §4: the values of an earlier connection do not apply to a new one.
TEST(RoundTrip, EachConnectionAgreesOnItsOwnThresholds) {
  Rig rig;
  rig.server_options.private_data = {true, 65536, 65536};
  uint32_t xid = 1;
  bool invalidation = false;
  for (const uint32_t size : {4096u, 1024u, 65536u}) {
    rig.client_options.private_data = {invalidation, size, 1024};
    if (!rig.server) rig.StartServer();
    ASSERT_TRUE(rig.Connect());
    EXPECT_EQ(rig.client->thresholds().send, size);
    EXPECT_EQ(rig.client->thresholds().remote_invalidation, invalidation);
    const uint64_t reads = rig.network.stats().reads, invalidations = rig.network.stats().invalidations;
    EXPECT_TRUE(rig.CallAndCheck({.xid = xid++, .filler = 3000, .reply_filler = 3000}));
    EXPECT_EQ(rig.network.stats().reads - reads, size < 3000 ? 1u : 0u) << "only a long call needs a Read";
    EXPECT_EQ(rig.network.stats().invalidations - invalidations, invalidation ? 1u : 0u);
    rig.client.reset();
    invalidation = !invalidation;
  }
  rig.Finish();
}

TEST(RoundTrip, PlacesResultsDirectlyInTheCallersMemory) {
  Rig rig;
  rig.Start();
  ByteVector destination(10'000), guard = destination;
  TestCall call{.results = {5001}};
  rpc::ReplyShape shape = rig.ShapeOf(call);
  shape.results[0] = {9000, destination};
  CallResult result;
  Spawn(Store(rig.client->Call(EncodeCall(rig.client_provider->buffers(), call), std::move(shape)), result));
  ASSERT_TRUE(rig.world.RunUntil([&] { return result.has_value(); }));
  ASSERT_TRUE(*result);
  EXPECT_TRUE(IsReplyTo(call, **result));
  ASSERT_EQ((*result)->placed.size(), 1u);
  EXPECT_EQ((*result)->placed[0]->data(), destination.data());
  EXPECT_TRUE(Equal(ConstBytes(destination).subspan(9000), ConstBytes(guard).subspan(9000)));
  EXPECT_EQ(rig.network.stats().writes, 1u);
  result.reset();
  rig.Finish();
}

TEST(RoundTrip, FencesMemoryBeforeTheCallReturns) {
  for (bool invalidation : {false, true}) {
    Rig rig;
    rig.server_options.private_data.remote_invalidation = invalidation;
    rig.Start();
    TestCall call{.filler = 9000, .arguments = {5000, 6000}, .reply_filler = 9000, .results = {5000, 6000}};
    CallResult result;
    rig.Begin(call, result);
    EXPECT_EQ(rig.network.Inspect(rig.client->endpoint()).valid_regions, 6u);
    ASSERT_TRUE(rig.world.RunUntil([&] { return result.has_value(); }));
    EXPECT_EQ(rig.network.Inspect(rig.client->endpoint()).valid_regions, 0u);
    EXPECT_EQ(rig.network.stats().invalidations, invalidation ? 1u : 0u) << "number of invalidations by the peer";
    EXPECT_EQ(rig.network.stats().unfenced_regions, 0u)
        << "regions that the peer could access after the call had returned";
    result.reset();
    rig.Finish();
  }
}

TEST(RoundTrip, SplitsTransfersForAProviderWithASmallMaximum) {
  rdma::sim::Options options;
  options.limits = {.max_message = 4096, .max_transfer = 1000, .file_data = false};
  Rig rig(1, options);
  rig.Start();
  EXPECT_TRUE(rig.CallAndCheck({.filler = 6000, .arguments = {5001}, .reply_filler = 6000, .results = {9001}}));
  EXPECT_EQ(rig.network.stats().reads, 13u);
  EXPECT_EQ(rig.network.stats().writes, 17u);
  rig.Finish();
}

// A responder pulls the payload of a call after it has received the call (RFC 8166). Calls that arrive meanwhile
// overtake it.
TEST(RoundTrip, ACallCanWaitForEarlierCallsThatAreStillPulled) {
  for (const bool in_order : {false, true}) {
    Rig rig;
    rig.handler.set_in_order(in_order);
    rig.Start();
    ASSERT_TRUE(rig.CallAndCheck({.xid = 9})) << "the requester has one credit until the first reply";
    std::vector<CallResult> results(3);
    rig.Begin({.xid = 1, .arguments = {100'000}}, results[0]);
    rig.Begin({.xid = 2, .filler = 60'000}, results[1]);
    rig.Begin({.xid = 3}, results[2]);
    ASSERT_TRUE(
        rig.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
    if (in_order) {
      EXPECT_EQ(rig.handler.xids(), (std::vector<uint32_t>{9, 1, 2, 3}));
    } else {
      EXPECT_EQ(rig.handler.xids()[1], 3u);
    }
    results.clear();
    rig.Finish();
  }
}

TEST(RoundTrip, ConcurrentCallsStayWithinTheCredits) {
  Rig rig;
  rig.server_options.responder.credits = 7;
  rig.handler.set_max_delay(std::chrono::milliseconds(1));
  rig.Start();
  std::vector<TestCall> calls;
  for (uint32_t xid = 1; xid <= 200; ++xid)
    calls.push_back({.xid = xid, .arguments = {xid * 20}, .results = {xid * 30}});
  std::vector<CallResult> results(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) rig.Begin(calls[i], results[i]);
  EXPECT_EQ(rig.client->requester().credits().in_flight(), 1u) << "only one call is in flight before the first reply";
  ASSERT_TRUE(rig.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TRUE(*results[i]);
    EXPECT_TRUE(IsReplyTo(calls[i], **results[i])) << i;
  }
  EXPECT_EQ(rig.handler.most_running(), 7u);
  EXPECT_EQ(rig.client->requester().credits().in_flight(), 0u);
  results.clear();
  rig.Finish();
}

TEST(RoundTrip, CreditsMayChangeOnBothSidesDuringCalls) {
  Rig rig(3);
  rig.client_options.requester.credits = 2;
  rig.server_options.responder.credits = 4;
  rig.handler.set_max_delay(std::chrono::microseconds(200));
  rig.Start();
  std::vector<CallResult> results(600);
  uint32_t started = 0, next_change = 0;
  auto finished = [&] { return std::ranges::count_if(results, [](auto& r) { return r.has_value(); }); };
  while (finished() < 600) {
    for (; started < 600 && started < finished() + 40; ++started) {
      rig.Begin({.xid = started + 1, .results = {started % 3 * 3000}}, results[started]);
    }
    if (finished() >= next_change) {
      next_change += 25;
      rig.client->requester().set_credits(static_cast<uint32_t>(rig.world.random().Between(1, 30)));
      rig.server->SetCredits(static_cast<uint32_t>(rig.world.random().Below(30)));
    }
    ASSERT_TRUE(rig.world.Step());
  }
  for (uint32_t i = 0; i < 600; ++i) ASSERT_TRUE(*results[i]) << i;
  EXPECT_FALSE(rig.client->lost());
  results.clear();
  rig.Finish();
}

// RFC 8166 §3.3.1. Completions are late in this test, so that each call needs a receive of its own.
TEST(RoundTrip, PostsReceivesBeforeItGrantsTheirCredits) {
  rdma::sim::Options options;
  options.completion_delay = std::chrono::milliseconds(10);
  Rig rig(1, options);
  rig.server_options.responder.credits = 1;
  rig.client_options.requester.credits = 30;
  rig.Start();
  EXPECT_TRUE(rig.CallAndCheck({.xid = 1}));
  rig.server->SetCredits(30);
  EXPECT_TRUE(rig.CallAndCheck({.xid = 2}));
  ASSERT_EQ(rig.client->requester().credits().limit(), 30u);
  std::vector<CallResult> results(30);
  for (uint32_t i = 0; i < 30; ++i) rig.Begin({.xid = i + 10}, results[i]);
  ASSERT_TRUE(rig.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
  for (const CallResult& result : results) EXPECT_TRUE(*result);
  results.clear();
  rig.Finish();
}

TEST(RoundTrip, LimitsTheOctetsThatTheResponderPullsAtOnce) {
  Rig rig;
  rig.server_options.responder.max_call_octets = 10'000;
  rig.server_options.responder.max_pulled_octets = 10'000;
  rig.handler.set_max_delay(std::chrono::milliseconds(1));
  rig.Start();
  std::vector<CallResult> results(20);
  for (uint32_t i = 0; i < 20; ++i) rig.Begin({.xid = i + 1, .arguments = {5000}}, results[i]);
  ASSERT_TRUE(rig.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
  for (uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(*results[i]);
  EXPECT_LE(rig.handler.most_running(), 2u);
  // The responder refuses a call above the limit without reading its chunk.
  const uint64_t reads = rig.network.stats().reads;
  EXPECT_EQ(rig.Call({.xid = 99, .arguments = {10'001}}).error(), CallError::kRefused);
  EXPECT_EQ(rig.network.stats().reads, reads);
  EXPECT_TRUE(rig.CallAndCheck({.xid = 100, .arguments = {10'000}}));
  results.clear();
  rig.Finish();
}

// RFC 8167: both directions of a connection have separate credits.
TEST(RoundTrip, BothSidesCallOverOneConnection) {
  for (bool chunks : {false, true}) {
    Rig rig(5);
    TestHandler back_handler(rig.world);
    back_handler.set_max_delay(std::chrono::microseconds(300));
    rig.handler.set_max_delay(std::chrono::microseconds(300));
    rig.client_options.back_channel = &back_handler;
    rig.client_options.responder = {.credits = 3, .chunks = chunks};
    rig.server_options.requester.chunks = chunks;
    rig.Start();
    ASSERT_TRUE(rig.CallAndCheck({.xid = 1000}));
    const std::shared_ptr<rpc::BackChannel> back = rig.handler.back_channel();
    ASSERT_TRUE(back && back->connected());

    // Use the same XIDs in both directions at the same time.
    std::vector<CallResult> forth(50), backwards(50);
    std::vector<TestCall> calls;
    for (uint32_t i = 0; i < 50; ++i)
      calls.push_back({.xid = i + 1, .arguments = {chunks ? i * 300 : 100}, .results = {7}});
    for (uint32_t i = 0; i < 50; ++i) {
      rig.Begin(calls[i], forth[i]);
      Spawn(
          Store(back->Call(EncodeCall(rig.server_provider->buffers(), calls[i]), rig.ShapeOf(calls[i])), backwards[i]));
    }
    auto done = [&] {
      return std::ranges::all_of(forth, [](auto& r) { return r.has_value(); }) &&
             std::ranges::all_of(backwards, [](auto& r) { return r.has_value(); });
    };
    ASSERT_TRUE(rig.world.RunUntil(done));
    for (uint32_t i = 0; i < 50; ++i) {
      ASSERT_TRUE(*forth[i] && *backwards[i]) << i;
      EXPECT_TRUE(IsReplyTo(calls[i], **forth[i]));
      EXPECT_TRUE(IsReplyTo(calls[i], **backwards[i]));
    }
    EXPECT_EQ(back_handler.calls(), 50u);
    EXPECT_EQ(back_handler.faults(), 0u);
    EXPECT_LE(back_handler.most_running(), 3u);
    // Without chunks, the server can send only short calls.
    CallResult long_call;
    TestCall call{.xid = 77, .filler = 20'000};
    Spawn(Store(back->Call(EncodeCall(rig.server_provider->buffers(), call), rig.ShapeOf(call)), long_call));
    ASSERT_TRUE(rig.world.RunUntil([&] { return long_call.has_value(); }));
    EXPECT_EQ(long_call->has_value(), chunks);
    long_call.reset();
    forth.clear();
    backwards.clear();
    rig.Finish();
    EXPECT_EQ(rig.server, std::nullopt);
  }
}

TEST(RoundTrip, RandomCallsSucceedWithManySeeds) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Rig rig(seed);
    rig.server_options.responder.credits = 1 + seed % 9;
    rig.client_options.private_data.receive_size = 1024 * (1 + seed % 5);
    rig.server_options.private_data.receive_size = 1024 * (1 + seed % 7);
    rig.handler.set_max_delay(std::chrono::microseconds(seed % 4 * 50));
    rig.Start();
    std::vector<TestCall> calls;
    auto random = [&](uint64_t most) { return rig.world.random().Between(0, most); };
    for (uint32_t xid = 1; xid <= 30; ++xid) {
      TestCall call{.xid = xid, .filler = random(3000), .reply_filler = random(6000)};
      call.arguments.resize(random(3));
      call.results.resize(random(3));
      for (size_t& length : call.arguments) length = random(9000);
      for (size_t& length : call.results) length = random(9000);
      calls.push_back(call);
    }
    std::vector<CallResult> results(calls.size());
    for (size_t i = 0; i < calls.size(); ++i) rig.Begin(calls[i], results[i]);
    ASSERT_TRUE(
        rig.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
    for (size_t i = 0; i < calls.size(); ++i) {
      ASSERT_TRUE(*results[i]) << "seed " << seed << " call " << i;
      ASSERT_TRUE(IsReplyTo(calls[i], **results[i])) << "seed " << seed << " call " << i;
    }
    results.clear();
    rig.Finish();
  }
}

}  // namespace
}  // namespace penstock::rpcrdma
