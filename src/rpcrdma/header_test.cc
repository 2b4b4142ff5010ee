#include "rpcrdma/header.h"

#include <gmock/gmock.h>

#include "rpcrdma/test_bytes.h"

namespace penstock::rpcrdma {
namespace {

using rdma::Stag;

constexpr uint32_t kSampleXid = 0x12345678;

Result<Header, HeaderError> ParseWhole(const ByteVector& message, const HeaderLimits& limits = {}) {
  std::optional<FixedHeader> fixed = FixedHeader::Parse(message);
  if (!fixed) return std::unexpected(HeaderError::kTruncated);
  Header header;
  PENSTOCK_CHECK(header.Parse(*fixed, message, limits));
  return header;
}

HeaderError ErrorOf(const ByteVector& message, const HeaderLimits& limits = {}) {
  EXPECT_TRUE(FixedHeader::Parse(message));
  Result<Header, HeaderError> header = ParseWhole(message, limits);
  EXPECT_FALSE(header) << ToString(*header);
  return header ? HeaderError{} : header.error();
}

ByteVector SerializeWhole(const Header& header) {
  ByteVector out(header.serialized_size());
  EXPECT_EQ(header.Serialize(out), out.size());
  return out;
}

Header Message(Procedure procedure, ChunkLists chunks) {
  Header header;
  header.fixed = {rpc::Xid(kSampleXid), 1, 32, procedure};
  header.chunks = std::move(chunks);
  return header;
}

// The examples of RFC 8166 §4.7. In their notation P is a position, H a handle, L a length and OO an offset.

TEST(Header, MinimalHeaderHasFourFieldsAndThreeZeros) {
  Header header = Message(Procedure::kMsg, {});
  ByteVector words = Words({kSampleXid, 1, 32, 0, 0, 0, 0});
  EXPECT_EQ(SerializeWhole(header), words);
  EXPECT_EQ(words.size(), kMinimalHeader);
  ByteVector with_payload = Concat({words, Words({kSampleXid})});
  EXPECT_EQ(ParseWhole(with_payload), header);
}

// RFC 5666 §4.2
TEST(Header, APaddedCallHasItsAlignmentAndThresholdBeforeTheLists) {
  Header header = Message(Procedure::kMsgp, {});
  header.alignment = 512;
  header.threshold = 600;
  const ByteVector words = Words({kSampleXid, 1, 32, 2, 512, 600, 0, 0, 0});
  EXPECT_EQ(SerializeWhole(header), words);
  EXPECT_EQ(ParseWhole(Concat({words, Words({kSampleXid})}), {.padding = 512}), header);
  EXPECT_EQ(ToString(header), "RDMA_MSGP xid 12345678 credits 32 alignment 512 threshold 600");

  header.chunks.writes.AddChunk();
  header.chunks.writes.Add({Stag(7), 100, 5});
  header.chunks.has_reply = true;
  header.chunks.reply = {{Stag(8), 200, 6}};
  const ByteVector with_lists = Words({kSampleXid, 1, 32, 2, 512, 600, 0, 1, 1, 7, 100, 0, 5, 0, 1, 1, 8, 200, 0, 6});
  EXPECT_EQ(SerializeWhole(header), with_lists);
  EXPECT_EQ(ParseWhole(Concat({with_lists, Words({kSampleXid})}), {.padding = 512}), header);
}

TEST(Header, RejectsPaddedCallsUnlessTheirTermsWereAgreed) {
  const auto with = [](uint32_t alignment, uint32_t threshold) {
    return Words({kSampleXid, 1, 32, 2, alignment, threshold, 0, 0, 0, kSampleXid});
  };
  EXPECT_EQ(ErrorOf(with(512, 512)), HeaderError::kPadded) << "RFC 8166 §4.6.1";
  const HeaderLimits limits{.padding = 512};
  EXPECT_TRUE(ParseWhole(with(512, 512), limits));
  EXPECT_TRUE(ParseWhole(with(512, 0xffffffff), limits));
  for (const uint32_t alignment : {0u, 1u, 3u, 64u, 256u, 511u, 513u, 1024u, 1u << 31, 0xffffffffu}) {
    EXPECT_EQ(ErrorOf(with(alignment, 512), limits), HeaderError::kPadding) << alignment;
  }
  for (const uint32_t threshold : {0u, 1u, 511u}) {
    EXPECT_EQ(ErrorOf(with(512, threshold), limits), HeaderError::kPadding) << threshold;
  }
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 2, 512, 512, 1, 40, 7, 100, 0, 5, 0, 0, 0, kSampleXid}), limits),
            HeaderError::kPadding)
      << "with a Read chunk";
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 2, 512, 512, 0, 0, 0}), limits), HeaderError::kNoPayload);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 2, 512, 512, 0}), limits), HeaderError::kTruncated);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 2, 512, 512, 0, 2, 0, kSampleXid}), limits), HeaderError::kMalformed);
}

