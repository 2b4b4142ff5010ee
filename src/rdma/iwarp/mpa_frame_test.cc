#include "rdma/iwarp/mpa_frame.h"

#include <gtest/gtest.h>

#include "rdma/iwarp/test_wire.h"

namespace penstock::rdma::iwarp {
namespace {

// The request that Linux 6.1 with siw sends for NFS: enhanced, revision 2, 12 octets of private data (IRD 128, ORD 0,
// then the private data of RPC-over-RDMA).
constexpr std::string_view kSiwRequest = "4d504120494420526571204672616d65 10 02 000c 0080 0000 f6ab0e18 01 01 03 03";
// The reply of the Linux server: IRD 0, ORD 128.
constexpr std::string_view kSiwReply = "4d504120494420526570204672616d65 10 02 000c 0000 0080 f6ab0e18 01 00 03 03";

TEST(MpaFrameTest, ParsesAndSerializesTheRequestOfLinux) {
  const Octets bytes = FromHex(kSiwRequest);
  auto frame = MpaFrame::Parse(bytes, MpaFrame::Kind::kRequest);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->revision, 2);
  EXPECT_FALSE(frame->markers || frame->crc || frame->rejected);
  EXPECT_EQ(frame->enhanced, (EnhancedData{.ird = 128, .ord = 0}));
  EXPECT_EQ(frame->private_data, FromHex("f6ab0e18 01010303"));
  EXPECT_EQ(frame->Serialize(), bytes);
  EXPECT_EQ(frame->ToString(), "MPA request rev 2 ird 128 ord 0, 8 octets of private data");
}

TEST(MpaFrameTest, ParsesAndSerializesTheReplyOfLinux) {
  const Octets bytes = FromHex(kSiwReply);
  auto frame = MpaFrame::Parse(bytes, MpaFrame::Kind::kReply);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->enhanced, (EnhancedData{.ird = 0, .ord = 128}));
  EXPECT_EQ(frame->Serialize(), bytes);
}

TEST(MpaFrameTest, ParseReturnsEverySerializedFlag) {
  MpaFrame frame;
  frame.kind = MpaFrame::Kind::kReply;
  frame.revision = 2;
  for (int bits = 0; bits < 64; ++bits) {
    frame.markers = bits & 1;
    frame.crc = bits & 2;
    frame.rejected = bits & 4;
    EnhancedData data{.peer_to_peer = true, .ird = 0x3fff, .ord = 0x2aaa};
    data.rtr = {(bits & 8) != 0, (bits & 16) != 0, (bits & 32) != 0};
    frame.enhanced = data;
    EXPECT_EQ(MpaFrame::Parse(frame.Serialize(), frame.kind), frame) << frame.ToString();
  }
}

TEST(MpaFrameTest, IgnoresReadinessFlagsWithoutPeerToPeer) {
  auto frame =
      MpaFrame::Parse(FromHex("4d504120494420526571204672616d65 10 02 0004 4001 c002"), MpaFrame::Kind::kRequest);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->enhanced, (EnhancedData{.ird = 1, .ord = 2}));
}

TEST(MpaFrameTest, RevisionOneHasNoEnhancedData) {
  auto frame =
      MpaFrame::Parse(FromHex("4d504120494420526571204672616d65 5f 01 0004 00800000"), MpaFrame::Kind::kRequest);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(frame->crc);
  EXPECT_FALSE(frame->enhanced);
  EXPECT_EQ(frame->private_data.size(), 4u);
}

TEST(MpaFrameTest, RejectsMalformedFrames) {
  auto error = [](std::string_view hex, MpaFrame::Kind kind = MpaFrame::Kind::kRequest) {
    auto frame = MpaFrame::Parse(FromHex(hex), kind);
    return frame ? std::optional<MpaFrameError>() : frame.error();
  };
  // A request instead of a reply: both ends are initiators (RFC 5044 §7.1.2 rule 8).
  EXPECT_EQ(error(kSiwRequest, MpaFrame::Kind::kReply), MpaFrameError::kWrongKey);
  EXPECT_EQ(error(kSiwReply), MpaFrameError::kWrongKey);
  EXPECT_EQ(error("4d504120494420526571204672616d66 00 01 0000"), MpaFrameError::kWrongKey);
  EXPECT_EQ(error("4d504120494420526571204672616d65 00 00 0000"), MpaFrameError::kUnknownRevision);
  EXPECT_EQ(error("4d504120494420526571204672616d65 00 03 0000"), MpaFrameError::kUnknownRevision);
  EXPECT_EQ(error("4d504120494420526571204672616d65 00 01 0201"), MpaFrameError::kPrivateDataTooLong);
  EXPECT_EQ(error("4d504120494420526571204672616d65 10 02 0003 000000"), MpaFrameError::kEnhancedDataMissing);
  for (auto e : {MpaFrameError::kWrongKey, MpaFrameError::kUnknownRevision, MpaFrameError::kPrivateDataTooLong,
                 MpaFrameError::kEnhancedDataMissing}) {
    EXPECT_GT(ToString(e).size(), 10u);
  }
}

}  // namespace
}  // namespace penstock::rdma::iwarp
