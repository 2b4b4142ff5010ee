// What a responder has to pull for a call, and where it belongs: RFC 8166 §3.4.5, §3.5.3. Everything that can be wrong with
// a Read list is found here, before a single octet is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

// Why a Read list is refused; each is answered with ERR_CHUNK.
enum class ReadError : uint8_t {
  kMisaligned,    // a position that is not a multiple of four
  kPositionZero,  // a position-zero chunk beside an inline Payload stream, or neither of the two
  kTooLong,       // more octets than a call may have
  kOverlap,       // a chunk that begins inside another
  kBeyondStream,  // a chunk that begins behind the end of the Payload stream
};
std::string_view ToString(ReadError error);

// Consecutive segments of ReadPlan::segments whose bytes make up one item.
struct ReadChunk {
  size_t first_segment = 0;
  size_t segment_count = 0;
  // In all. With or without the padding of the item (§3.4.5.2); its decoder knows both.
  size_t length = 0;
  // Where it belongs in the reduced stream, as xdr::Item::offset.
  size_t offset = 0;
};

struct ReadPlan {
  std::vector<Segment> segments;  // sorted by chunk, in list order within
  bool long_call = false;         // the reduced stream comes in a position-zero chunk: `stream`
  ReadChunk stream;
  std::vector<ReadChunk> items;  // by ascending offset; without chunks of length zero
  size_t total = 0;              // octets to pull

  std::span<const Segment> SegmentsOf(const ReadChunk& chunk) const {
    return std::span(segments).subspan(chunk.first_segment, chunk.segment_count);
  }
};

// `inline_size`: octets of the Payload stream that came with the header. `max_octets`: what one call may make us pull.
Result<ReadPlan, ReadError> PlanReads(const Header& call, size_t inline_size, size_t max_octets);

}  // namespace penstock::rpcrdma
