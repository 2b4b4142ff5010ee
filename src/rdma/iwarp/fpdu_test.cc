#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <random>

#include "rdma/iwarp/fpdu_reader.h"
#include "rdma/iwarp/fpdu_writer.h"
#include "rdma/iwarp/test_wire.h"

namespace penstock::rdma::iwarp {
namespace {

// Stores each ULPDU.
class Keeper : public UlpduSink {
 public:
  bool HandleHeader(ConstBytes header, size_t length, Bytes& destination) override {
    current_.assign(length, std::byte{});
    CopyBytes(current_, header);
    destination = Bytes(current_).subspan(header.size());
    return true;
  }
  bool MayPlace() override { return true; }
  bool HandleEnd() override {
    ulpdus.push_back(current_);
    return true;
  }
  void HandleRefused() override {}
  void HandleFramingError(TerminateCode code) override { error = code; }

  std::vector<Octets> ulpdus;
  std::optional<TerminateCode> error;

 private:
  Octets current_;
};

void FeedReader(FpduReader& reader, ConstBytes bytes, const std::function<size_t()>& step) {
  Octets staging(64 << 10);
  while (!bytes.empty()) {
    const FpduReader::Places places = reader.Wants(staging);
    const size_t size = std::min({bytes.size(), places.direct.size() + places.staging.size(), step()});
    const size_t direct = std::min(size, places.direct.size());
    CopyBytes(places.direct, bytes.first(direct));
    CopyBytes(places.staging, bytes.subspan(direct, size - direct));
    reader.HandleReceived(size, staging);
    bytes = bytes.subspan(size);
  }
}

Octets HeaderOctets(const UntaggedHeader& header) {
  Octets bytes(UntaggedHeader::kSize);
  header.Serialize(bytes.data());
  return bytes;
}

TEST(FpduWriterTest, WritesTheExamplesOfRfc5044) {
  Forge forge(Framing{.crc = true, .markers = true});
  // Figure 5.
  EXPECT_EQ(forge.Segment(Untagged(Opcode::kSend, kSendQueue, 1), Octets(24)),
            FromHex("00000000 002a 4143 00000000 00000000 00000001 00000000"
                    "000000000000000000000000 000000000000000000000000 52239983"));
  // Figure 6: an FPDU with a marker in its middle, after a first FPDU of 492 octets.
  Forge second(Framing{.crc = true, .markers = true});
  ASSERT_EQ(second.Segment(Untagged(Opcode::kSend, kSendQueue, 1), Octets(464)).size(), 492u);
  EXPECT_EQ(second.Segment(Untagged(Opcode::kSend, kSendQueue, 2), Octets(24)),
            FromHex("002a 4143 00000000 00000000 00000002 00000000 00000014"
                    "000000000000000000000000 000000000000000000000000 84925898"));
}

TEST(FpduWriterTest, WritesZeroAsCrcIfCheckValuesAreOff) {
  // The first FPDU of a Linux client has this form.
  EXPECT_EQ(Forge().Segment(Untagged(Opcode::kSend, kSendQueue, 1), FromHex("0102030405")),
            FromHex("0017 4143 00000000 00000000 00000001 00000000 0102030405 000000 00000000"));
}

std::shared_ptr<const FileDescriptor> FileOf(const Octets& content) {
  auto file = std::make_shared<const FileDescriptor>(::memfd_create("fpdu_test", 0));
  EXPECT_EQ(::write(file->get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  return file;
}

TEST(GatherCursorTest, ReadsAheadInAFileUpToTheEndOfItsPiece) {
  const Octets content = Pattern(3000);
  const auto file = FileOf(content);
  const Octets memory = Pattern(10);
  const std::array gather{Data(file, 0, 1000), Data(Slice::Borrowed(memory)), Data(file, 2000, 500)};
  GatherCursor cursor(gather);
  BufferPool pool;
  Octets taken;
  std::vector<size_t> sizes;
  std::vector<BufferRef> buffers;
  while (taken.size() < 1510) {
    const bool in_file = cursor.in_file();
    const Slice part = in_file ? *cursor.TakeCopy(300, 700, pool) : cursor.Take(300).memory();
    taken.insert(taken.end(), part.bytes().begin(), part.bytes().end());
    sizes.push_back(part.size());
    if (in_file && (buffers.empty() || buffers.back() != part.owner())) buffers.push_back(part.owner());
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{300, 300, 100, 300, 10, 300, 200}));
  EXPECT_EQ(buffers.size(), 3u);  // buffers of 700, 300 and 500 octets
  Octets expected(content.begin(), content.begin() + 1000);
  expected.insert(expected.end(), memory.begin(), memory.end());
  expected.insert(expected.end(), content.begin() + 2000, content.begin() + 2500);
  EXPECT_EQ(taken, expected);
}

TEST(FpduWriterTest, CopiesFilesThroughAFewBuffersForCheckValues) {
  const Octets content = Pattern(1 << 20);
  const Data data(FileOf(content), 0, content.size());
  GatherCursor cursor(std::span(&data, 1));

  const Framing framing{.crc = true, .markers = false};
  BufferPool pool;
  FpduWriter writer(framing, pool);
  Keeper keeper;
  FpduReader reader(framing, keeper);
  constexpr size_t kPart = 60 << 10;
  for (size_t left = content.size(); left > 0;) {
    while (left > 0 && writer.has_room()) {
      const size_t size = std::min(left, kPart);
      writer.Add(HeaderOctets(Untagged(Opcode::kSend, kSendQueue, 1)), {}, &cursor, size);
      left -= size;
    }
    EXPECT_LE(pool.outstanding(), 2u);
    while (!writer.batch_sent()) {
      Octets out;
      Drain(writer.Next(), ~size_t{0}, out);
      writer.HandleSent(out.size());
      FeedReader(reader, out, [] { return ~size_t{0}; });
    }
  }
  Octets received;
  for (const Octets& ulpdu : keeper.ulpdus) {
    received.insert(received.end(), ulpdu.begin() + UntaggedHeader::kSize, ulpdu.end());
  }
  EXPECT_FALSE(keeper.error);
  EXPECT_EQ(received, content);
}

class FpduTest : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  Framing framing() const { return {.crc = std::get<0>(GetParam()), .markers = std::get<1>(GetParam())}; }

  // Makes FPDUs of many sizes, and their ULPDUs.
  void Make() {
    FpduWriter writer(framing(), pool_);
    std::mt19937 random(7);
    const size_t longest = framing().markers ? 32000 : 65000;
    for (int i = 0; i < 120; ++i) {
      const size_t size = i < 40 ? static_cast<size_t>(i) : i % 10 == 0 ? longest : random() % 3000;
      const Octets header = HeaderOctets(Untagged(Opcode::kSend, 0, static_cast<uint32_t>(i)));
      const Octets payload = Pattern(size, static_cast<uint32_t>(i));
      // The payload has three pieces; one is empty.
      Gather gather;
      gather.push_back(Slice::Borrowed(ConstBytes(payload).first(size / 3)));
      gather.push_back(Slice());
      gather.push_back(Slice::Borrowed(ConstBytes(payload).subspan(size / 3)));
      GatherCursor cursor(gather);
      if (!writer.has_room()) Take(writer);
      writer.Add(header, {}, &cursor, size);
      Take(writer);
      Octets ulpdu = header;
      ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
      ulpdus_.push_back(std::move(ulpdu));
    }
    EXPECT_EQ(writer.sent(), stream_.size());
    EXPECT_EQ(writer.added(), stream_.size());
  }
  void Take(FpduWriter& writer) {
    while (!writer.batch_sent()) {
      Octets some;
      Drain(writer.Next(), 700, some);
      writer.HandleSent(some.size());
      stream_.insert(stream_.end(), some.begin(), some.end());
    }
  }

  BufferPool pool_;
  std::vector<Octets> ulpdus_;
  Octets stream_;
};

TEST_P(FpduTest, ReaderReturnsTheWrittenUlpdusForAnyCutOfTheStream) {
  Make();
  std::mt19937 random(3);
  const std::function<size_t()> steps[] = {[] { return ~size_t{0}; }, [] { return size_t{1}; },
                                           [&] { return size_t{random() % 40 + 1}; },
                                           [&] { return size_t{random() % 100000 + 1}; }};
  for (const auto& step : steps) {
    Keeper keeper;
    FpduReader reader(framing(), keeper);
    FeedReader(reader, stream_, step);
    EXPECT_FALSE(keeper.error);
    ASSERT_EQ(keeper.ulpdus.size(), ulpdus_.size());
    EXPECT_EQ(keeper.ulpdus, ulpdus_);
    EXPECT_TRUE(reader.at_boundary());
    EXPECT_EQ(reader.fpdus(), ulpdus_.size());
  }
}

TEST_P(FpduTest, DetectsADamagedMarker) {
  if (!framing().markers) return;
  Make();
  // Damages the pointer of the third marker. With check values, the reader notices the wrong check value first.
  Octets damaged = stream_;
  damaged[2 * kMarkerInterval + 3] ^= std::byte{4};
  Keeper keeper;
  FpduReader reader(framing(), keeper);
  FeedReader(reader, damaged, [] { return size_t{100}; });
  EXPECT_EQ(keeper.error, framing().crc ? terminate::kCrc : terminate::kMarker);
  EXPECT_TRUE(reader.stopped());
}

// RFC 5044 §4.2: sixteen bits of a marker are reserved, and the two low bits of its pointer.
TEST_P(FpduTest, IgnoresReservedBitsOfMarkers) {
  if (!framing().markers || framing().crc) return;
  Make();
  for (size_t at = 0; at + kMarkerSize <= stream_.size(); at += kMarkerInterval) {
    stream_[at] = stream_[at + 1] = std::byte{0xff};
    stream_[at + 3] |= std::byte{3};
  }
  Keeper keeper;
  FpduReader reader(framing(), keeper);
  FeedReader(reader, stream_, [] { return size_t{100}; });
  EXPECT_FALSE(keeper.error);
  EXPECT_EQ(keeper.ulpdus, ulpdus_);
}

INSTANTIATE_TEST_SUITE_P(Framings, FpduTest, testing::Combine(testing::Bool(), testing::Bool()));

class FpduWriterMemoryTest : public testing::Test {
 protected:
  void Add(ConstBytes payload, Stag region = {}) {
    const Data data = Slice::Borrowed(payload);
    GatherCursor cursor(std::span(&data, 1));
    writer_.Add(HeaderOctets(Untagged(Opcode::kSend, 0, 1)), {}, &cursor, payload.size(), region);
  }
  Octets Send(size_t at_most) {
    Octets out;
    Drain(writer_.Next(), at_most, out);
    writer_.HandleSent(out.size());
    return out;
  }
  BufferPool pool_;
  FpduWriter writer_{{.crc = true, .markers = false}, pool_};
};

TEST_F(FpduWriterMemoryTest, CopiesUnsentOctetsOfAnInvalidatedRegion) {
  Octets memory = Pattern(100);
  const Octets expected = Forge(Framing{}).Segment(Untagged(Opcode::kSend, 0, 1), memory);
  Add(memory, Stag(5));
  Octets out = Send(40);
  writer_.HandleInvalidated(Stag(5));
  memory.assign(100, std::byte{0xee});
  const Octets rest = Send(1000);
  out.insert(out.end(), rest.begin(), rest.end());
  EXPECT_EQ(out, expected);
}

TEST_F(FpduWriterMemoryTest, CutKeepsACopyOfThePartlySentFpdu) {
  Octets memory = Pattern(100);
  const Octets expected = Forge(Framing{}).Segment(Untagged(Opcode::kSend, 0, 1), memory);
  for (int i = 0; i < 3; ++i) Add(memory);
  Octets out = Send(expected.size() + 10);
  EXPECT_TRUE(writer_.Cut());
  memory.assign(100, std::byte{0xee});
  Octets rest = Send(1000);
  out.insert(out.end(), rest.begin(), rest.end());
  EXPECT_TRUE(writer_.batch_sent());
  Octets twice = expected;
  twice.insert(twice.end(), expected.begin(), expected.end());
  EXPECT_EQ(out, twice);
  EXPECT_EQ(writer_.added(), writer_.sent());
}

// The peer does not receive a batch of file data. Then the connection ends with a Terminate.
TEST(FpduWriter, CutOfABatchOfCopiesLeavesRoomForATerminate) {
  std::FILE* temporary = std::tmpfile();
  ASSERT_TRUE(temporary);
  auto file = std::make_shared<const FileDescriptor>(::dup(::fileno(temporary)));
  std::fclose(temporary);
  BufferPool pool;
  FpduWriter writer({.crc = true, .markers = false}, pool);
  std::array<std::byte, UntaggedHeader::kSize> header;
  Untagged(Opcode::kSend, kSendQueue, 1).Serialize(header.data());
  constexpr size_t kPayload = 60000;
  const Data payload(file, 0, kPayload);
  while (writer.has_room()) {
    GatherCursor cursor(std::span(&payload, 1));
    writer.Add(header, {}, &cursor, kPayload);
  }
  writer.HandleSent(100);
  EXPECT_TRUE(writer.Cut());
  ASSERT_TRUE(writer.has_room());
  writer.Add(header, {}, nullptr, 0);
}

TEST_F(FpduWriterMemoryTest, CutBetweenFpdusKeepsNothing) {
  const Octets memory = Pattern(8);
  Add(memory);
  Add(memory);
  Send(2 + 18 + 8 + 4);
  EXPECT_TRUE(writer_.Cut());
  EXPECT_TRUE(writer_.batch_sent());
}

}  // namespace
}  // namespace penstock::rdma::iwarp
