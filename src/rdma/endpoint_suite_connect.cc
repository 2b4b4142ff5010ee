// Tests of connection set-up (provider.h).
#include <gmock/gmock.h>

#include <algorithm>
#include <stop_token>

#include "rdma/endpoint_suite.h"

namespace penstock::rdma {
namespace {

std::vector<std::byte> Octets(std::string_view text) {
  ConstBytes bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

TEST_P(EndpointSuite, PrivateDataReachesBothSides) {
  for (size_t size : {size_t{0}, size_t{1}, env_->max_private_data()}) {
    auto from_client = Pattern(size, 1);
    auto from_server = Pattern(size, 2);
    auto next = Begin(listener_->Next());
    ConnectOptions asking;
    asking.private_data = from_client;
    auto connecting = Begin(client_provider_->Connect(listener_->local(), asking));
    auto request = Await(next);
    ASSERT_TRUE(request);
    ExpectPrivateData(request->private_data(), from_client);
    ConnectOptions answering;
    answering.private_data = from_server;
    auto accepted = Await(request->Accept(answering));
    ASSERT_TRUE(accepted);
    auto connected = Await(connecting);
    ASSERT_TRUE(connected);
    ExpectPrivateData((*accepted)->info().private_data, from_client);
    ExpectPrivateData((*connected)->info().private_data, from_server);
  }
}

TEST_P(EndpointSuite, InfoNamesProviderAndAddressesOfBothSides) {
  Connect();
  const ConnectionInfo& client = client_->endpoint().info();
  const ConnectionInfo& server = server_->endpoint().info();
  EXPECT_EQ(client.provider, client_provider_->name());
  EXPECT_EQ(server.provider, server_provider_->name());
  EXPECT_EQ(client.peer, listener_->local());
  EXPECT_EQ(server.peer, client.local);
  EXPECT_GT(client_->endpoint().limits().max_message, 0u);
  EXPECT_GT(client_->endpoint().limits().max_transfer, 0u);
}

TEST_P(EndpointSuite, OrdNeverExceedsTheIrdOfThePeer) {
  ConnectOptions client, server;
  client.ird = 3, client.ord = 9;
  server.ird = 5, server.ord = 2;
  Connect(client, server);
  const ConnectionInfo& at_client = client_->endpoint().info();
  const ConnectionInfo& at_server = server_->endpoint().info();
  EXPECT_LE(at_client.ord, env_->limits_reads() ? 5 : 9);
  EXPECT_GE(at_client.ord, 1);
  EXPECT_LE(at_client.ord, at_server.ird);
  EXPECT_LE(at_server.ord, 2);
  EXPECT_GE(at_server.ord, 1);
  EXPECT_LE(at_server.ord, at_client.ird);
  EXPECT_EQ(at_server.peer_depths, (ReadDepths{.ird = 3, .ord = 9}));
  ASSERT_TRUE(at_client.peer_depths);
  EXPECT_EQ(*at_client.peer_depths, (ReadDepths{.ird = at_server.ird, .ord = at_server.ord}));
}

TEST_P(EndpointSuite, RejectionCarriesPrivateData) {
  auto next = Begin(listener_->Next());
  auto connecting = Begin(client_provider_->Connect(listener_->local(), {}));
  auto request = Await(next);
  ASSERT_TRUE(request);
  request->Reject(Octets("not today"));
  request.reset();
  auto connected = Await(connecting);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().kind, ConnectError::Kind::kRejected);
  ExpectPrivateData(connected.error().private_data, AsBytes("not today"));
}

TEST_P(EndpointSuite, DestroyingARequestRejectsIt) {
  auto next = Begin(listener_->Next());
  auto connecting = Begin(client_provider_->Connect(listener_->local(), {}));
  Await(next).reset();
  auto connected = Await(connecting);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().kind, ConnectError::Kind::kRejected);
}

TEST_P(EndpointSuite, ConnectFailsWithoutAListener) {
  auto connected = Await(client_provider_->Connect(env_->UnusedAddress(), {}));
  ASSERT_FALSE(connected);
  EXPECT_THAT(connected.error().kind, testing::AnyOf(ConnectError::Kind::kRefused, ConnectError::Kind::kUnreachable));
  EXPECT_FALSE(connected.error().detail.empty());
}

TEST_P(EndpointSuite, ClosedListenerAcceptsNoConnections) {
  auto next = Begin(listener_->Next());
  Address address = listener_->local();
  listener_->Close();
  EXPECT_FALSE(Await(next)) << "Close() ends a waiting Next() with null";
  EXPECT_FALSE(Await(listener_->Next())) << "each later Next() returns null";
  auto connected = Await(client_provider_->Connect(address, {}));
  EXPECT_FALSE(connected);
}

TEST_P(EndpointSuite, AddressCanBeUsedAgainAfterItsListenerIsDestroyed) {
  Address address = listener_->local();
  listener_.reset();
  auto again = server_provider_->Listen(address);
  ASSERT_TRUE(again) << again.error().message;
  listener_ = *std::move(again);
  Connect();
}

TEST_P(EndpointSuite, SharedListenerServesBothProviders) {
  auto other_provider = env_->MakeProvider();
  auto shared = listener_->Share(*other_provider);
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_EQ((*shared)->local(), listener_->local());

  // After the first listener is closed, the second one takes all peers.
  listener_->Close();
  std::swap(listener_, *shared);
  for (int i = 0; i < 3; ++i) {
    Pair pair = MakePair();
    EXPECT_EQ(&pair.server->endpoint().buffers(), &other_provider->buffers());
    pair.client->Start();
    pair.server->Start();
    Finish(*pair.client, *pair.server);
  }
  listener_.reset();
}

TEST_P(EndpointSuite, SharersOfAListenerAcceptPeersInTurn) {
  if (!env_->takes_turns()) GTEST_SKIP() << "the first free listener takes a peer";
  auto other_provider = env_->MakeProvider();
  auto shared = listener_->Share(*other_provider);
  ASSERT_TRUE(shared) << shared.error().message;
  std::vector<Pending<ConnectResult>> connecting;
  connecting.reserve(4);
  for (int i = 0; i < 4; ++i) connecting.push_back(Begin(client_provider_->Connect(listener_->local(), {})));
  for (Listener* const listener : {listener_.get(), listener_.get(), shared->get(), shared->get()}) {
    EXPECT_TRUE(Await(listener->Next())) << "the test drops the request, which rejects it";
  }
  for (const auto& each : connecting) EXPECT_FALSE(Await(each));
}

TEST_P(EndpointSuite, ManyPeersConnectAtOnce) {
  constexpr size_t kPeers = 20;
  std::vector<Pending<ConnectResult>> connecting;
  for (size_t i = 0; i < kPeers; ++i) {
    ConnectOptions options;
    options.private_data = Octets(std::to_string(i));
    options.receives = Receives(1, 512);
    connecting.push_back(Begin(client_provider_->Connect(listener_->local(), std::move(options))));
  }
  std::vector<Pair> pairs(kPeers);
  for (size_t i = 0; i < kPeers; ++i) {
    auto request = Await(listener_->Next());
    ASSERT_TRUE(request);
    size_t index = std::stoul(std::string(AsText(request->private_data())).c_str());
    ASSERT_LT(index, kPeers);
    auto accepted = Await(request->Accept({}));
    ASSERT_TRUE(accepted) << accepted.error().detail;
    EXPECT_EQ(pairs[index].server, nullptr) << "each request must come once";
    pairs[index].server = std::make_unique<SuitePeer>(*std::move(accepted));
  }
  for (size_t i = 0; i < kPeers; ++i) {
    auto connected = Await(connecting[i]);
    ASSERT_TRUE(connected) << connected.error().detail;
    pairs[i].client = std::make_unique<SuitePeer>(*std::move(connected), 1);
  }
  for (size_t i = 0; i < kPeers; ++i) {
    pairs[i].client->Start();
    pairs[i].server->Start();
    pairs[i].server->PostSend("to " + std::to_string(i));
  }
  for (size_t i = 0; i < kPeers; ++i) {
    RunUntilDone(*pairs[i].client, 1);
    EXPECT_EQ(pairs[i].client->Text(1), "to " + std::to_string(i));
    Finish(*pairs[i].client, *pairs[i].server);
  }
}

TEST_P(EndpointSuite, AConnectEndsWhenItIsAskedToStop) {
  std::stop_source stop;
  ConnectOptions options;
  options.stop = stop.get_token();
  auto connecting = Begin(client_provider_->Connect(listener_->local(), std::move(options)));
  stop.request_stop();
  auto connected = Await(connecting);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().kind, ConnectError::Kind::kCancelled);
}

TEST_P(EndpointSuite, DestroyingAProviderCancelsItsConnects) {
  auto connecting = Begin(client_provider_->Connect(listener_->local(), {}));
  client_provider_.reset();
  auto connected = Await(connecting);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().kind, ConnectError::Kind::kCancelled);
}

}  // namespace
}  // namespace penstock::rdma
