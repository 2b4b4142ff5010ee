// Connections of a provider whose host is a script, and their requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "library/provider/host_provider_test_support.h"

namespace penstock::library {
namespace {

using testing::ElementsAre;

// ---- connecting

TEST_F(HostProviderTest, ConnectReportsTheHostsErrno) {
  for (const auto& [result, kind] :
       {std::pair(-ECONNREFUSED, ConnectError::Kind::kRefused), std::pair(-ENETDOWN, ConnectError::Kind::kUnreachable),
        std::pair(7, ConnectError::Kind::kUnreachable)}) {
    script_.connect_result = result;
    BeginConnect();
    ASSERT_TRUE(connected_);
    ASSERT_FALSE(*connected_);
    EXPECT_EQ(connected_->error().kind, kind);
    EXPECT_FALSE(connected_->error().detail.empty());
  }
}

TEST_F(HostProviderTest, ConnectReportsTheReasonOfTheHost) {
  BeginConnect();
  penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
  end.reason = PENSTOCK_RDMA_REJECTED;
  end.detail = "not\ntoday";
  end.private_data = "xyz";
  end.private_size = 3;
  EXPECT_EQ(penstock_provider_ended(host_, script_.last().connection, &end), 0);
  RunUntil([&] { return connected_.has_value(); });
  ASSERT_FALSE(*connected_);
  EXPECT_EQ(connected_->error().kind, ConnectError::Kind::kRejected);
  EXPECT_EQ(connected_->error().detail, "not today") << "one line";
  EXPECT_EQ(connected_->error().private_data.size(), 3u);
  EXPECT_TRUE(script_.last().closed);
}

TEST_F(HostProviderTest, AHostThatDoesNotAnswerIsGivenUp) {
  rdma::ConnectOptions options;
  options.time_limit = std::chrono::milliseconds(5);
  BeginConnect(std::move(options));
  RunUntil([&] { return connected_.has_value(); });
  ASSERT_FALSE(*connected_);
  EXPECT_EQ(connected_->error().kind, ConnectError::Kind::kTimedOut);
  EXPECT_TRUE(script_.last().closed);
}

TEST_F(HostProviderTest, AHostWithoutAnEndpointOrAPeerIsRefused) {
  BeginConnect();
  EXPECT_EQ(penstock_provider_connected(host_, script_.last().connection, nullptr), 0);
  RunUntil([&] { return connected_.has_value(); });
  EXPECT_FALSE(*connected_);
  script_.gives_no_endpoint = true;
  BeginConnect();
  ASSERT_TRUE(connected_);
  EXPECT_FALSE(*connected_);
}

TEST_F(HostProviderTest, TheHostMayTellFromInsideOfItsFunctions) {
  script_.on_connect = [this](ScriptedEndpoint& endpoint) {
    const penstock_rdma_peer peer = Peer();
    EXPECT_EQ(penstock_provider_connected(host_, endpoint.connection, &peer), 0);
  };
  script_.on_send = [this] {
    EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, script_.last().requests.back()), 0);
  };
  BeginConnect();
  RunUntil([&] { return connected_.has_value(); });
  ASSERT_TRUE(*connected_);
  endpoint_ = **std::move(connected_);
  size_t calls = 0;
  endpoint_->Start([&] { ++calls; });
  PostSend(1);
  EXPECT_EQ(calls, 0u) << "never from inside of a call";
  RunUntil([&] { return calls == 1; });
}

// ---- requests

TEST_F(HostProviderTest, SendsCompleteInTheOrderOfPosting) {
  Connect();
  for (const rdma::Context context : {10, 11, 12}) PostSend(context);
  const std::vector<uint64_t> requests = script_.last().requests;
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, requests[2]), 0);
  EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, requests[1]), 0);
  Settle();
  EXPECT_THAT(Successes(), ElementsAre());
  EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, requests[0]), 0);
  RunUntil([&] { return completions_.size() == 3; });
  EXPECT_THAT(Successes(), ElementsAre(10, 11, 12));
}