TEST(Header, ReadListHasOnePhlooPerSegmentAndAZero) {
  ChunkLists chunks;
  chunks.reads = {{0, {Stag(0xA1), 100, 0x1'0000'0001}}, {0, {Stag(0xA2), 200, 2}}, {64, {Stag(0xA3), 300, 3}}};
  Header header = Message(Procedure::kNomsg, chunks);
  ByteVector words = Words({kSampleXid, 1,  32,   1,             //
                            1,          0,  0xA1, 100, 1, 1,     // 1 PHLOO
                            1,          0,  0xA2, 200, 0, 2,     // 1 PHLOO
                            1,          64, 0xA3, 300, 0, 3, 0,  // 1 PHLOO 0
                            0,          0});
  EXPECT_EQ(SerializeWhole(header), words);
  EXPECT_EQ(ParseWhole(words), header);
}

TEST(Header, WriteListHasChunksOfThreeAndTwoSegments) {
  ChunkLists chunks;
  chunks.writes.AddChunk();
  for (uint32_t i = 1; i <= 3; ++i) chunks.writes.Add({Stag(i), 10 * i, 0x700000000ULL + i});
  chunks.writes.AddChunk();
  for (uint32_t i = 4; i <= 5; ++i) chunks.writes.Add({Stag(i), 10 * i, 0x700000000ULL + i});
  Header header = Message(Procedure::kMsg, chunks);
  ByteVector words = Words({kSampleXid, 1, 32, 0,  0,                               //
                            1,          3, 1,  10, 7, 1, 2, 20, 7, 2, 3, 30, 7, 3,  // 1 3 HLOO HLOO HLOO
                            1,          2, 4,  40, 7, 4, 5, 50, 7, 5, 0,            // 1 2 HLOO HLOO 0
                            0});
  EXPECT_EQ(SerializeWhole(header), words);
  EXPECT_EQ(ParseWhole(Concat({words, Words({kSampleXid})})), header);
}

TEST(Header, ReplyChunkHasTwoSegments) {
  ChunkLists chunks;
  chunks.has_reply = true;
  chunks.reply = {{Stag(1), 10, 100}, {Stag(2), 20, 200}};
  Header header = Message(Procedure::kNomsg, chunks);
  ByteVector words = Words({kSampleXid, 1, 32, 1, 0, 0,            //
                            1, 2, 1, 10, 0, 100, 2, 20, 0, 200});  // 1 2 HLOO HLOO
  EXPECT_EQ(SerializeWhole(header), words);
  EXPECT_EQ(ParseWhole(words), header);
}

TEST(Header, MayHaveEmptyWriteChunksAndAnEmptyReplyChunk) {
  ChunkLists chunks;
  chunks.writes.AddChunk();
  chunks.writes.AddChunk();
  chunks.writes.Add({Stag(1), 4, 0});
  chunks.has_reply = true;
  Header header = Message(Procedure::kMsg, chunks);
  ByteVector words = Words({kSampleXid, 1, 32, 0, 0, 1, 0, 1, 1, 1, 4, 0, 0, 0, 1, 0});
  EXPECT_EQ(SerializeWhole(header), words);
  EXPECT_EQ(ParseWhole(Concat({words, Words({kSampleXid})})), header);
}

