#include "rpcrdma/header.h"

#include <fmt/core.h>

#include "rpcrdma/padding.h"

namespace penstock::rpcrdma {
namespace {

constexpr size_t kWord = 4;

// Reads words in order. Each function fails if the message ends before the value does.
class WordReader {
 public:
  explicit WordReader(ConstBytes bytes, size_t position) : bytes_(bytes), position_(position) {}

  bool Read(uint32_t& value) {
    if (bytes_.size() - position_ < kWord) return false;
    value = LoadBig<uint32_t>(bytes_.data() + position_);
    position_ += kWord;
    return true;
  }
  bool Read(Segment& segment) {
    if (bytes_.size() - position_ < kSegmentSize) return false;
    const std::byte* at = bytes_.data() + position_;
    segment = {rdma::Stag(LoadBig<uint32_t>(at)), LoadBig<uint32_t>(at + 4), LoadBig<uint64_t>(at + 8)};
    position_ += kSegmentSize;
    return true;
  }
  // Reads the word that tells whether an optional item is present (RFC 4506 §4.19).
  Result<bool, HeaderError> ReadPresent() {
    uint32_t word;
    if (!Read(word)) return std::unexpected(HeaderError::kTruncated);
    if (word > 1) return std::unexpected(HeaderError::kMalformed);
    return word == 1;
  }
  // RFC 8166 §3.4.3: a segment is one contiguous piece of the requester's address space. It must not wrap around.
  Result<void, HeaderError> ReadSegment(Segment& segment) {
    if (!Read(segment)) return std::unexpected(HeaderError::kTruncated);
    if (segment.length > 0 && segment.offset + (segment.length - 1) < segment.offset) {
      return std::unexpected(HeaderError::kWraps);
    }
    return {};
  }
  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

 private:
  ConstBytes bytes_;
  size_t position_;
};

class WordWriter {
 public:
  explicit WordWriter(Bytes out) : out_(out) {}
  void Write(uint32_t value) {
    StoreBig(out_.data() + position_, value);
    position_ += kWord;
  }
  void Write(const Segment& segment) {
    Write(segment.stag.value());
    Write(segment.length);
    StoreBig(out_.data() + position_, segment.offset);
    position_ += 8;
  }
  void Write(std::span<const Segment> segments) {
    Write(static_cast<uint32_t>(segments.size()));
    for (const Segment& segment : segments) Write(segment);
  }
  size_t position() const { return position_; }

