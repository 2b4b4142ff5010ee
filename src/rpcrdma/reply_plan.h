// How a responder returns a reply, given the chunks that the call has offered: RFC 8166 §3.4.6, §3.5.3, §4.3.2, §4.3.3.
//
// The n-th payload of the reply goes to the n-th Write chunk. An empty chunk asks for it inline; so does the lack of one. A
// chunk without a payload goes back unused: with all its segments, of length zero. A payload of length zero has its chunk
// all the same. Nobody needs to know what the payloads are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpc/transport.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

enum class ReplyForm : uint8_t {
  kShort,  // RDMA_MSG: header and Payload stream in one Send
  kLong,   // RDMA_NOMSG: the Payload stream in the Reply chunk
};

struct ReplyPlan {
  ReplyForm form{};
  // The call's header turned into the reply's: procedure, and the lists with the lengths that the reply uses. XID and
  // credits are still those of the call.
  Header header;
  // The handle to invalidate along with the reply (RFC 8797 §4.1): that of the first segment of a chunk of this call, if the
  // call has a chunk. Never the handle of a later segment, which may be the requester's permanent one for XDR padding.
  std::optional<rdma::Stag> invalidate;
};

// True where the n-th payload goes to a Write chunk of `writes`.
inline bool IsPlaced(const WriteList& writes, size_t n) { return n < writes.size() && !writes.chunk(n).empty(); }

// `call` is the call's header as it was received. No Send may be longer than `threshold`. Returns none if the reply fits
// nowhere; the responder then answers with ERR_CHUNK.
std::optional<ReplyPlan> PlanReply(const rpc::Message& reply, Header call, uint32_t threshold);

}  // namespace penstock::rpcrdma