TEST(Header, ParseReturnsTheOffsetOfThePayloadStream) {
  ByteVector message = Words({kSampleXid, 1, 32, 0, 1, 40, 1, 4, 0, 0, 0, 0, 0, kSampleXid, 1});
  Header header;
  EXPECT_EQ(header.Parse(*FixedHeader::Parse(message), message, {}), 52u);
}

TEST(Header, ParsesAndSerializesErrors) {
  Header header = Message(Procedure::kError, {});
  header.error = ErrorCode::kChunk;
  EXPECT_EQ(SerializeWhole(header), Words({kSampleXid, 1, 32, 4, 2}));
  EXPECT_EQ(ParseWhole(Words({kSampleXid, 1, 32, 4, 2})), header);

  header.error = ErrorCode::kVersion;
  header.lowest_version = 1;
  header.highest_version = 3;
  EXPECT_EQ(SerializeWhole(header), Words({kSampleXid, 1, 32, 4, 1, 1, 3}));
  EXPECT_EQ(ParseWhole(Words({kSampleXid, 1, 32, 4, 1, 1, 3})), header);
}

TEST(Header, DiscardsMessagesThatAreTooShortForAnXid) {
  ByteVector message = Words({kSampleXid, 1, 32, 0, 0, 0, 0});
  for (size_t size = 0; size < kMinimalHeader; ++size) {
    EXPECT_FALSE(FixedHeader::Parse(ConstBytes(message).first(size))) << size;
  }
  EXPECT_TRUE(FixedHeader::Parse(message));
  // The receiver discards an RDMA_DONE, with or without octets after its four words.
  EXPECT_FALSE(FixedHeader::Parse(Words({kSampleXid, 1, 32, 3})));
  EXPECT_TRUE(ParseWhole(Words({kSampleXid, 1, 32, 3, 0, 0, 0})));
}

TEST(Header, DetectsEveryTruncation) {
  ChunkLists chunks;
  chunks.reads = {{0, {Stag(1), 2, 3}}};
  chunks.writes.AddChunk();
  chunks.writes.Add({Stag(1), 2, 3});
  chunks.has_reply = true;
  chunks.reply = {{Stag(1), 2, 3}};
  ByteVector whole = SerializeWhole(Message(Procedure::kNomsg, chunks));
  for (size_t size = kMinimalHeader; size < whole.size(); ++size) {
    EXPECT_EQ(ErrorOf(ByteVector(whole.begin(), whole.begin() + size)), HeaderError::kTruncated) << size;
  }
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 4, 1, 1})), HeaderError::kTruncated);
}

TEST(Header, ReportsADistinctErrorForEachDefect) {
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 2, 32, 0, 0, 0, 0, kSampleXid})), HeaderError::kVersion);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 0, 32, 9, 0, 0, 0, kSampleXid})), HeaderError::kVersion);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 5, 0, 0, 0, kSampleXid})), HeaderError::kProcedure);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 2, 0, 0, 0, 0, 0, kSampleXid})), HeaderError::kPadded);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 0, 2, 0, 0, kSampleXid})), HeaderError::kMalformed);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 0, 0, 2, 0, kSampleXid})), HeaderError::kMalformed);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 0, 0, 0, 2, kSampleXid})), HeaderError::kMalformed);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 4, 3, 0, 0})), HeaderError::kMalformed);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 0, 0, 0, 0})), HeaderError::kNoPayload);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 1, 0, 0, 0})), HeaderError::kNoPayload);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 1, 0, 0, 1, 0, kSampleXid})), HeaderError::kTrailing);
}

