#include "rpc/argument_checksum.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::rpc {
namespace {

constexpr size_t kHeader = 40;

uint64_t Checksum(const std::vector<std::byte>& stream) {
  return ArgumentChecksum(xdr::Message::Whole(Slice::Borrowed(stream)), kHeader);
}

TEST(ArgumentChecksum, CoversEveryOctetOfShortArguments) {
  std::vector<std::byte> stream(kHeader + kChecksummedHead, std::byte{7});
  const uint64_t before = Checksum(stream);
  for (size_t i = kHeader; i < stream.size(); ++i) {
    stream[i] = std::byte{8};
    EXPECT_NE(Checksum(stream), before) << i;
    stream[i] = std::byte{7};
  }
  stream[3] = std::byte{8};
  EXPECT_EQ(Checksum(stream), before) << "the checksum leaves out the header";
  stream.pop_back();
  EXPECT_NE(Checksum(stream), before) << "the checksum includes the length";
}

TEST(ArgumentChecksum, SamplesLongArgumentsUpToTheirEnd) {
  for (const size_t size : {size_t{300}, size_t{1300}, size_t{4096}, kChecksummedSpan}) {
    std::vector<std::byte> stream(kHeader + size, std::byte{7});
    const uint64_t before = Checksum(stream);
    size_t seen = 0;
    const size_t steps = 64;
    for (size_t i = 0; i < steps; ++i) {
      // A change of one sixty-fourth changes the checksum.
      std::vector<std::byte> other = stream;
      std::fill(other.begin() + kHeader + size * i / steps, other.begin() + kHeader + size * (i + 1) / steps,
                std::byte{8});
      if (Checksum(other) != before) ++seen;
    }
    EXPECT_GE(seen, kChecksummedSamples) << size;
    stream.back() = std::byte{8};
    EXPECT_NE(Checksum(stream), before) << size;
  }
}

// A long WRITE begins before its last octets have arrived.
TEST(ArgumentChecksum, OfVeryLongArgumentsCoversTheBeginningAndTheLength) {
  std::vector<std::byte> stream(kHeader + 1'000'003, std::byte{7});
  const uint64_t before = Checksum(stream);
  std::fill(stream.begin() + kHeader + kChecksummedSpan, stream.end(), std::byte{8});
  EXPECT_EQ(Checksum(stream), before);
  stream[kHeader + kChecksummedSpan - 1] = std::byte{8};
  EXPECT_NE(Checksum(stream), before);
  stream[kHeader + kChecksummedSpan - 1] = std::byte{7};
  stream.pop_back();
  EXPECT_NE(Checksum(stream), before);
}

TEST(ArgumentChecksum, IgnoresThePlaceOfAPayload) {
  for (const size_t size : {size_t{5}, size_t{255}, size_t{1001}, size_t{100'002}}) {
    std::vector<std::byte> payload(size);
    for (size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(i * 7 + i / 251);
    std::vector<std::byte> whole(kHeader + 12, std::byte{1});
    xdr::Message reduced = xdr::Message::Whole(Slice::Borrowed(whole));
    std::vector<std::byte> copy = whole;
    reduced.items.push_back({.offset = copy.size(), .data = Slice::Borrowed(payload)});
    whole.insert(whole.end(), payload.begin(), payload.end());
    whole.resize((whole.size() + 3) / 4 * 4);
    reduced.stream = Slice::Borrowed(copy);
    EXPECT_EQ(ArgumentChecksum(reduced, kHeader), Checksum(whole)) << size;
  }
}

}  // namespace
}  // namespace penstock::rpc
