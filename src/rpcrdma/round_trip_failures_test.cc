// Tests of a complete requester and a complete responder: calls that fail, and connections that end or that the server
// rejects.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/data.h"
#include "rpc/connection_table.h"
#include "rpcrdma/test_rig.h"

namespace penstock::rpcrdma {
namespace {

using rpc::CallError;

// Tests both a provider that reads the file, and a responder that loads the file first.
TEST(RoundTrip, AReplyWithAnUnreadableFileEndsTheConnection) {
  const auto directory = std::make_shared<const FileDescriptor>(::open("/", O_RDONLY | O_DIRECTORY));
  for (const bool file_data : {false, true}) {
    rdma::sim::Options options;
    options.limits.file_data = file_data;
    Rig rig(1, options);
    rig.Start();
    rig.handler.set_file(directory, 4);
    const auto reply = rig.Call({.xid = 1});
    ASSERT_FALSE(reply) << file_data;
    EXPECT_EQ(reply.error(), CallError::kDisconnected) << file_data;
    rig.handler.set_file(nullptr, 4);
    ASSERT_TRUE(rig.Connect());
    EXPECT_TRUE(rig.CallAndCheck({.xid = 2}));
    rig.Finish();
  }
}

TEST(RoundTrip, ACallWithAnUnreadablePayloadFails) {
  Rig rig;
  rig.Start();
  const TestCall call{.xid = 1, .arguments = {4}};
  rpc::Message message = EncodeCall(rig.client_provider->buffers(), call);
  message.items[0].data = Data(std::make_shared<const FileDescriptor>(::open("/", O_RDONLY | O_DIRECTORY)), 0, 4);
  CallResult result;
  Spawn(Store(rig.client->Call(std::move(message), rig.ShapeOf(call)), result));
  ASSERT_TRUE(rig.world.RunUntil([&] { return result.has_value(); }));
  EXPECT_EQ(result->error(), CallError::kUnreadable);
  EXPECT_EQ(rig.handler.calls(), 0u);
  rig.Finish();
}

TEST(RoundTrip, AReplyThatDoesNotFitFailsOnlyItsCall) {
  Rig rig;
  rig.Start();
  TestCall call{.xid = 5, .reply_filler = 20'000};
  CallResult result;
  rpc::ReplyShape shape;
  shape.max_stream = 10'000;
  Spawn(Store(rig.client->Call(EncodeCall(rig.client_provider->buffers(), call), shape), result));
  ASSERT_TRUE(rig.world.RunUntil([&] { return result.has_value(); }));
  EXPECT_EQ(result->error(), CallError::kRefused);
  EXPECT_EQ(rig.handler.calls(), 1u) << "the call was executed twice";
  EXPECT_TRUE(rig.CallAndCheck({.xid = 6}));
  rig.Finish();
}

TEST(RoundTrip, ACallThatCannotBeConveyedFailsAtOnce) {
  Rig rig;
  rig.Start();
  rpc::ReplyShape shape;
  shape.results.assign(300, {5000, {}});
  CallResult result;
  Spawn(Store(rig.client->Call(EncodeCall(rig.client_provider->buffers(), {}), shape), result));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->error(), CallError::kTooLarge);
  rig.Finish();
}

TEST(RoundTrip, FencesTheMemoryOfACallThatTimesOut) {
  Rig rig;
  rig.client_options.requester.call_timeout = std::chrono::seconds(4);
  rig.Start();
  EXPECT_TRUE(rig.CallAndCheck({.xid = 1}));
  rig.handler.set_delay(std::chrono::hours(1));
  const TimePoint begin = rig.world.Now();
  EXPECT_EQ(rig.Call({.xid = 2, .arguments = {5000}, .results = {5000}}).error(), CallError::kTimedOut);
  EXPECT_GE(rig.world.Now() - begin, std::chrono::seconds(4));
  EXPECT_LE(rig.world.Now() - begin, std::chrono::seconds(6));
  EXPECT_EQ(rig.network.Inspect(rig.client->endpoint()).valid_regions, 0u);
  rig.handler.set_delay(Duration::zero());
  EXPECT_TRUE(rig.CallAndCheck({.xid = 3}));
  EXPECT_EQ(rig.client->requester().credits().in_flight(), 1u) << "the late reply may still arrive";
  rig.Finish();
}

TEST(RoundTrip, ACancelledCallReturnsAtOnceAndItsCreditReturnsWithTheLateReply) {
  Rig rig;
  rig.handler.set_max_delay(std::chrono::milliseconds(1));
  rig.Start();
  CallResult result;
  rig.Begin({.xid = 7, .arguments = {100}}, result);
  rig.client->requester().Cancel(rpc::Xid(99));
  rig.client->requester().Cancel(rpc::Xid(7));
  ASSERT_TRUE(rig.world.RunUntil([&] { return result.has_value(); }));
  EXPECT_EQ(result->error(), CallError::kCancelled);
  EXPECT_EQ(rig.client->requester().credits().in_flight(), 1u);
  ASSERT_TRUE(rig.world.RunUntil([&] { return rig.client->requester().credits().in_flight() == 0; }));
  EXPECT_TRUE(rig.CallAndCheck({.xid = 8}));
  rig.Finish();
}

TEST(RoundTrip, ClosingTheClientEndsItsCalls) {
  Rig rig;
  rig.handler.set_max_delay(std::chrono::seconds(1));
  rig.Start();
  std::vector<CallResult> results(5);
  for (uint32_t i = 0; i < 5; ++i) rig.Begin({.xid = i + 1, .arguments = {9000}, .results = {9000}}, results[i]);
  rig.world.RunFor(std::chrono::microseconds(100));
  rig.client.reset();
  ASSERT_TRUE(rig.world.RunUntil([&] { return std::ranges::all_of(results, [](auto& r) { return r.has_value(); }); }));
  for (CallResult& result : results) EXPECT_EQ(result->error(), CallError::kDisconnected);
  rig.Finish();
}

TEST(RoundTrip, AStoppingServerCompletesTheCallsThatItHasAccepted) {
  Rig rig;
  rig.handler.set_max_delay(std::chrono::milliseconds(100));
  rig.Start();
  ASSERT_TRUE(rig.CallAndCheck({.xid = 1}));
  std::vector<CallResult> results(5);
  for (uint32_t i = 0; i < 5; ++i) rig.Begin({.xid = i + 2, .results = {9000}}, results[i]);
  ASSERT_TRUE(rig.world.RunUntil([&] { return rig.handler.running() == 5; }));
  bool stopped = false;
  Spawn([](Server& server, bool& done) -> Task<void> {
    co_await server.Stop(std::chrono::seconds(10));
    done = true;
  }(*rig.server, stopped));
  ASSERT_TRUE(rig.world.RunUntil([&] { return stopped; }));
  rig.server.reset();
  EXPECT_TRUE(rig.world.Run());
  for (CallResult& result : results) ASSERT_TRUE(result && *result);
  EXPECT_TRUE(rig.client->lost());
  EXPECT_EQ(rig.Call({.xid = 100}).error(), CallError::kDisconnected);
  results.clear();
  rig.Finish();
}

TEST(RoundTrip, TheServerRejectsConnectionsAboveItsLimits) {
  Rig rig;
  rig.server_options.connections =
      std::make_shared<rpc::ConnectionTable>(rpc::ConnectionTable::Limits{.connections = 1});
  rig.Start();
  std::unique_ptr<Client> first = std::move(rig.client);
  EXPECT_FALSE(rig.Connect());
  EXPECT_EQ(ParseRejection(rig.error->private_data), rpc::ConnectionTable::Refusal::kServerFull);
  first.reset();
  ASSERT_TRUE(rig.world.Run());
  EXPECT_EQ(rig.server->connections(), 0u);
  EXPECT_TRUE(rig.Connect());
  rig.Finish();

  Rig choosy;
  choosy.server_options.allow = [](const IpAddress&) { return false; };
  choosy.StartServer();
  EXPECT_FALSE(choosy.Connect());
  choosy.Finish();
}

TEST(RoundTrip, AnIdleConnectionMakesRoomForANewOne) {
  Rig rig;
  rig.server_options.connections = std::make_shared<rpc::ConnectionTable>(
      rpc::ConnectionTable::Limits{.connections = 2, .per_address = 2, .idle_limit = std::chrono::seconds(1)});
  rig.handler.set_delay(std::chrono::seconds(5));
  rig.Start();
  std::unique_ptr<Client> idle = std::move(rig.client);
  ASSERT_TRUE(rig.Connect());
  CallResult slow;
  rig.Begin({.xid = 1}, slow);
  rig.world.RunFor(std::chrono::seconds(2));
  std::unique_ptr<Client> busy = std::move(rig.client);
  EXPECT_TRUE(rig.Connect());
  ASSERT_TRUE(rig.world.RunUntil([&] { return slow.has_value(); }));
  EXPECT_TRUE(*slow);
  EXPECT_TRUE(idle->lost());
  EXPECT_FALSE(busy->lost());
  slow.reset();
  idle.reset();
  busy.reset();
  rig.Finish();
}

}  // namespace
}  // namespace penstock::rpcrdma
