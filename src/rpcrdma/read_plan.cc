#include "rpcrdma/read_plan.h"

#include <algorithm>

namespace penstock::rpcrdma {

std::string_view ToString(ReadError error) {
  switch (error) {
    case ReadError::kMisaligned:
      return "misaligned position";
    case ReadError::kPositionZero:
      return "both a position-zero chunk and an inline stream, or neither";
    case ReadError::kTooLong:
      return "Read chunks too long";
    case ReadError::kOverlap:
      return "overlapping Read chunks";
    case ReadError::kBeyondStream:
      return "Read chunk beyond the stream";
  }
  return "?";
}

Result<ReadPlan, ReadError> PlanReads(const Header& call, size_t inline_size, size_t max_octets) {
  // Segments with one position make one chunk, in list order; chunks may come in any order (RFC 8166 §4.3.1).
  std::vector<ReadSegment> reads = call.chunks.reads;
  auto by_position = [](const ReadSegment& a, const ReadSegment& b) { return a.position < b.position; };
  for (auto next = reads.begin(); next != reads.end(); ++next) {
    std::rotate(std::upper_bound(reads.begin(), next, *next, by_position), next, next + 1);
  }

  ReadPlan plan;
  plan.segments.reserve(reads.size());
  plan.long_call = call.fixed.procedure == Procedure::kNomsg;
  const bool has_position_zero = !reads.empty() && reads.front().position == 0;
  // The Payload stream is inline or in the position-zero chunk, never both (RFC 8166 §4.2.4).
  if (has_position_zero != plan.long_call) return std::unexpected(ReadError::kPositionZero);

  size_t stream_size = inline_size;
  // The octets of earlier chunks, with padding: the difference between a position and an offset in the reduced stream.
  size_t removed = 0;
  for (size_t i = 0; i < reads.size();) {
    const uint32_t position = reads[i].position;
    if (position % 4 != 0) return std::unexpected(ReadError::kMisaligned);
    ReadChunk chunk{.first_segment = i};
    for (; i < reads.size() && reads[i].position == position; ++i) {
      plan.segments.push_back(reads[i].target);
      chunk.length += reads[i].target.length;
      plan.total += reads[i].target.length;
      if (plan.total > max_octets) return std::unexpected(ReadError::kTooLong);
    }
    chunk.segment_count = i - chunk.first_segment;
    if (position == 0) {
      plan.stream = chunk;
      stream_size = chunk.length;
      continue;
    }
    if (position < removed) return std::unexpected(ReadError::kOverlap);
    chunk.offset = position - removed;
    // Two items cannot be adjacent, because the length word before each item stays in the stream (RFC 8166 §3.4.4.1).
    if (!plan.items.empty() && chunk.offset <= plan.items.back().offset) return std::unexpected(ReadError::kOverlap);
    if (chunk.offset > stream_size) return std::unexpected(ReadError::kBeyondStream);
    removed += RoundUp(chunk.length, 4);
    if (chunk.length > 0) plan.items.push_back(chunk);
  }
  return plan;
}

}  // namespace penstock::rpcrdma
