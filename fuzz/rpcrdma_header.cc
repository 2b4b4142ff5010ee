// Parses the input as an RPC-over-RDMA header. The parser must agree with the one generated from protocol/rpcrdma.x. A
// parsed header must serialize to the same octets. Each plan for it must stay within the offered chunks. Padded calls
// are accepted only with the agreed alignment.
#include <cstdlib>
#include <vector>

#include "protocol/rpcrdma.h"
#include "rpcrdma/padding.h"
#include "rpcrdma/private_data.h"
#include "rpcrdma/read_plan.h"
#include "rpcrdma/reply_check.h"
#include "rpcrdma/reply_plan.h"
#include "xdr/xdr.h"

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::rpcrdma;  // NOLINT

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

bool GeneratedDecodes(ConstBytes message) {
  xdr::Message whole;
  whole.stream = Slice::Borrowed(message);
  xdr::Decoder decoder(whole);
  rpcrdma1::rdma_msg value;
  return xdr::Decode(decoder, value);
}

void CheckReads(const Header& header, size_t inline_size) {
  constexpr size_t kMax = 1 << 20;
  Result<ReadPlan, ReadError> plan = PlanReads(header, inline_size, kMax);
  if (!plan) {
    Require(!ToString(plan.error()).empty());
    return;
  }
  Require(plan->total <= kMax && plan->segments.size() == header.chunks.reads.size());
  size_t total = plan->stream.length, last = 0;
  Require(plan->long_call || total == 0);
  for (const ReadChunk& chunk : plan->items) {
    Require(chunk.length > 0 && TotalLength(plan->SegmentsOf(chunk)) == chunk.length);
    Require(chunk.offset > last && chunk.offset % 4 == 0);
    Require(chunk.offset <= (plan->long_call ? plan->stream.length : inline_size));
    last = chunk.offset;
    total += chunk.length;
  }
  Require(total == plan->total);
}

// A reply whose payloads have lengths from the message.
void CheckReply(const Header& call, ConstBytes message) {
  static const std::vector<std::byte> octets(1 << 16);
  rpc::Message reply;
  reply.stream = Slice::Borrowed(ConstBytes(octets).first(LoadBig<uint16_t>(message.data()) & ~3));
  const size_t count = LoadBig<uint32_t>(message.data()) % 5;
  for (size_t n = 0; n < count; ++n) {
    const size_t offset = std::min(reply.stream.size(), 4 * (n + 1));
    const size_t length = LoadBig<uint16_t>(message.data() + 2 * n);
    reply.items.push_back({offset, Data(Slice::Borrowed(ConstBytes(octets).first(length)))});
  }
  const uint32_t threshold = 1024;
  const std::optional<ReplyPlan> plan = PlanReply(reply, Header(call), threshold);
  if (!plan) return;
  const Header& header = plan->header;
  Require(header.serialized_size() <= threshold);
  Require(rpcrdma::CheckReply(call.chunks, header).has_value());
  for (size_t n = 0; n < header.chunks.writes.size(); ++n) {
    const uint64_t length = TotalLength(header.chunks.writes.chunk(n));
    Require(length == (n < count && IsPlaced(header.chunks.writes, n) ? reply.items[n].data.size() : 0));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ConstBytes message = std::as_bytes(std::span(data, size));
  const PrivateData private_data = PrivateData::Parse(message);
  Require(PrivateData::Parse(private_data.Serialize()) == private_data);

  const std::optional<FixedHeader> fixed = FixedHeader::Parse(message);
  if (!fixed) return 0;
  Header header;
  constexpr uint32_t kBoundary = 512;
  if (fixed->procedure == Procedure::kMsgp) Require(!header.Parse(*fixed, message, {}).has_value());
  const HeaderLimits limits{.padding = kBoundary,
                            .max_read_segments = 8,
                            .max_write_chunks = 4,
                            .max_write_segments = 8,
                            .max_reply_segments = 4};
  const Result<size_t, HeaderError> parsed = header.Parse(*fixed, message, limits);
  Require(!ToString(header).empty());
  if (!parsed) {
    Require(!ToString(parsed.error()).empty());
    if (parsed.error() == HeaderError::kTruncated || parsed.error() == HeaderError::kMalformed ||
        parsed.error() == HeaderError::kProcedure) {
      Require(!GeneratedDecodes(message));
    }
    return 0;
  }
  Require(*parsed <= size && GeneratedDecodes(message.first(*parsed)));
  std::vector<std::byte> again(header.serialized_size());
  Require(header.Serialize(again) == *parsed);
  Require(Equal(again, message.first(*parsed)));
  if (header.fixed.procedure == Procedure::kMsgp) {
    Require(header.alignment == kBoundary && header.threshold >= kPaddingThreshold && header.chunks.reads.empty());
    CheckReply(header, message);
    return 0;
  }
  if (header.fixed.procedure != Procedure::kMsg && header.fixed.procedure != Procedure::kNomsg) return 0;
  CheckReads(header, size - *parsed);
  CheckReply(header, message);
  return 0;
}
