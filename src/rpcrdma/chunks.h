// The chunk lists of an RPC-over-RDMA header: RFC 8166 §3.4.3 - §3.4.6, §4.3.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma/endpoint.h"

namespace penstock::rpcrdma {

using Segment = rdma::RemoteSegment;

// One entry of the Read list. Entries with the same position make up one Read chunk, in list order.
struct ReadSegment {
  uint32_t position = 0;  // in the unreduced Payload stream
  Segment target;
  bool operator==(const ReadSegment&) const = default;
};

// The number of octets in all segments. 64 bits cannot overflow: each length has only 32.
inline uint64_t TotalLength(std::span<const Segment> segments) {
  uint64_t total = 0;
  for (const Segment& segment : segments) total += segment.length;
  return total;
}

// The Write list of a header. It holds several chunks, and each chunk is an array of segments. The segments of all
// chunks lie in one array. A list therefore needs only two allocations for any number of chunks, and a list that is
// used again needs none.
class WriteList {
 public:
  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::span<const Segment> chunk(size_t n) const { return {segments_.data() + Begin(n), ends_[n] - Begin(n)}; }
  std::span<Segment> chunk(size_t n) { return {segments_.data() + Begin(n), ends_[n] - Begin(n)}; }
  size_t segment_count() const { return segments_.size(); }

  // Appends a chunk without segments. Add() then appends segments to it.
  void AddChunk() { ends_.push_back(static_cast<uint32_t>(segments_.size())); }
  void Add(const Segment& segment) {
    assert(!ends_.empty());
    segments_.push_back(segment);
    ++ends_.back();
  }
  void Clear() {
    ends_.clear();
    segments_.clear();
  }
  bool operator==(const WriteList&) const = default;

 private:
  size_t Begin(size_t n) const { return n == 0 ? 0 : ends_[n - 1]; }

  std::vector<uint32_t> ends_;
  std::vector<Segment> segments_;
};

struct ChunkLists {
  std::vector<ReadSegment> reads;
  WriteList writes;
  bool has_reply = false;
  std::vector<Segment> reply;  // the Reply chunk, if has_reply; a present chunk may have no segments

  bool empty() const { return reads.empty() && writes.empty() && !has_reply; }
  void Clear() {
    reads.clear();
    writes.Clear();
    has_reply = false;
    reply.clear();
  }
  bool operator==(const ChunkLists&) const = default;
};

}  // namespace penstock::rpcrdma
