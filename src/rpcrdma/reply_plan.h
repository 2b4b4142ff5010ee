// Plans a reply: how the responder returns it, given the chunks of the call (RFC 8166 §3.4.6, §3.5.3, §4.3.2, §4.3.3).
//
// The n-th payload of the reply goes to the n-th Write chunk. If that chunk is empty or missing, the payload stays
// inline. A chunk without a payload goes back unused: with all its segments, each of length zero. A payload of length
// zero takes a chunk too. The plan does not depend on the contents of the payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpc/transport.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

// The form of a reply that carries its Payload stream.
enum class ReplyForm : uint8_t {
  kShort,  // RDMA_MSG: header and Payload stream in one Send
  kLong,   // RDMA_NOMSG: the Payload stream in the Reply chunk
};

struct ReplyPlan {
  ReplyForm form{};
  // The header of the reply. It has the procedure, and the chunk lists of the call with the lengths that the reply
  // uses. The XID is that of the call. The credits are still those of the call; the responder replaces them.
  Header header;
  // The handle to invalidate along with the reply (RFC 8797 §4.1). It is the handle of the first segment of a chunk of
  // the call, or none if the call has no chunks. A later segment may have the requester's permanent handle for XDR
  // padding, which must stay valid.
  std::optional<rdma::Stag> invalidate;
};

// True if the n-th payload goes to a Write chunk of `writes`.
inline bool IsPlaced(const WriteList& writes, size_t n) { return n < writes.size() && !writes.chunk(n).empty(); }

// The octets of the longest reply to a call with these lists: its stream, and the payloads that go to no Write chunk.
// `threshold` as below.
size_t ReplyRoom(const ChunkLists& call, uint32_t threshold);

// `call` is the header of the call as it was received. `threshold` is the longest Send that the peer accepts. Returns
// none if the reply does not fit; the responder then replies with ERR_CHUNK.
std::optional<ReplyPlan> PlanReply(const rpc::Message& reply, Header&& call, uint32_t threshold);

}  // namespace penstock::rpcrdma
