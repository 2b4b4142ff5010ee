// Plans the RDMA Reads for a call: which segments the responder must pull, and where their octets belong in the Payload
// stream (RFC 8166 §3.4.5, §3.5.3). The plan checks the whole Read list before the responder reads the first octet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

// The reason why a Read list is refused. The reply is ERR_CHUNK in each case.
enum class ReadError : uint8_t {
  kMisaligned,    // a position that is not a multiple of four
  kPositionZero,  // both a position-zero chunk and an inline Payload stream, or neither
  kTooLong,       // more octets than allowed for a call
  kOverlap,       // a chunk that begins inside another
  kBeyondStream,  // a chunk that begins after the end of the Payload stream
};
std::string_view ToString(ReadError error);

// One item of the call: consecutive segments of ReadPlan::segments.
struct ReadChunk {
  size_t first_segment = 0;
  size_t segment_count = 0;
  // The length of all segments. It may include the padding of the item (§3.4.5.2); the decoder accepts both forms.
  size_t length = 0;
  // The place of the item in the reduced stream, as in xdr::Item::offset.
  size_t offset = 0;
};

struct ReadPlan {
  std::vector<Segment> segments;  // grouped by chunk; in list order within a chunk
  bool long_call = false;         // the reduced stream is in a position-zero chunk, `stream`
  ReadChunk stream;
  std::vector<ReadChunk> items;  // by ascending offset, without chunks of length zero
  size_t total = 0;              // octets to pull

  std::span<const Segment> SegmentsOf(const ReadChunk& chunk) const {
    return std::span(segments).subspan(chunk.first_segment, chunk.segment_count);
  }
};

// `inline_size` is the size of the inline Payload stream. `max_octets` is the most that the responder pulls for one
// call.
Result<ReadPlan, ReadError> PlanReads(const Header& call, size_t inline_size, size_t max_octets);

}  // namespace penstock::rpcrdma
