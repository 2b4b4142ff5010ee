#include "rpcrdma/reply_plan.h"

#include <algorithm>
#include <span>
#include <utility>

#include "rpcrdma/payload.h"

namespace penstock::rpcrdma {
namespace {

// Distributes `length` octets over the segments in order, and sets the length of each to its share. Returns false if
// the segments are too short.
bool Fill(std::span<Segment> segments, uint64_t length) {
  for (Segment& segment : segments) {
    segment.length = static_cast<uint32_t>(std::min<uint64_t>(segment.length, length));
    length -= segment.length;
  }
  return length == 0;
}

std::optional<rdma::Stag> HandleToInvalidate(const Header& call) {
  const ChunkLists& chunks = call.chunks;
  for (size_t n = 0; n < chunks.writes.size(); ++n) {
    if (!chunks.writes.chunk(n).empty()) return chunks.writes.chunk(n).front().stag;
  }
  if (!chunks.reply.empty()) return chunks.reply.front().stag;
  if (!chunks.reads.empty()) return chunks.reads.front().target.stag;
  return std::nullopt;
}

}  // namespace

size_t ReplyRoom(const ChunkLists& call, uint32_t threshold) {
  const size_t header_size = ReplyHeaderSize(call);
  if (header_size > threshold) return 0;
  return std::max<uint64_t>(threshold - header_size, call.has_reply ? TotalLength(call.reply) : 0);
}

std::optional<ReplyPlan> PlanReply(const rpc::Message& reply, Header&& call, uint32_t threshold) {
  ReplyPlan plan;
  plan.invalidate = HandleToInvalidate(call);
  plan.header = std::move(call);
  ChunkLists& chunks = plan.header.chunks;
  chunks.reads.clear();  // RFC 8166 §4.3.1: a reply has no Read list
  for (size_t n = 0; n < chunks.writes.size(); ++n) {
    std::span<Segment> chunk = chunks.writes.chunk(n);
    const size_t length = n < reply.items.size() && !chunk.empty() ? reply.items[n].data.size() : 0;
    // A payload that does not fit into its chunk must not go to another place (RFC 8166 §6.1).
    if (!Fill(chunk, length)) return std::nullopt;
  }

  const size_t header_size = HeaderSize(chunks);
  const size_t payload_size = PayloadSize(reply, [&](size_t n) { return IsPlaced(chunks.writes, n); });
  if (header_size + payload_size <= threshold) {
    plan.form = ReplyForm::kShort;
    plan.header.fixed.procedure = Procedure::kMsg;
    Fill(chunks.reply, 0);
    return plan;
  }
  if (!chunks.has_reply || header_size > threshold || !Fill(chunks.reply, payload_size)) return std::nullopt;
  plan.form = ReplyForm::kLong;
  plan.header.fixed.procedure = Procedure::kNomsg;
  return plan;
}

}  // namespace penstock::rpcrdma