TEST(Header, RejectsSegmentsThatWrapAroundTheAddressSpace) {
  auto segment_at = [](uint32_t length, uint32_t offset_low) {
    return Words({kSampleXid, 1, 32, 0, 1, 40, 7, length, 0xffffffff, offset_low, 0, 0, 0, kSampleXid, 0});
  };
  EXPECT_TRUE(ParseWhole(segment_at(16, 0xfffffff0)));
  EXPECT_TRUE(ParseWhole(segment_at(0, 0xffffffff)));
  EXPECT_EQ(ErrorOf(segment_at(17, 0xfffffff0)), HeaderError::kWraps);
  EXPECT_EQ(ErrorOf(segment_at(0xffffffff, 0xffffffff)), HeaderError::kWraps);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 0, 0, 1, 1, 7, 2, 0xffffffff, 0xffffffff, 0, 0, kSampleXid, 0})),
            HeaderError::kWraps);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 0, 0, 0, 1, 1, 7, 2, 0xffffffff, 0xffffffff, kSampleXid, 0})),
            HeaderError::kWraps);
}

TEST(Header, RejectsCountsThatExceedTheMessage) {
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 0, 0, 1, 0xffffffff, 0})), HeaderError::kTruncated);
  EXPECT_EQ(ErrorOf(Words({kSampleXid, 1, 32, 0, 0, 0, 1, 0x10000000, 0})), HeaderError::kTruncated);
}

TEST(Header, RejectsTooManyChunksAndSegments) {
  HeaderLimits limits{.max_read_segments = 2, .max_write_chunks = 2, .max_write_segments = 2, .max_reply_segments = 2};
  auto header_with = [](size_t reads, size_t writes, size_t segments_each, size_t reply) {
    ChunkLists chunks;
    for (size_t i = 0; i < reads; ++i) chunks.reads.push_back({0, {}});
    for (size_t i = 0; i < writes; ++i) {
      chunks.writes.AddChunk();
      for (size_t k = 0; k < segments_each; ++k) chunks.writes.Add({});
    }
    chunks.has_reply = true;
    chunks.reply.resize(reply);
    return SerializeWhole(Message(Procedure::kNomsg, chunks));
  };
  EXPECT_TRUE(ParseWhole(header_with(2, 2, 1, 2), limits));
  EXPECT_TRUE(ParseWhole(header_with(0, 1, 2, 0), limits));
  EXPECT_EQ(ErrorOf(header_with(3, 0, 0, 0), limits), HeaderError::kTooComplex);
  EXPECT_EQ(ErrorOf(header_with(0, 3, 0, 0), limits), HeaderError::kTooComplex);
  EXPECT_EQ(ErrorOf(header_with(0, 1, 3, 0), limits), HeaderError::kTooComplex);
  EXPECT_EQ(ErrorOf(header_with(0, 2, 2, 0), limits), HeaderError::kTooComplex);
  EXPECT_EQ(ErrorOf(header_with(0, 0, 0, 3), limits), HeaderError::kTooComplex);
}

TEST(Header, ParseDiscardsThePreviousMessage) {
  Header header;
  ByteVector with_chunks = Words({kSampleXid, 1, 32, 1, 1, 0, 1, 4, 0, 0, 0, 0, 1, 0});
  ASSERT_TRUE(header.Parse(*FixedHeader::Parse(with_chunks), with_chunks, {}));
  ByteVector without = Words({kSampleXid, 1, 32, 0, 0, 0, 0, kSampleXid});
  ASSERT_TRUE(header.Parse(*FixedHeader::Parse(without), without, {}));
  EXPECT_TRUE(header.chunks.empty());
}

TEST(Header, PrintsAsOneLine) {
  ChunkLists chunks;
  chunks.reads = {{64, {Stag(0xA3), 300, 16}}};
  chunks.writes.AddChunk();
  EXPECT_EQ(ToString(Message(Procedure::kMsg, chunks)),
            "RDMA_MSG xid 12345678 credits 32 read(64) 000000a3:300@10 write");
}

}  // namespace
}  // namespace penstock::rpcrdma
