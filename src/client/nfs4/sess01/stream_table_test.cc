#include "client/nfs4/sess01/stream_table.h"

#include <gtest/gtest.h>

namespace penstock::client::v4::sess01 {
namespace {

TEST(ClientStreamTable, GivesEachStreamidToOneRequest) {
  StreamTable streams(3);
  EXPECT_EQ(streams.Take(), 0u);
  EXPECT_EQ(streams.Take(), 1u);
  EXPECT_EQ(streams.Take(), 2u);
  EXPECT_EQ(streams.Take(), std::nullopt);
  streams.HandleAnswered(1);
  EXPECT_EQ(streams.in_use(), 2u);
  EXPECT_EQ(streams.Take(), 1u);
}

TEST(ClientStreamTable, HasAtLeastOneStreamid) {
  StreamTable streams(0);
  EXPECT_EQ(streams.limit(), 1u);
  EXPECT_EQ(streams.Take(), 0u);
}

TEST(ClientStreamTable, TakesADoubtfulStreamidOnlyIfNoneIsFree) {
  StreamTable streams(2);
  EXPECT_EQ(streams.Take(), 0u);
  streams.HandleDoubtful(0);
  EXPECT_TRUE(streams.idle());
  EXPECT_EQ(streams.Take(), 1u);
  EXPECT_EQ(streams.Take(), 0u);
  EXPECT_EQ(streams.Take(), std::nullopt);
}

TEST(ClientStreamTable, TakesNoStreamidAboveALoweredLimit) {
  StreamTable streams(4);
  for (int i = 0; i < 4; ++i) streams.Take();
  streams.Lower(2);
  EXPECT_FALSE(streams.IsQuietFrom(2));
  streams.HandleAnswered(3);
  EXPECT_EQ(streams.Take(), std::nullopt);
  EXPECT_FALSE(streams.IsQuietFrom(2));
  streams.HandleAnswered(2);
  EXPECT_TRUE(streams.IsQuietFrom(2));
  EXPECT_FALSE(streams.IsQuietFrom(1));
  streams.HandleAnswered(0);
  EXPECT_EQ(streams.Take(), 0u);
  EXPECT_EQ(streams.Take(), std::nullopt);
}

TEST(ClientStreamTable, ALimitIsNeverRaised) {
  StreamTable streams(2);
  streams.Lower(9);
  EXPECT_EQ(streams.limit(), 2u);
  EXPECT_TRUE(streams.IsQuietFrom(9));
  streams.Lower(1);
  streams.Lower(2);
  EXPECT_EQ(streams.limit(), 1u);
}

}  // namespace
}  // namespace penstock::client::v4::sess01
