#include "nfs/v4/state/sess01/channels.h"

#include <gtest/gtest.h>

namespace penstock::nfs::v4::sess01 {
namespace {

using Standing = ChannelState::Standing;
using enum ChannelState::Standing;

class ChannelsTest : public testing::Test {
 protected:
  // Returns the number of the new channel, or 0 if the binding was refused.
  uint32_t Bind(uint64_t connection, nfs4::ChannelType type = nfs4::OPERATION) {
    const auto channel = channels_.Bind(connection, type);
    if (!channel) {
      EXPECT_EQ(channel.error(), nfs4::NFS4ERR_SESS01_BADBIND);
    }
    return channel ? channel->value() : 0;
  }
  size_t Close(uint64_t connection) { return channels_.CloseConnection(connection).size(); }
  Standing StandingOf(uint32_t channel) { return channels_.Named(ChannelId(channel)).standing; }
  Retries* RetriesOf(uint32_t channel) { return channels_.Named(ChannelId(channel)).retries; }

  Channels channels_;
};

TEST_F(ChannelsTest, NumbersChannelsFromOneAndNeverTwice) {
  EXPECT_EQ(Bind(10), 1u);
  EXPECT_EQ(Bind(11), 2u);
  EXPECT_EQ(Close(11), 1u);
  EXPECT_EQ(Bind(12), 3u);
}

TEST_F(ChannelsTest, RefusesASecondOperationsChannelOnAConnection) {
  ASSERT_EQ(Bind(10), 1u);
  EXPECT_EQ(Bind(10), 0u);
  EXPECT_EQ(Bind(11), 2u) << "the refused binding used no number";
}

TEST_F(ChannelsTest, OneConnectionCarriesBothChannels) {
  ASSERT_EQ(Bind(10, nfs4::BACK), 1u);
  ASSERT_EQ(Bind(10, nfs4::OPERATION), 2u);
  EXPECT_EQ(channels_.OperationsChannelOf(10), ChannelId(2));
  EXPECT_EQ(channels_.BackChannel(), ChannelId(1));
  EXPECT_EQ(channels_.ConnectionOf(ChannelId(1)), 10u);
  EXPECT_EQ(channels_.ConnectionOf(ChannelId(2)), 10u);
  EXPECT_EQ(channels_.connections().size(), 1u);
}

TEST_F(ChannelsTest, RefusesASecondBackChannelWhileTheFirstLives) {
  ASSERT_EQ(Bind(10, nfs4::BACK), 1u);
  EXPECT_EQ(Bind(10, nfs4::BACK), 0u);
  EXPECT_EQ(Bind(11, nfs4::BACK), 0u);
  Close(10);
  EXPECT_EQ(Bind(11, nfs4::BACK), 2u);
}

TEST_F(ChannelsTest, RefusesTheFirstBackChannelAfterAnOperationsChannel) {
  ASSERT_EQ(Bind(10), 1u);
  EXPECT_EQ(Bind(11, nfs4::BACK), 0u);
  EXPECT_EQ(Bind(10, nfs4::BACK), 0u);
  Close(10);
  EXPECT_EQ(Bind(11, nfs4::BACK), 0u) << "the session has had an operations channel";
}

TEST_F(ChannelsTest, ReplacesALostBackChannelAtAnyTime) {
  ASSERT_EQ(Bind(10, nfs4::BACK), 1u);
  ASSERT_EQ(Bind(11), 2u);
  Close(10);
  EXPECT_EQ(channels_.BackChannel(), std::nullopt);
  EXPECT_EQ(Bind(12, nfs4::BACK), 3u);
  EXPECT_EQ(channels_.BackChannel(), ChannelId(3));
}

TEST_F(ChannelsTest, RefusesTheSixtyFifthConnection) {
  for (uint64_t connection = 0; connection < 64; ++connection) ASSERT_NE(Bind(connection, nfs4::OPERATION), 0u);
  EXPECT_EQ(Bind(64), 0u);
  Close(5);
  EXPECT_NE(Bind(64), 0u);
  EXPECT_EQ(channels_.connections().size(), 64u);
}

TEST_F(ChannelsTest, AFullSessionBindsASecondChannelOfABoundConnection) {
  ASSERT_NE(Bind(0, nfs4::BACK), 0u);
  for (uint64_t connection = 1; connection < 64; ++connection) ASSERT_NE(Bind(connection), 0u);
  EXPECT_NE(Bind(0), 0u);
}

TEST_F(ChannelsTest, ARefusedOperationsChannelIsNoOperationsChannel) {
  const Channels before = channels_;
  channels_ = Channels(ChannelId(UINT32_MAX), false);
  EXPECT_EQ(Bind(10), 0u);
  channels_ = before;
  EXPECT_EQ(Bind(10, nfs4::BACK), 1u);
}

TEST_F(ChannelsTest, CloseReturnsTheChannelsOfTheConnection) {
  Bind(10, nfs4::BACK);
  Bind(10);
  Bind(11);
  EXPECT_EQ(channels_.CloseConnection(10), (std::vector{ChannelId(2), ChannelId(1)}));
  EXPECT_EQ(channels_.CloseConnection(10), std::vector<ChannelId>());
  EXPECT_EQ(channels_.CloseConnection(99), std::vector<ChannelId>());
  EXPECT_EQ(channels_.OperationsChannelOf(10), std::nullopt);
  EXPECT_EQ(channels_.ConnectionOf(ChannelId(2)), std::nullopt);
  EXPECT_EQ(channels_.OperationsChannelOf(11), ChannelId(3));
}

TEST_F(ChannelsTest, AClosedChannelRemembersItsRetries) {
  Bind(10);
  Bind(11);
  EXPECT_EQ(RetriesOf(1), nullptr) << "the channel is live";
  Close(10);
  Close(11);
  ASSERT_EQ(StandingOf(1), kClosed);
  RetriesOf(1)->Add(StreamId(70));
  EXPECT_TRUE(RetriesOf(1)->Has(StreamId(70)));
  EXPECT_FALSE(RetriesOf(1)->Has(StreamId(69)));
  EXPECT_FALSE(RetriesOf(1)->Has(StreamId(UINT32_MAX)));
  EXPECT_FALSE(RetriesOf(2)->Has(StreamId(70))) << "another channel";
}

TEST_F(ChannelsTest, ChannelsThatNeverExistedAreUnknown) {
  Bind(10);
  EXPECT_EQ(StandingOf(0), kUnknown);
  EXPECT_EQ(StandingOf(2), kUnknown);
  EXPECT_EQ(StandingOf(UINT32_MAX), kUnknown);
}

TEST_F(ChannelsTest, ABackChannelIsNoOperationsChannel) {
  Bind(10, nfs4::BACK);
  EXPECT_EQ(StandingOf(1), kUnknown);
  Close(10);
  EXPECT_EQ(StandingOf(1), kUnknown);
}

TEST_F(ChannelsTest, ForgetsTheOldestOfMoreThan1024ClosedChannels) {
  for (uint32_t i = 0; i < Channels::kRemembered; ++i) {
    ASSERT_EQ(Bind(i), i + 1);
    Close(i);
  }
  EXPECT_EQ(StandingOf(1), kClosed);
  Bind(5000);
  Close(5000);
  EXPECT_EQ(StandingOf(1), kForgotten);
  EXPECT_EQ(StandingOf(2), kClosed);
  EXPECT_EQ(StandingOf(1025), kClosed);
  EXPECT_EQ(channels_.closed().size(), Channels::kRemembered);
}

TEST_F(ChannelsTest, ForgetsInTheOrderOfClosing) {
  Bind(7000);  // channel 1 closes last
  for (uint32_t i = 0; i < Channels::kRemembered; ++i) {
    Bind(i);
    Close(i);
  }
  Close(7000);
  EXPECT_EQ(StandingOf(1), kClosed);
  EXPECT_EQ(StandingOf(2), kForgotten);
}

TEST_F(ChannelsTest, ASessionThatEndsWithTheServerReservesNothing) {
  for (uint32_t i = 0; i < 3 * Channels::kBlock; ++i) {
    ASSERT_FALSE(channels_.NeedsBlock());
    Bind(i);
    Close(i);
  }
}

TEST_F(ChannelsTest, ReservesNumbersInBlocksOf1024) {
  channels_ = Channels(ChannelId(1), false);
  EXPECT_TRUE(channels_.NeedsBlock());
  EXPECT_EQ(channels_.reserved_until(), ChannelId(1));
  EXPECT_EQ(channels_.EndOfNextBlock(), ChannelId(1025));
  channels_.ReserveBlock();
  EXPECT_EQ(channels_.reserved_until(), ChannelId(1025));
  for (uint32_t i = 0; i < 1024; ++i) {
    ASSERT_FALSE(channels_.NeedsBlock());
    ASSERT_EQ(Bind(i), i + 1);
    Close(i);
  }
  EXPECT_TRUE(channels_.NeedsBlock());
  EXPECT_EQ(channels_.EndOfNextBlock(), ChannelId(2049));
  channels_.ReserveBlock();
  EXPECT_EQ(Bind(2000), 1025u);
}

TEST_F(ChannelsTest, ARestoredSessionContinuesBehindItsReservedNumbers) {
  channels_ = Channels(ChannelId(1025), false);
  EXPECT_TRUE(channels_.NeedsBlock());
  channels_.ReserveBlock();
  EXPECT_EQ(Bind(10), 1025u);
  EXPECT_EQ(StandingOf(1025), kLive);
}

TEST_F(ChannelsTest, ARestartClosesAllEarlierChannels) {
  channels_ = Channels(ChannelId(1025), false);
  EXPECT_EQ(StandingOf(1), kClosed);
  EXPECT_EQ(StandingOf(1024), kClosed);
  EXPECT_EQ(StandingOf(0), kUnknown);
  EXPECT_EQ(StandingOf(1025), kUnknown);
  RetriesOf(1)->Add(StreamId(3));
  EXPECT_TRUE(RetriesOf(1)->Has(StreamId(3)));
  EXPECT_FALSE(RetriesOf(1024)->Has(StreamId(3)));
}

TEST_F(ChannelsTest, ForgetsTheChannelsOfEarlierRunsWithTheFirstThatItForgets) {
  channels_ = Channels(ChannelId(2049), false);
  for (uint32_t channel = 1; channel <= Channels::kRemembered; ++channel) ASSERT_EQ(StandingOf(channel), kClosed);
  EXPECT_EQ(StandingOf(1025), kClosed) << "takes the place of channel 1";
  EXPECT_EQ(channels_.closed().size(), Channels::kRemembered);
  EXPECT_EQ(StandingOf(1), kForgotten);
  EXPECT_EQ(StandingOf(1026), kForgotten) << "may be one that was forgotten";
  EXPECT_EQ(StandingOf(2), kClosed);
}

TEST_F(ChannelsTest, ARestoredSessionThatHadABackChannelBindsItAnew) {
  channels_ = Channels(ChannelId(1025), true);
  channels_.ReserveBlock();
  EXPECT_EQ(Bind(10), 1025u);
  EXPECT_EQ(Bind(10, nfs4::BACK), 1026u);
}

TEST_F(ChannelsTest, RefusesBindingsWhenAllNumbersAreUsed) {
  channels_ = Channels(ChannelId(UINT32_MAX - 2), false);
  EXPECT_TRUE(channels_.NeedsBlock());
  EXPECT_EQ(channels_.EndOfNextBlock(), ChannelId(UINT32_MAX));
  channels_.ReserveBlock();
  EXPECT_EQ(Bind(10), UINT32_MAX - 2);
  EXPECT_EQ(Bind(11), UINT32_MAX - 1);
  EXPECT_FALSE(channels_.NeedsBlock());
  EXPECT_EQ(Bind(12), 0u);
  EXPECT_EQ(StandingOf(UINT32_MAX), kUnknown);
}

}  // namespace
}  // namespace penstock::nfs::v4::sess01
