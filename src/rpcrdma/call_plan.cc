#include "rpcrdma/call_plan.h"

#include <algorithm>
#include <vector>

#include "rpcrdma/padding.h"
#include "rpcrdma/payload.h"

namespace penstock::rpcrdma {
namespace {

constexpr size_t kReadSegmentSize = 24;
constexpr size_t kWriteChunkOverhead = 8;
constexpr size_t kMaxLength = std::numeric_limits<uint32_t>::max();

// The size of a Write list for the first `count` results, in a header.
size_t WriteListSize(const rpc::ReplyShape& shape, size_t count) {
  size_t size = 0;
  for (size_t n = 0; n < count; ++n) size += kWriteChunkOverhead + (shape.results[n].max_length > 0 ? kSegmentSize : 0);
  return size;
}

// Chooses the chunks for the reply. Returns their size in the header, or none if the reply cannot be conveyed.
std::optional<size_t> PlanReplyResources(const rpc::ReplyShape& shape, const CallConditions& conditions,
                                         CallPlan& plan) {
  size_t results = 0;   // octets of all results, inline
  size_t expected = 0;  // number of results up to the last one that may have octets
  size_t longest = 0;
  for (size_t n = 0; n < shape.results.size(); ++n) {
    const size_t length = shape.results[n].max_length;
    if (length > kMaxLength) return std::nullopt;
    results += RoundUp(length, 4);
    longest = std::max(longest, length);
    if (length > 0) expected = n + 1;
  }
  if (shape.max_stream > kMaxLength || results > kMaxLength) return std::nullopt;

  const size_t threshold = conditions.reply_threshold;
  const bool all_inline = kMinimalHeader + shape.max_stream + results <= threshold;
  if (!conditions.chunks) return all_inline ? std::optional<size_t>(0) : std::nullopt;
  if (all_inline && longest < conditions.min_chunk) return 0;

  // Offer chunks for all results or for none. A responder may be unable to return one result inline and another in a
  // chunk.
  const size_t list_size = WriteListSize(shape, expected);
  const bool short_with_list = kMinimalHeader + list_size + shape.max_stream <= threshold;
  if (short_with_list || longest >= conditions.min_chunk) plan.write_chunks = expected;
  if (plan.write_chunks > 0 && short_with_list) return list_size;
  // RFC 8166 §4.3.3: offer a Reply chunk only if the largest possible reply does not fit inline.
  plan.reply_chunk = shape.max_stream + (plan.write_chunks > 0 ? 0 : results);
  return (plan.write_chunks > 0 ? list_size : 0) + 4 + kSegmentSize;
}

// True if the call has a payload for a pad, and fits in a Send with its pads.
bool CanPad(const rpc::Message& call, size_t reply_size, const CallConditions& conditions) {
  const xdr::Padding padding = PaddingOf(conditions.padding, kMinimalHeader + kPaddingTermsSize + reply_size);
  return HasPads(call, padding) && padding.offset + PaddedSize(call, padding) <= conditions.call_threshold;
}

// Chooses how to convey the call itself. `reply_size` is the size of the chunks for the reply in the header. Returns
// false if the call cannot be conveyed.
bool PlanCallStream(const rpc::Message& call, size_t reply_size, const CallConditions& conditions, CallPlan& plan) {
  const size_t threshold = conditions.call_threshold;
  size_t size = kMinimalHeader + reply_size + PayloadSize(call, [](size_t) { return false; });
  if (!conditions.chunks) return size <= threshold;
  if (CanPad(call, reply_size, conditions)) {
    plan.padding = conditions.padding;
    return true;
  }

  std::vector<size_t> lengths;
  for (const xdr::Item& item : call.items) {
    if (item.data.size() > kMaxLength) return false;
    if (!item.data.empty()) lengths.push_back(item.data.size());
  }
  std::sort(lengths.begin(), lengths.end(), std::greater<>());

  // Reduce the longest items first, until the rest fits. Reduce items of at least min_chunk in any case, unless the
  // peers have agreed on padding.
  const size_t min_chunk = conditions.padding > 0 ? CallPlan::kNone : conditions.min_chunk;
  size_t reads = 0;
  while (reads < lengths.size()) {
    const size_t length = lengths[reads];
    if (size <= threshold && length < min_chunk) break;
    for (; reads < lengths.size() && lengths[reads] == length; ++reads) size += kReadSegmentSize - RoundUp(length, 4);
    plan.reduce_from = length;
  }
  if (size <= threshold) return true;

  // The rest is still too long. It becomes a position-zero chunk, and short items stay in it.
  plan.long_call = true;
  plan.reduce_from = conditions.min_chunk;
  reads = std::count_if(lengths.begin(), lengths.end(), [&](size_t length) { return length >= plan.reduce_from; });
  const size_t payload = PayloadSize(call, [&](size_t n) { return plan.reduces(call.items[n]); });
  return payload <= kMaxLength && kMinimalHeader + reply_size + (reads + 1) * kReadSegmentSize <= threshold;
}

}  // namespace

std::optional<CallPlan> PlanCall(const rpc::Message& call, const rpc::ReplyShape& shape,
                                 const CallConditions& conditions) {
  CallPlan plan;
  std::optional<size_t> reply_size = PlanReplyResources(shape, conditions, plan);
  if (!reply_size || !PlanCallStream(call, *reply_size, conditions, plan)) return std::nullopt;
  return plan;
}

}  // namespace penstock::rpcrdma
