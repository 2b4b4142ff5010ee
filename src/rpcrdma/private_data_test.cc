#include "rpcrdma/private_data.h"

#include <gtest/gtest.h>

#include "rdma/provider.h"
#include "rpcrdma/test_bytes.h"

namespace penstock::rpcrdma {
namespace {

// The private data of the Linux client: version 1, remote invalidation, sizes of 4096 and 4096.
const ByteVector kLinuxClient = Words({0xf6ab0e18, 0x01010303});

TEST(PrivateData, ParsesAndSerializesThePrivateDataOfLinux) {
  const PrivateData data{true, 4096, 4096};
  EXPECT_EQ(PrivateData::Parse(kLinuxClient), data);
  EXPECT_EQ(data.Serialize(), kLinuxClient);
}

TEST(PrivateData, SizesRangeFromOneKibToAQuarterMib) {
  for (uint32_t size : {1024u, 2048u, 65536u, 262144u}) {
    PrivateData data{false, size, 1024};
    EXPECT_EQ(PrivateData::Parse(data.Serialize()), data);
    data = {false, 1024, size};
    EXPECT_EQ(PrivateData::Parse(data.Serialize()), data);
  }
  EXPECT_EQ((PrivateData{false, 1024, 262144}.Serialize()), Words({0xf6ab0e18, 0x010000ff}));
  EXPECT_EQ((PrivateData{false, 5000, 2047}.Serialize()), (PrivateData{false, 4096, 1024}.Serialize()));
}

TEST(PrivateData, AMessageHasRoomForItsDataAndWhatSurroundsThem) {
  EXPECT_EQ(PrivateData::ForInlineData(1), (PrivateData{true, 4096, 4096}));
  EXPECT_EQ(PrivateData::ForInlineData(4096), (PrivateData{true, 4096, 4096})) << "the sizes of Linux";
  EXPECT_EQ(PrivateData::ForInlineData(16384), (PrivateData{true, 20480, 20480}));
  EXPECT_EQ(PrivateData::ForInlineData(rdma::kMostInlineData).receive_size, rdma::kMostInlineData + 4096);
}

TEST(PrivateData, ParseFindsThePrivateDataAtAnyOffset) {
  for (size_t before = 0; before < 20; ++before) {
    for (size_t after : {0, 1, 7}) {
      ByteVector delivered = Concat({ByteVector(before, std::byte{0xf6}), kLinuxClient, ByteVector(after)});
      EXPECT_EQ(PrivateData::Parse(delivered), (PrivateData{true, 4096, 4096})) << before << " " << after;
    }
  }
}

TEST(PrivateData, HasDefaultsIfThePeerSendsNone) {
  const PrivateData defaults{false, 1024, 1024};
  EXPECT_EQ(PrivateData::Parse({}), defaults);
  EXPECT_EQ(PrivateData::Parse(Words({0x00800000, 0, 0})), defaults);
  for (size_t size = 0; size < kLinuxClient.size(); ++size) {
    EXPECT_EQ(PrivateData::Parse(ConstBytes(kLinuxClient).first(size)), defaults) << "truncated after octet " << size;
  }
}

TEST(PrivateData, IgnoresOtherVersions) {
  EXPECT_EQ(PrivateData::Parse(Words({0xf6ab0e18, 0x02010303})), PrivateData());
  EXPECT_EQ(PrivateData::Parse(Words({0xf6ab0e18, 0x00010303})), PrivateData());
  // Private data of version 1 may follow private data of another version.
  EXPECT_EQ(PrivateData::Parse(Concat({Words({0xf6ab0e18, 0x02010303}), kLinuxClient})),
            (PrivateData{true, 4096, 4096}));
}

TEST(PrivateData, IgnoresReservedBits) {
  EXPECT_EQ(PrivateData::Parse(Words({0xf6ab0e18, 0x01fe0001})), (PrivateData{false, 1024, 2048}));
  EXPECT_EQ(PrivateData::Parse(Words({0xf6ab0e18, 0x01ff0001})), (PrivateData{true, 1024, 2048}));
}

TEST(Thresholds, TakeTheSmallerSizeInEachDirection) {
  Thresholds thresholds = Thresholds::Agree({true, 4096, 65536}, {true, 2048, 8192}, 1 << 20);
  EXPECT_EQ(thresholds.send, 4096u);
  EXPECT_EQ(thresholds.receive, 2048u);
  EXPECT_TRUE(thresholds.remote_invalidation);
  EXPECT_EQ(Thresholds::Agree({true, 65536, 65536}, {true, 65536, 65536}, 5000).send, 5000u);
}

TEST(Thresholds, AllowRemoteInvalidationOnlyIfBothSidesSupportIt) {
  EXPECT_FALSE(Thresholds::Agree({true, 4096, 4096}, {false, 4096, 4096}, 1 << 20).remote_invalidation);
  EXPECT_FALSE(Thresholds::Agree({false, 4096, 4096}, {true, 4096, 4096}, 1 << 20).remote_invalidation);
}

}  // namespace
}  // namespace penstock::rpcrdma
