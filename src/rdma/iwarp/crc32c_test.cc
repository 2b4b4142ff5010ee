#include "rdma/iwarp/crc32c.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::rdma::iwarp {
namespace {

uint32_t Crc(ConstBytes bytes) {
  Crc32c crc;
  crc.Update(bytes);
  return crc.value();
}

// RFC 3720 §B.4 has these examples for the digest of iSCSI, which RFC 5044 §4.4 adopts.
TEST(Crc32cTest, MatchesTheExamplesOfIscsi) {
  std::vector<std::byte> zeros(32), ones(32, std::byte{0xff}), ascending(32);
  for (size_t i = 0; i < 32; ++i) ascending[i] = std::byte(i);
  EXPECT_EQ(Crc(zeros), 0x8a9136aau);
  EXPECT_EQ(Crc(ones), 0x62a8ab43u);
  EXPECT_EQ(Crc(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc(AsBytes("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc({}), 0u);
}

// The first FPDU of figure 5 in RFC 5044: a marker, then a Send of 24 zeros. Its check value is 52 23 99 83.
TEST(Crc32cTest, MatchesTheFpduOfRfc5044) {
  std::vector<std::byte> fpdu(0x30);
  fpdu[0x05] = std::byte{0x2a};
  fpdu[0x06] = std::byte{0x41};
  fpdu[0x07] = std::byte{0x43};
  fpdu[0x13] = std::byte{0x01};
  Crc32c crc;
  crc.Update(fpdu);
  EXPECT_EQ(crc.Wire(), (std::array{std::byte{0x52}, std::byte{0x23}, std::byte{0x99}, std::byte{0x83}}));
}

TEST(Crc32cTest, AllMethodsAgreeForEveryLengthAndAlignment) {
  std::vector<std::byte> bytes(5000);
  uint32_t state = 1;
  for (std::byte& byte : bytes) byte = std::byte((state = state * 1664525 + 1013904223) >> 24);
  for (size_t length = 0; length < 4900; length = length < 40 ? length + 1 : length + 97) {
    for (size_t offset : {0, 1, 7}) {
      ConstBytes part = ConstBytes(bytes).subspan(offset, length);
      const uint32_t by_table = internal::ExtendCrc32cByTable(~0u, part);
      EXPECT_EQ(internal::ExtendCrc32cByInstruction(~0u, part), by_table) << length;
      EXPECT_EQ(internal::ExtendCrc32c(~0u, part), by_table) << length;
    }
  }
}

TEST(Crc32cTest, UpdateInPiecesEqualsUpdateAtOnce) {
  std::vector<std::byte> bytes(4096, std::byte{0x5a});
  Crc32c pieces;
  pieces.Update(ConstBytes(bytes).first(1));
  pieces.Update(ConstBytes(bytes).subspan(1, 2000));
  pieces.Update(ConstBytes(bytes).subspan(2001));
  EXPECT_EQ(pieces.value(), Crc(bytes));
}

}  // namespace
}  // namespace penstock::rdma::iwarp
