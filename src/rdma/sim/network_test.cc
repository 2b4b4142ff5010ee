// Tests of the properties that only the simulated network has: planned faults, and the same run from the same seed.
#include "rdma/sim/network.h"

#include <gmock/gmock.h>

#include <array>

#include "base/address.h"
#include "rdma/endpoint_suite.h"

namespace penstock::rdma::sim {
namespace {

using testing::IsEmpty;

// A client and a server that post at least one request of each kind.
class Scenario {
 public:
  explicit Scenario(uint64_t seed, Options options = {}) : world(seed), network(world, options) {}

  ~Scenario() {
    client.reset();
    server.reset();
    listener.reset();
    world.Run();
    client_provider.reset();
    server_provider.reset();
  }

  // Runs to the end. Returns false if no connection was made.
  bool Run() {
    listener = *server_provider->Listen(Address(asio::ip::address_v4::any(), 20049));
    Spawn(Serve(*this));
    Spawn(Connect(*this));
    world.Run();
    return client && server;
  }

  World world;
  Network network;
  std::unique_ptr<Provider> server_provider = network.MakeProvider(), client_provider = network.MakeProvider();
  std::unique_ptr<Listener> listener;
  std::unique_ptr<SuitePeer> client, server;
  std::optional<ConnectError> error;
  std::vector<std::byte> source = std::vector<std::byte>(40'000, std::byte{1});
  std::vector<std::byte> target = std::vector<std::byte>(40'000), local = std::vector<std::byte>(40'000);
  std::unique_ptr<MemoryRegion> readable, writable, unused;

 private:
  static Task<void> Serve(Scenario& self) {
    std::unique_ptr<ConnectionRequest> request = co_await self.listener->Next();
    if (!request) co_return;
    ConnectOptions options;
    ConnectResult result = co_await request->Accept(options);
    if (!result) co_return;
    self.server = std::make_unique<SuitePeer>(*std::move(result));
    self.server->PostReceives(4, 4096);
    self.server->Start();
    self.readable = self.server->endpoint().Register(self.source, Access::kRemoteRead);
    self.writable = self.server->endpoint().Register(self.target, Access::kRemoteWrite);
    self.unused = self.server->endpoint().Register(self.target, Access::kRemoteWrite);
    self.server->PostInvalidate(*self.unused);
    self.Begin();
  }
  static Task<void> Connect(Scenario& self) {
    ConnectOptions options;
    Address address(asio::ip::make_address("10.0.0.1"), 20049);
    ConnectResult result = co_await self.client_provider->Connect(address, options);
    if (!result) {
      self.error = result.error();
      co_return;
    }
    self.client = std::make_unique<SuitePeer>(*std::move(result));
    self.client->PostReceives(4, 4096);
    self.client->Start();
    self.Begin();
  }
  void Begin() {
    if (!client || !server) return;
    client->PostSend("call");
    server->PostSend("answer");
    Gather gather;
    gather.push_back(Slice::Borrowed(source));
    client->PostWrite(gather, writable->Segment(0, target.size()));
    client->PostRead(local, readable->Segment(0, source.size()));
    client->PostSend(Gather{}, true, writable->stag());
  }
};

TEST(Network, SameSeedGivesTheSameRun) {
  Scenario a(11), b(11), c(12);
  for (Scenario* scenario : {&a, &b, &c}) ASSERT_TRUE(scenario->Run());
  EXPECT_EQ(a.world.trace(), b.world.trace());
  EXPECT_NE(a.world.trace(), c.world.trace());
  EXPECT_THAT(a.world.TraceText(), testing::HasSubstr("seed 11"));
}

TEST(Network, CountsDeliveredRequests) {
  Scenario scenario(3);
  ASSERT_TRUE(scenario.Run());
  const Stats& stats = scenario.network.stats();
  EXPECT_EQ(stats.connections, 1u);
  EXPECT_EQ(stats.sends, 3u);
  EXPECT_EQ(stats.writes, 1u);
  EXPECT_EQ(stats.reads, 1u);
  EXPECT_EQ(stats.invalidations, 1u);
  EXPECT_EQ(stats.octets, 10u + 2 * 40'000u);
  EXPECT_EQ(stats.refused_accesses, 0u);
  EndpointState server = scenario.network.Inspect(scenario.server->endpoint());
  EXPECT_EQ(server.posted_receives, 2u);
  EXPECT_EQ(server.outstanding_requests, 0u);
  EXPECT_EQ(server.valid_regions, 1u) << "two of the three regions were invalidated";
  EXPECT_THAT(scenario.network.violations(), IsEmpty());
}

// Loses the connection at each step in turn. Each request completes once, and both sides get kDisconnected.
TEST(Network, LossAtAnyStepCompletesEveryRequest) {
  Scenario whole(5);
  ASSERT_TRUE(whole.Run());
  ASSERT_GT(whole.network.steps(), 10u);
  for (uint64_t step = 1; step <= whole.network.steps(); ++step) {
    Scenario scenario(5);
    scenario.network.faults().lose_at = step;
    scenario.Run();
    if (scenario.client) {
      EXPECT_EQ(scenario.client->reason(), DisconnectReason::kPeerReset) << "step " << step;
      EXPECT_EQ(scenario.client->outstanding(), 0u) << "step " << step;
    } else {
      ASSERT_TRUE(scenario.error) << "step " << step;
      EXPECT_EQ(scenario.error->kind, ConnectError::Kind::kUnreachable);
    }
    if (scenario.server) {
      EXPECT_EQ(scenario.server->reason(), DisconnectReason::kPeerReset) << "step " << step;
      EXPECT_EQ(scenario.server->outstanding(), 0u) << "step " << step;
      EXPECT_EQ(scenario.network.Inspect(scenario.server->endpoint()).valid_regions, 0u);
    }
    EXPECT_THAT(scenario.network.violations(), IsEmpty());
  }
}

TEST(Network, LosesConnectionsByChance) {
  int lost = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Scenario scenario(seed);
    scenario.network.faults().lose = 0.05;
    if (!scenario.Run() || scenario.client->disconnected()) ++lost;
  }
  EXPECT_GT(lost, 5);
  EXPECT_LT(lost, 50);
}

TEST(Network, RefusesThePlannedAccess) {
  for (uint64_t access : {1, 2}) {
    Scenario scenario(6);
    scenario.network.faults().refuse_at = access;
    ASSERT_TRUE(scenario.Run());
    EXPECT_EQ(scenario.client->reason(), DisconnectReason::kPeerTerminated);
    EXPECT_EQ(scenario.server->reason(), DisconnectReason::kProtocolError);
    EXPECT_EQ(scenario.network.stats().refused_accesses, 1u);
    EXPECT_EQ(scenario.client->outstanding(), 0u);
  }
}

TEST(Network, LosesConnectionsOnDemand) {
  Scenario scenario(6);
  ASSERT_TRUE(scenario.Run());
  scenario.network.Lose(scenario.client->endpoint());
  scenario.world.Run();
  EXPECT_EQ(scenario.client->reason(), DisconnectReason::kPeerReset);
  EXPECT_EQ(scenario.server->reason(), DisconnectReason::kPeerReset);

  Scenario other(6);
  ASSERT_TRUE(other.Run());
  other.network.LoseAll();
  other.world.Run();
  EXPECT_EQ(other.client->reason(), DisconnectReason::kPeerReset);
}

TEST(Network, ConnectFailsAsPlanned) {
  using Kind = ConnectError::Kind;
  for (Kind kind : {Kind::kUnreachable, Kind::kRefused, Kind::kRejected, Kind::kTimedOut, Kind::kProtocol}) {
    Scenario scenario(1);
    scenario.network.faults().connects = {kind};
    EXPECT_FALSE(scenario.Run());
    ASSERT_TRUE(scenario.error);
    EXPECT_EQ(scenario.error->kind, kind);
  }
}

TEST(Network, ConnectTimesOutWithoutAnAnswer) {
  World world(1);
  Network network(world);
  auto provider = network.MakeProvider();
  auto listener = provider->Listen(Address(asio::ip::address_v4::any(), 1));
  ASSERT_TRUE(listener);
  std::optional<ConnectError> error;
  auto connect = [](Provider& from, std::optional<ConnectError>& out) -> Task<void> {
    ConnectOptions options;
    ConnectResult result = co_await from.Connect(Address(asio::ip::make_address("10.0.0.1"), 1), options);
    if (!result) out = result.error();
  };
  TimePoint start = world.Now();
  Spawn(connect(*provider, error));
  world.Run();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ConnectError::Kind::kTimedOut);
  EXPECT_EQ(world.Now() - start, network.options().connect_timeout);
}

// If the owner reuses memory before its request completes, the peer receives the changed octets, for some of the seeds.
TEST(Network, PeerReceivesChangesOfMemoryReusedTooEarly) {
  int seen = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario(seed);
    ASSERT_TRUE(scenario.Run());
    std::string text = "the answer";
    Gather gather;
    gather.push_back(Slice::Borrowed(AsBytes(text)));
    scenario.server->PostSend(gather);
    text.assign(text.size(), '!');
    Context last = 2;
    scenario.world.Run();
    if (scenario.client->Text(last) != "the answer") ++seen;
  }
  EXPECT_GT(seen, 5);
}

TEST(Network, PoisonsPostedMemory) {
  Scenario scenario(1);
  ASSERT_TRUE(scenario.Run());
  BufferRef buffer = scenario.client_provider->buffers().Allocate(512);
  buffer->bytes()[3] = std::byte{1};
  scenario.client->endpoint().PostRead(
      {.context = 100, .local = buffer->bytes(), .owner = buffer, .remote = {Stag(1), 512, 0}});
  EXPECT_EQ(buffer->bytes()[3], std::byte{0xA5});
  std::array<Completion, 8> out;
  scenario.client->endpoint().Poll(out);
  scenario.client->Destroy();
}

TEST(Network, FailedInvalidationCompletesWhenTheConnectionIsLost) {
  Scenario scenario(1);
  ASSERT_TRUE(scenario.Run());
  scenario.network.faults().fail_invalidations = true;
  const Context invalidation = scenario.server->PostInvalidate(*scenario.readable);
  EXPECT_TRUE(scenario.readable->valid());
  scenario.world.Run();
  EXPECT_EQ(scenario.server->StatusOf(invalidation), Status::kLocalError);
  EXPECT_EQ(scenario.server->reason(), DisconnectReason::kFault);
  EXPECT_EQ(scenario.client->reason(), DisconnectReason::kPeerReset);
  EXPECT_FALSE(scenario.readable->valid());
}

TEST(Network, RecordsMisuse) {
  Scenario scenario(1);
  ASSERT_TRUE(scenario.Run());
  scenario.server->PostInvalidate(*scenario.readable);
  scenario.readable.reset();  // before the invalidation has completed
  EXPECT_EQ(scenario.network.violations().size(), 1u);
}

}  // namespace
}  // namespace penstock::rdma::sim
