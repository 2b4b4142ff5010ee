#include "rdma/iwarp/terminate.h"

#include <gtest/gtest.h>

#include "rdma/iwarp/test_wire.h"

namespace penstock::rdma::iwarp {
namespace {

Octets Serialize(const TerminateMessage& message) {
  Octets bytes(TerminateMessage::kMaxSize);
  bytes.resize(message.Serialize(bytes.data()));
  return bytes;
}

template <class Header>
Octets HeaderBytes(const Header& header) {
  Octets bytes(Header::kSize);
  header.Serialize(bytes.data());
  return bytes;
}

TEST(DdpHeaderTest, ParsesTheFirstSendOfLinux) {
  // control 41 (untagged, last, version 1), 43 (version 1, Send), queue 0, MSN 1, offset 0
  const Octets bytes = FromHex("41 43 00000000 00000000 00000001 00000000");
  const UntaggedHeader header = UntaggedHeader::Parse(bytes.data());
  EXPECT_EQ(header, Untagged(Opcode::kSend, kSendQueue, 1));
  EXPECT_EQ(HeaderBytes(header), bytes);
}

TEST(DdpHeaderTest, ParsesTaggedHeader) {
  const Octets bytes = FromHex("81 40 12345678 0123456789abcdef");
  const TaggedHeader header = TaggedHeader::Parse(bytes.data());
  EXPECT_EQ(header, Tagged(Opcode::kWrite, Stag(0x12345678), 0x0123456789abcdef, false));
  EXPECT_EQ(HeaderBytes(header), bytes);
}

TEST(DdpHeaderTest, ParsesReadRequestHeader) {
  const Octets bytes = FromHex("00000001 0000000000000002 00000003 00000004 0000000000000005");
  const ReadRequestHeader header = ReadRequestHeader::Parse(bytes.data());
  EXPECT_EQ(header, (ReadRequestHeader{Stag(1), 2, 3, Stag(4), 5}));
  EXPECT_EQ(HeaderBytes(header), bytes);
}

TEST(DdpHeaderTest, EveryOpcodeHasAName) {
  for (unsigned code = 0; code < 8; ++code) EXPECT_NE(ToString(Opcode(code)), "reserved");
  EXPECT_EQ(ToString(Opcode(9)), "reserved");
}

// RFC 5040 §4.8, figure 10: the kind of error determines the headers of a Terminate.
TEST(TerminateTest, DdpErrorsCarryTheDdpHeader) {
  const Octets header = HeaderBytes(Tagged(Opcode::kWrite, Stag(0x11223344), 8));
  EXPECT_EQ(Serialize(MakeTerminate(terminate::kBounds, header, 100)),
            FromHex("11 01 c0 00 0064 c1 40 11223344 0000000000000008"));
}

TEST(TerminateTest, ReadProtectionErrorsCarryTheReadRequestHeader) {
  const Octets header = HeaderBytes(Untagged(Opcode::kReadRequest, kReadRequestQueue, 1));
  const ReadRequestHeader request{Stag(1), 2, 3, Stag(4), 5};
  EXPECT_EQ(Serialize(MakeTerminate(terminate::kSourceAccess, header, 46, request)),
            FromHex("01 02 e0 00 002e 41 41 00000000 00000001 00000001 00000000"
                    "00000001 0000000000000002 00000003 00000004 0000000000000005"));
}

TEST(TerminateTest, OperationErrorsCarryTheDdpHeaderOnly) {
  const Octets header = HeaderBytes(Untagged(Opcode::kSend, kSendQueue, 1));
  const TerminateMessage message = MakeTerminate(terminate::kUnexpectedOpcode, header, 46, ReadRequestHeader{});
  EXPECT_EQ(message.ddp_header_size, 18);
  EXPECT_FALSE(message.read_request);
}

TEST(TerminateTest, MpaErrorsAndLocalErrorsCarryNoHeader) {
  const Octets header = HeaderBytes(Untagged(Opcode::kSend, kSendQueue, 1));
  EXPECT_EQ(Serialize(MakeTerminate(terminate::kCrc, header, 46)), FromHex("20 02 00 00"));
  EXPECT_EQ(Serialize(MakeTerminate(terminate::kLocalCatastrophic, header, 46)), FromHex("00 00 00 00"));
}

TEST(TerminateTest, ParsesEverySerializedForm) {
  const Octets tagged = HeaderBytes(Tagged(Opcode::kWrite, Stag(1), 2));
  const Octets untagged = HeaderBytes(Untagged(Opcode::kReadRequest, 1, 2));
  for (TerminateCode code : {terminate::kBounds, terminate::kSourceBounds, terminate::kCrc, terminate::kNoBuffer}) {
    for (const Octets& header : {tagged, untagged, Octets{}}) {
      const TerminateMessage message = MakeTerminate(code, header, 77, ReadRequestHeader{Stag(1), 2, 3, Stag(4), 5});
      const Octets bytes = Serialize(message);
      EXPECT_EQ(TerminateMessage::Parse(bytes), message);
      EXPECT_FALSE(message.ToString().empty());
      // A shorter message is malformed, and Parse() must not read beyond its end.
      for (size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(TerminateMessage::Parse(ConstBytes(bytes).first(size)));
      }
    }
  }
}

TEST(TerminateTest, IgnoresReservedBits) {
  EXPECT_EQ(TerminateMessage::Parse(FromHex("20 02 1f ff")), MakeTerminate(terminate::kCrc));
}

TEST(TerminateTest, ToStringNamesErrorAndSegment) {
  EXPECT_EQ(terminate::kCrc.ToString(), "MPA wrong check value");
  EXPECT_EQ((TerminateCode{7, 3, 9}.ToString()), "unknown layer error type 0x3 code 0x09");
  const Octets header = HeaderBytes(Tagged(Opcode::kWrite, Stag(0x11223344), 8));
  EXPECT_EQ(MakeTerminate(terminate::kBounds, header, 100).ToString(),
            "DDP tagged buffer: base or bounds violation (RDMA Write to 0x11223344+0x8, 100 octets)");
}

}  // namespace
}  // namespace penstock::rdma::iwarp