 private:
  Bytes out_;
  size_t position_ = 0;
};

Result<void, HeaderError> ParseReadList(WordReader& reader, ChunkLists& chunks, const HeaderLimits& limits) {
  for (;;) {
    PENSTOCK_TRY(bool present, reader.ReadPresent());
    if (!present) return {};
    if (chunks.reads.size() == limits.max_read_segments) return std::unexpected(HeaderError::kTooComplex);
    ReadSegment segment;
    if (!reader.Read(segment.position)) return std::unexpected(HeaderError::kTruncated);
    PENSTOCK_CHECK(reader.ReadSegment(segment.target));
    chunks.reads.push_back(segment);
  }
}

// Parses the count and the segments of a chunk, at most `max_segments`. Calls `add` for each segment.
template <class Add>
Result<void, HeaderError> ParseSegments(WordReader& reader, size_t max_segments, Add add) {
  uint32_t count;
  if (!reader.Read(count)) return std::unexpected(HeaderError::kTruncated);
  if (count > reader.remaining() / kSegmentSize) return std::unexpected(HeaderError::kTruncated);
  if (count > max_segments) return std::unexpected(HeaderError::kTooComplex);
  for (uint32_t i = 0; i < count; ++i) {
    Segment segment;
    PENSTOCK_CHECK(reader.ReadSegment(segment));
    add(segment);
  }
  return {};
}

Result<void, HeaderError> ParseWriteList(WordReader& reader, ChunkLists& chunks, const HeaderLimits& limits) {
  WriteList& writes = chunks.writes;
  for (;;) {
    PENSTOCK_TRY(bool present, reader.ReadPresent());
    if (!present) return {};
    if (writes.size() == limits.max_write_chunks) return std::unexpected(HeaderError::kTooComplex);
    writes.AddChunk();
    PENSTOCK_CHECK(ParseSegments(reader, limits.max_write_segments - writes.segment_count(),
                                 [&](const Segment& segment) { writes.Add(segment); }));
  }
}

Result<void, HeaderError> ParseReplyChunk(WordReader& reader, ChunkLists& chunks, const HeaderLimits& limits) {
  PENSTOCK_TRY(chunks.has_reply, reader.ReadPresent());
  if (!chunks.has_reply) return {};
  return ParseSegments(reader, limits.max_reply_segments,
                       [&](const Segment& segment) { chunks.reply.push_back(segment); });
}

}  // namespace

std::string_view ToString(HeaderError error) {
  switch (error) {
    case HeaderError::kVersion:
      return "unsupported version";
    case HeaderError::kProcedure:
      return "unknown procedure";
    case HeaderError::kPadded:
      return "RDMA_MSGP without an agreement";
    case HeaderError::kPadding:
      return "RDMA_MSGP with other terms than agreed, or with Read chunks";
    case HeaderError::kTruncated:
      return "truncated";
    case HeaderError::kMalformed:
      return "malformed";
    case HeaderError::kTooComplex:
      return "too many chunks or segments";
    case HeaderError::kWraps:
      return "a segment that wraps its address space";
    case HeaderError::kNoPayload:
      return "no payload stream";
    case HeaderError::kTrailing:
      return "octets after the header";
  }
  return "?";
}

std::optional<FixedHeader> FixedHeader::Parse(ConstBytes message) {
  if (message.size() < kMinimalError) return std::nullopt;
  const std::byte* at = message.data();
  FixedHeader fixed{rpc::Xid(LoadBig<uint32_t>(at)), LoadBig<uint32_t>(at + 4), LoadBig<uint32_t>(at + 8),
                    Procedure{LoadBig<uint32_t>(at + 12)}};
  // RFC 8166 §4.5 discards messages below 28 octets, although its own ERR_CHUNK has only 20. Accept shorter errors.
  if (message.size() < kMinimalHeader && fixed.procedure != Procedure::kError) return std::nullopt;
  return fixed;
}

Result<size_t, HeaderError> Header::Parse(const FixedHeader& fixed_header, ConstBytes message,
                                          const HeaderLimits& limits) {
  fixed = fixed_header;
  chunks.Clear();
  if (fixed.version != kProtocolVersion) return std::unexpected(HeaderError::kVersion);
  WordReader reader(message, kFixedSize);
  switch (fixed.procedure) {
    case Procedure::kMsgp:
      if (limits.padding == 0) return std::unexpected(HeaderError::kPadded);
      if (!reader.Read(alignment) || !reader.Read(threshold)) return std::unexpected(HeaderError::kTruncated);
      if (alignment != limits.padding || threshold < kPaddingThreshold) return std::unexpected(HeaderError::kPadding);
      [[fallthrough]];
    case Procedure::kMsg:
    case Procedure::kNomsg:
      PENSTOCK_CHECK(ParseReadList(reader, chunks, limits));
      PENSTOCK_CHECK(ParseWriteList(reader, chunks, limits));
      PENSTOCK_CHECK(ParseReplyChunk(reader, chunks, limits));
      if (fixed.procedure != Procedure::kNomsg) {
        if (fixed.procedure == Procedure::kMsgp && !chunks.reads.empty()) return std::unexpected(HeaderError::kPadding);
        if (reader.remaining() < kWord) return std::unexpected(HeaderError::kNoPayload);
      } else {
        if (chunks.empty()) return std::unexpected(HeaderError::kNoPayload);  // RFC 8166 §4.5.2
        if (reader.remaining() != 0) return std::unexpected(HeaderError::kTrailing);
      }
      return reader.position();
    case Procedure::kDone:
      return reader.position();
    case Procedure::kError: {
      uint32_t code;
      if (!reader.Read(code)) return std::unexpected(HeaderError::kTruncated);
      error = ErrorCode{code};
      if (error == ErrorCode::kVersion) {
        if (!reader.Read(lowest_version) || !reader.Read(highest_version)) {
          return std::unexpected(HeaderError::kTruncated);
        }
      } else if (error != ErrorCode::kChunk) {
        return std::unexpected(HeaderError::kMalformed);
      }
      return reader.position();
    }
  }
  return std::unexpected(HeaderError::kProcedure);
}

size_t ReplyHeaderSize(const ChunkLists& call) {
  return kMinimalHeader + call.writes.size() * (kWord + kWord) + call.writes.segment_count() * kSegmentSize +
         (call.has_reply ? kWord + call.reply.size() * kSegmentSize : 0);
}

size_t HeaderSize(const ChunkLists& chunks) {
  return ReplyHeaderSize(chunks) + chunks.reads.size() * (kWord + kWord + kSegmentSize);
}

size_t Header::serialized_size() const {
  switch (fixed.procedure) {
    case Procedure::kError:
      return error == ErrorCode::kVersion ? kMinimalError + 2 * kWord : kMinimalError;
    case Procedure::kDone:
      return kFixedSize;
    case Procedure::kMsgp:
      return HeaderSize(chunks) + kPaddingTermsSize;
    default:
      return HeaderSize(chunks);
  }
}

size_t Header::Serialize(Bytes out) const {
  assert(out.size() >= serialized_size());
  WordWriter writer(out);
  writer.Write(fixed.xid.value());
  writer.Write(fixed.version);
  writer.Write(fixed.credits);
  writer.Write(static_cast<uint32_t>(fixed.procedure));
  if (fixed.procedure == Procedure::kError) {
    writer.Write(static_cast<uint32_t>(error));
    if (error == ErrorCode::kVersion) {
      writer.Write(lowest_version);
      writer.Write(highest_version);
    }
    return writer.position();
  }
  if (fixed.procedure == Procedure::kDone) return writer.position();
  if (fixed.procedure == Procedure::kMsgp) {
    writer.Write(alignment);
    writer.Write(threshold);
  }
  for (const ReadSegment& segment : chunks.reads) {
    writer.Write(1u);
    writer.Write(segment.position);
    writer.Write(segment.target);
  }
  writer.Write(0u);
  for (size_t n = 0; n < chunks.writes.size(); ++n) {
    writer.Write(1u);
    writer.Write(chunks.writes.chunk(n));
  }
  writer.Write(0u);
  writer.Write(chunks.has_reply ? 1u : 0u);
  if (chunks.has_reply) writer.Write(std::span<const Segment>(chunks.reply));
  return writer.position();
}

std::string ToString(const Header& header) {
  static constexpr std::string_view kNames[] = {"RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE", "RDMA_ERROR"};
  const auto procedure = static_cast<uint32_t>(header.fixed.procedure);
  std::string text = fmt::format("{} xid {:08x} credits {}", procedure < 5 ? kNames[procedure] : "RDMA_?",
                                 header.fixed.xid.value(), header.fixed.credits);
  if (header.fixed.version != kProtocolVersion) text += fmt::format(" version {}", header.fixed.version);
  if (header.fixed.procedure == Procedure::kError) {
    return header.error == ErrorCode::kVersion
               ? text + fmt::format(" ERR_VERS {}..{}", header.lowest_version, header.highest_version)
               : text + " ERR_CHUNK";
  }
  if (header.fixed.procedure == Procedure::kMsgp) {
    text += fmt::format(" alignment {} threshold {}", header.alignment, header.threshold);
  }
  auto add = [&text](const Segment& segment) {
    text += fmt::format(" {:08x}:{}@{:x}", segment.stag.value(), segment.length, segment.offset);
  };
  for (const ReadSegment& segment : header.chunks.reads) {
    text += fmt::format(" read({})", segment.position);
    add(segment.target);
  }
  for (size_t n = 0; n < header.chunks.writes.size(); ++n) {
    text += " write";
    for (const Segment& segment : header.chunks.writes.chunk(n)) add(segment);
  }
  if (header.chunks.has_reply) text += " reply";
  for (const Segment& segment : header.chunks.reply) add(segment);
  return text;
}

}  // namespace penstock::rpcrdma
