#include "nfs/v4/state/sessions/bound_connections.h"

#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

class BoundConnectionsTest : public testing::Test {
 protected:
  // Makes a connection that can carry callbacks.
  SessionConnection Make(uint64_t number) { return {number, std::make_shared<TestBackChannel>(buffers_)}; }
  static void Disconnect(const SessionConnection& connection) {
    static_cast<TestBackChannel&>(*connection.back_channel).Disconnect();
  }

  BufferPool buffers_;
  BoundConnections bound_;
};

TEST_F(BoundConnectionsTest, JoinForeAddsNoBackchannel) {
  bound_.JoinFore(Make(1));
  EXPECT_TRUE(bound_.Has(1));
  EXPECT_FALSE(bound_.Has(2));
  EXPECT_FALSE(bound_.HasBack());
}

TEST_F(BoundConnectionsTest, JoinBackRequiresAConnectionThatCarriesCallbacks) {
  EXPECT_FALSE(bound_.JoinBack({.number = 1}));
  const SessionConnection connection = Make(2);
  EXPECT_TRUE(bound_.JoinBack(connection));
  EXPECT_EQ(bound_.BackChannel(), connection.back_channel);
}

// RFC 8881 §18.34.3
TEST_F(BoundConnectionsTest, BindGrantsTheRequestedChannels) {
  EXPECT_EQ(bound_.Bind(Make(1), nfs4::CDFC4_FORE), nfs4::CDFS4_FORE);
  EXPECT_EQ(bound_.Bind(Make(2), nfs4::CDFC4_BACK), nfs4::CDFS4_BACK);
  EXPECT_EQ(bound_.Bind(Make(3), nfs4::CDFC4_FORE_OR_BOTH), nfs4::CDFS4_BOTH);
  EXPECT_EQ(bound_.Bind(Make(4), nfs4::CDFC4_BACK_OR_BOTH), nfs4::CDFS4_BOTH);
}

TEST_F(BoundConnectionsTest, BindGrantsOnlyTheForeChannelWithoutCallbackSupport) {
  EXPECT_EQ(bound_.Bind({.number = 1}, nfs4::CDFC4_FORE_OR_BOTH), nfs4::CDFS4_FORE);
  EXPECT_EQ(bound_.Bind({.number = 2}, nfs4::CDFC4_BACK), std::unexpected(nfs4::NFS4ERR_INVAL));
  EXPECT_EQ(bound_.Bind({.number = 2}, nfs4::CDFC4_BACK_OR_BOTH), std::unexpected(nfs4::NFS4ERR_INVAL));
  EXPECT_FALSE(bound_.Has(2));
}

TEST_F(BoundConnectionsTest, RepeatedBindKeepsTheChannels) {
  const SessionConnection connection = Make(1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(bound_.Bind(connection, nfs4::CDFC4_FORE), nfs4::CDFS4_FORE);
  EXPECT_EQ(bound_.Bind(connection, nfs4::CDFC4_FORE_OR_BOTH), nfs4::CDFS4_FORE);
}

TEST_F(BoundConnectionsTest, BindRefusesToChangeTheChannelsOfABoundConnection) {
  const SessionConnection fore = Make(1), both = Make(2);
  ASSERT_TRUE(bound_.Bind(fore, nfs4::CDFC4_FORE));
  ASSERT_TRUE(bound_.Bind(both, nfs4::CDFC4_FORE_OR_BOTH));
  EXPECT_EQ(bound_.Bind(fore, nfs4::CDFC4_BACK), std::unexpected(nfs4::NFS4ERR_INVAL));
  EXPECT_EQ(bound_.Bind(fore, nfs4::CDFC4_BACK_OR_BOTH), std::unexpected(nfs4::NFS4ERR_INVAL));
  EXPECT_EQ(bound_.Bind(both, nfs4::CDFC4_FORE), std::unexpected(nfs4::NFS4ERR_INVAL));
  EXPECT_EQ(bound_.Bind(both, nfs4::CDFC4_BACK_OR_BOTH), nfs4::CDFS4_BOTH);
}

TEST_F(BoundConnectionsTest, BindAddsTheBackchannelAfterJoinFore) {
  const SessionConnection connection = Make(1);
  bound_.JoinFore(connection);
  EXPECT_EQ(bound_.Bind(connection, nfs4::CDFC4_FORE_OR_BOTH), nfs4::CDFS4_BOTH);
  EXPECT_TRUE(bound_.HasBack());
}

TEST_F(BoundConnectionsTest, BackChannelSkipsLostConnections) {
  const SessionConnection first = Make(1), second = Make(2);
  bound_.JoinBack(first);
  bound_.JoinBack(second);
  EXPECT_EQ(bound_.BackChannel(), first.back_channel);
  Disconnect(first);
  EXPECT_EQ(bound_.BackChannel(), second.back_channel);
  Disconnect(second);
  EXPECT_EQ(bound_.BackChannel(), nullptr);
}

TEST_F(BoundConnectionsTest, BindRestoresASuspectConnection) {
  const SessionConnection connection = Make(1);
  ASSERT_TRUE(bound_.Bind(connection, nfs4::CDFC4_FORE_OR_BOTH));
  bound_.Suspect(*connection.back_channel);
  EXPECT_FALSE(bound_.HasBack());
  ASSERT_TRUE(bound_.Bind(connection, nfs4::CDFC4_FORE_OR_BOTH));
  EXPECT_TRUE(bound_.HasBack());
}

TEST_F(BoundConnectionsTest, ForgetsLostConnectionsWhenAnotherJoins) {
  const SessionConnection lost = Make(1);
  bound_.JoinBack(lost);
  Disconnect(lost);
  bound_.JoinFore(Make(2));
  EXPECT_FALSE(bound_.Has(1));
  EXPECT_EQ(lost.back_channel.use_count(), 1);
}

TEST_F(BoundConnectionsTest, KeepsTheBackchannelWhenTheTableIsFull) {
  bound_.JoinBack(Make(1));
  for (uint64_t i = 2; i <= BoundConnections::kMax + 5; ++i) bound_.JoinFore({.number = i});
  EXPECT_TRUE(bound_.HasBack());
  EXPECT_FALSE(bound_.Has(2));
  EXPECT_TRUE(bound_.Has(BoundConnections::kMax + 5));
}

}  // namespace
}  // namespace penstock::nfs::v4
