// Mistakes of the host of a provider.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "library/provider/host_provider_test_support.h"

namespace penstock::library {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- mistakes

TEST_F(HostProviderTest, ARequestThatCompletesTwiceEndsTheConnection) {
  Connect();
  PostSend(10);
  const ScriptedEndpoint& endpoint = script_.last();
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  ExpectFault("tells of a request that is not posted");
  EXPECT_THAT(Successes(), ElementsAre(10));
}

TEST_F(HostProviderTest, AMessageThatIsReceivedTwiceEndsTheConnection) {
  Connect();
  const ScriptedEndpoint& endpoint = script_.last();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(penstock_provider_received(host_, endpoint.connection, endpoint.receives[0].request, 100, nullptr, 0), 0);
  }
  ExpectFault("tells of a receive that is not posted");
  EXPECT_THAT(Successes(), ElementsAre(1));
}

TEST_F(HostProviderTest, ALengthBeyondTheBufferEndsTheConnection) {
  Connect();
  const ScriptedEndpoint& endpoint = script_.last();
  const penstock_rdma_receive& receive = endpoint.receives[0];
  for (const size_t length : {receive.size + 1, SIZE_MAX}) {
    EXPECT_EQ(penstock_provider_received(host_, endpoint.connection, receive.request, length, nullptr, 0), 0);
  }
  ExpectFault("tells a length beyond the end of the buffer");
  EXPECT_THAT(Successes(), ElementsAre());
  ASSERT_EQ(completions_.size(), 3u) << "both receives return their buffers";
  EXPECT_TRUE(completions_[0].buffer && completions_[1].buffer);
}

TEST_F(HostProviderTest, UnknownRequestsEndTheConnection) {
  for (const uint64_t request : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4}, UINT64_MAX}) {
    completions_.clear();
    Connect();
    EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, request), 0);
    ExpectFault("penstock_provider_completed() tells of a request that is not posted");
    endpoint_.reset();
  }
}

TEST_F(HostProviderTest, AReceiveThatIsToldAsAnotherRequestEndsTheConnection) {
  Connect();
  EXPECT_EQ(penstock_provider_completed(host_, script_.last().connection, script_.last().receives[0].request), 0);
  ExpectFault("tells of a request that is not posted");
}

TEST_F(HostProviderTest, AnUnknownInvalidatedStagEndsTheConnection) {
  Connect();
  const uint32_t stag = 77;
  const ScriptedEndpoint& endpoint = script_.last();
  EXPECT_EQ(penstock_provider_received(host_, endpoint.connection, endpoint.receives[0].request, 1, &stag, 0), 0);
  ExpectFault("tells an unknown stag");
  EXPECT_THAT(Successes(), ElementsAre());
}

TEST_F(HostProviderTest, AStagThatIsGivenTwiceEndsTheConnection) {
  Connect();
  std::array<std::byte, 8> memory{};
  const auto first = endpoint_->Register(memory, rdma::Access::kRemoteRead);
  EXPECT_TRUE(first->valid());
  --script_.next_stag;
  const auto second = endpoint_->Register(memory, rdma::Access::kRemoteRead);
  EXPECT_FALSE(second->valid());
  EXPECT_FALSE(first->valid());
  ExpectFault("has given the stag of other memory");
}

TEST_F(HostProviderTest, AConnectionThatIsConnectedTwiceEnds) {
  Connect();
  const penstock_rdma_peer peer = Peer();
  EXPECT_EQ(penstock_provider_connected(host_, script_.last().connection, &peer), 0);
  ExpectFault("tells of a connection that is not being made");
}

TEST_F(HostProviderTest, AMessageBeforeTheConnectionIsOpenEndsIt) {
  BeginConnect();
  EXPECT_EQ(penstock_provider_received(host_, script_.last().connection, 4, 1, nullptr, 0), 0);
  RunUntil([&] { return connected_.has_value(); });
  ASSERT_FALSE(*connected_);
  EXPECT_EQ(connected_->error().kind, ConnectError::Kind::kProtocol);
  EXPECT_TRUE(script_.last().closed);
}