TEST_F(HostProviderTest, TheHostNeverHasMoreReadsThanTheDepthAllows) {
  Connect();  // with an ORD of 2
  std::array<std::byte, 8> memory{};
  for (const rdma::Context context : {10, 11, 12, 13}) {
    endpoint_->PostRead(
        {.context = context, .local = memory, .owner = {}, .remote = {.stag = {}, .length = memory.size()}});
  }
  const ScriptedEndpoint& endpoint = script_.last();
  EXPECT_EQ(endpoint.requests.size(), 2u);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[1]), 0);
  RunUntil([&] { return endpoint.requests.size() == 3; });
  EXPECT_THAT(Successes(), ElementsAre(11));
}

TEST_F(HostProviderTest, ARefusedRequestCompletesWithItsStatus) {
  Connect();
  PostSend(10);
  PostSend(11);
  penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
  end.reason = PENSTOCK_RDMA_TERMINATED;
  end.request = script_.last().requests[1];
  EXPECT_EQ(penstock_provider_ended(host_, script_.last().connection, &end), 0);
  RunUntil([&] { return completions_.size() == 5; });
  EXPECT_EQ(completions_[2].status, Status::kFlushed);
  EXPECT_EQ(completions_[3].status, Status::kRemoteAccess);
  EXPECT_EQ(completions_[4].reason, DisconnectReason::kPeerTerminated);
}

TEST_F(HostProviderTest, RequestsDoNotReachTheHostAfterDisconnect) {
  Connect();
  endpoint_->Disconnect();
  EXPECT_TRUE(script_.last().disconnected);
  PostSend(10);
  endpoint_->PostReceive({3, 512});
  std::array<std::byte, 8> memory{};
  EXPECT_FALSE(endpoint_->Register(memory, rdma::Access::kRemoteRead)->valid());
  EXPECT_THAT(script_.last().exposed, ElementsAre());
  EXPECT_THAT(script_.last().requests, ElementsAre());
  EXPECT_EQ(script_.last().receives.size(), 2u);
  penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
  end.reason = PENSTOCK_RDMA_CLOSED;
  EXPECT_EQ(penstock_provider_ended(host_, script_.last().connection, &end), 0);
  RunUntil([&] { return completions_.size() == 5; });
  EXPECT_EQ(completions_.back().reason, DisconnectReason::kLocal);
}

TEST_F(HostProviderTest, AHostThatDoesNotCloseAConnectionIsNotWaitedForLong) {
  ProviderProperties properties = host_->host->properties();
  properties.disconnect_limit = std::chrono::milliseconds(5);
  const auto impatient = std::make_shared<HostProvider>(Functions(), &script_, properties);
  AdaptedProvider provider(*loop_, impatient);
  std::optional<ConnectResult> connected;
  const auto connect = [](AdaptedProvider& by, std::optional<ConnectResult>& to) -> Task<void> {
    rdma::Address address(asio::ip::address_v4::loopback(), 4711);
    ConnectResult result = co_await by.Connect(address, {});
    to.emplace(std::move(result));
  };
  Spawn(connect(provider, connected));
  auto peer = std::make_unique<PeerFacts>();
  EXPECT_EQ(impatient->Tell({.connection = script_.last().connection, .what = Event::Connected{std::move(peer)}}), 0);
  RunUntil([&] { return connected.has_value(); });
  ASSERT_TRUE(*connected);
  const std::unique_ptr<rdma::Endpoint> endpoint = **std::move(connected);
  bool notified = false;
  endpoint->Start([&] { notified = true; });
  endpoint->Disconnect();
  RunUntil([&] { return notified; });
  EXPECT_TRUE(script_.last().closed);
}

TEST_F(HostProviderTest, ADroppedRegionIsInvalidated) {
  Connect();
  std::array<std::byte, 8> memory{};
  auto region = endpoint_->Register(memory, rdma::Access::kRemoteWrite);
  region.reset();
  const ScriptedEndpoint& endpoint = script_.last();
  ASSERT_EQ(endpoint.requests.size(), 1u);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  Settle();
  EXPECT_TRUE(completions_.empty()) << "nobody waits for it";
  --script_.next_stag;
  region = endpoint_->Register(memory, rdma::Access::kRemoteWrite);
  EXPECT_TRUE(region->valid()) << "the stag is free for other memory";
}

// ---- listening