TEST_F(HostProviderTest, AFunctionThatFailsEndsTheConnection) {
  for (const int result : {-EIO, 5, -100'000}) {
    completions_.clear();
    Connect();
    script_.send_result = result;
    PostSend(10);
    RunUntil([&] { return completions_.size() == 4; });
    EXPECT_EQ(completions_[2].context, 10u);
    EXPECT_EQ(completions_[2].status, Status::kLocalError);
    EXPECT_EQ(completions_[3].reason, DisconnectReason::kFault);
    EXPECT_TRUE(script_.last().closed);
    endpoint_.reset();
  }
  EXPECT_THAT(log_.text(), HasSubstr("send has returned 5, which is neither zero nor a negative errno"));
}

TEST_F(HostProviderTest, AFunctionThatThrowsEndsTheConnection) {
  Connect();
  script_.on_send = [] { throw std::runtime_error("out of cheese"); };
  PostSend(10);
  RunUntil([&] { return completions_.size() == 4; });
  EXPECT_EQ(completions_[2].status, Status::kLocalError);
  EXPECT_THAT(log_.text(), HasSubstr("send has thrown an exception: out of cheese"));
}

TEST_F(HostProviderTest, StatementsAboutEndedConnectionsAreErrors) {
  Connect();
  PostSend(10);
  const ScriptedEndpoint& endpoint = script_.last();
  endpoint_.reset();
  EXPECT_TRUE(endpoint.closed);
  const penstock_rdma_peer peer = Peer();
  EXPECT_EQ(penstock_provider_connected(host_, endpoint.connection, &peer), -ENOENT);
  EXPECT_EQ(penstock_provider_received(host_, endpoint.connection, endpoint.receives[0].request, 1, nullptr, 0),
            -ENOENT);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), -ENOENT);
  EXPECT_EQ(penstock_provider_ended(host_, endpoint.connection, nullptr), -ENOENT);
  EXPECT_EQ(penstock_provider_completed(host_, UINT64_MAX, 4), -ENOENT);
  Settle();
}

TEST_F(HostProviderTest, StatementsOnTheirWayToAnEndedConnectionAreDropped) {
  Connect();
  PostSend(10);
  const ScriptedEndpoint& endpoint = script_.last();
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  EXPECT_EQ(penstock_provider_ended(host_, endpoint.connection, nullptr), 0);
  EXPECT_EQ(penstock_provider_ended(host_, endpoint.connection, nullptr), 0);
  EXPECT_EQ(penstock_provider_completed(host_, endpoint.connection, endpoint.requests[0]), 0);
  RunUntil([&] { return completions_.size() == 4; });
  EXPECT_EQ(completions_.back().reason, DisconnectReason::kPeerReset);
  EXPECT_THAT(Successes(), ElementsAre(10));
  Settle();
  EXPECT_EQ(completions_.size(), 4u);
}

TEST_F(HostProviderTest, WrongArgumentsAreErrors) {
  BeginConnect();
  const uint64_t connection = script_.last().connection;
  penstock_rdma_peer peer = Peer();
  const auto tell = [&] { return penstock_provider_connected(host_, connection, &peer); };
  peer.peer = "somewhere";
  EXPECT_EQ(tell(), -EINVAL);
  peer.peer = nullptr;
  EXPECT_EQ(tell(), -EINVAL);
  peer = Peer();
  peer.private_size = 2000;
  EXPECT_EQ(tell(), -EINVAL);
  peer.private_size = 1;
  EXPECT_EQ(tell(), -EINVAL) << "there are no octets";
  peer = Peer();
  peer.size = 0;
  EXPECT_EQ(tell(), -EINVAL);
  penstock_rdma_end end = PENSTOCK_RDMA_END_INIT;
  const unsigned unknown = 99;
  std::memcpy(&end.reason, &unknown, sizeof unknown);
  EXPECT_EQ(penstock_provider_ended(host_, connection, &end), -EINVAL);
  EXPECT_EQ(penstock_provider_completed(nullptr, connection, 4), -EINVAL);
  Settle();
  EXPECT_FALSE(connected_) << "the connection is still being made";
  provider_.reset();
  EXPECT_TRUE(connected_);
}

}  // namespace
}  // namespace penstock::library