TEST_F(HostProviderTest, ListenChecksWhatTheHostGives) {
  const rdma::Address address(asio::ip::address_v4::loopback(), 0);
  script_.listen_result = -EADDRINUSE;
  const auto refused = provider_->Listen(address);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().number, EADDRINUSE);
  script_.listen_result = 0;
  for (const std::string& actual : {std::string(), std::string("127.0.0.1:0"), std::string(200, 'x')}) {
    script_.actual_address = actual;
    EXPECT_FALSE(provider_->Listen(address)) << actual;
    EXPECT_FALSE(script_.listens) << "the listener is freed";
  }
}

TEST_F(HostProviderTest, PeersThatNobodyAcceptsAreRejected) {
  const auto listener = provider_->Listen(rdma::Address(asio::ip::address_v4::loopback(), 0));
  ASSERT_TRUE(listener);
  const penstock_rdma_peer peer = Peer();
  const auto ask = [&] {
    script_.endpoints.push_back(std::make_unique<ScriptedEndpoint>());
    return penstock_provider_requested(host_, script_.listener, &script_.last(), &peer, &script_.last().connection);
  };
  ASSERT_EQ(ask(), 0);  // waits in the listener
  Settle();
  ASSERT_EQ(ask(), 0);  // is on its way to the loop
  (*listener)->Close();
  EXPECT_FALSE(script_.listens);
  Settle();
  EXPECT_TRUE(script_.endpoints[0]->rejected);
  EXPECT_TRUE(script_.endpoints[1]->rejected);
  EXPECT_EQ(ask(), -ENOENT);
  script_.endpoints.pop_back();
}

TEST_F(HostProviderTest, APeerOnItsWayToADestroyedProviderIsRejected) {
  auto listener = provider_->Listen(rdma::Address(asio::ip::address_v4::loopback(), 0));
  ASSERT_TRUE(listener);
  const penstock_rdma_peer peer = Peer();
  script_.endpoints.push_back(std::make_unique<ScriptedEndpoint>());
  ASSERT_EQ(penstock_provider_requested(host_, script_.listener, &script_.last(), &peer, &script_.last().connection),
            0);
  listener->reset();
  provider_.reset();
  EXPECT_TRUE(script_.last().rejected);
}

TEST_F(HostProviderTest, TooManyWaitingPeersAreRefused) {
  const auto listener = provider_->Listen(rdma::Address(asio::ip::address_v4::loopback(), 0));
  ASSERT_TRUE(listener);
  const penstock_rdma_peer peer = Peer();
  int result = 0;
  size_t asked = 0;
  for (; result == 0 && asked < 10'000; ++asked) {
    script_.endpoints.push_back(std::make_unique<ScriptedEndpoint>());
    result = penstock_provider_requested(host_, script_.listener, &script_.last(), &peer, &script_.last().connection);
  }
  EXPECT_EQ(result, -EAGAIN);
  EXPECT_GT(asked, 1000u);
  script_.endpoints.pop_back();
  Settle();
}

TEST_F(HostProviderTest, APeerThatGivesUpIsNotAccepted) {
  const auto listener = provider_->Listen(rdma::Address(asio::ip::address_v4::loopback(), 0));
  ASSERT_TRUE(listener);
  std::unique_ptr<rdma::ConnectionRequest> request;
  const auto next = [](rdma::Listener& from, std::unique_ptr<rdma::ConnectionRequest>& to) -> Task<void> {
    to = co_await from.Next();
  };
  Spawn(next(**listener, request));
  const penstock_rdma_peer peer = Peer();
  script_.endpoints.push_back(std::make_unique<ScriptedEndpoint>());
  ASSERT_EQ(penstock_provider_requested(host_, script_.listener, &script_.last(), &peer, &script_.last().connection),
            0);
  RunUntil([&] { return request != nullptr; });
  EXPECT_EQ(penstock_provider_ended(host_, script_.last().connection, nullptr), 0);
  Settle();
  EXPECT_TRUE(script_.last().closed);
  std::optional<ConnectResult> accepted;
  const auto accept = [](rdma::ConnectionRequest& of, std::optional<ConnectResult>& to) -> Task<void> {
    ConnectResult result = co_await of.Accept({});
    to.emplace(std::move(result));
  };
  Spawn(accept(*request, accepted));
  ASSERT_TRUE(accepted);
  EXPECT_FALSE(*accepted);
  EXPECT_FALSE(script_.last().accepted);
}

}  // namespace
}  // namespace penstock::library
