// How a responder returns a reply, given the chunks that the call has offered: RFC 8166 §3.4.6, §3.5.3, §4.3.2, §4.3.3.
//
// The n-th payload of the reply goes to the n-th Write chunk. An empty chunk asks for it inline; so does the lack of one. A
// chunk without a payload goes back unused: with all its segments, of length zero. A payload of length zero has its chunk
// all the same. Nobody needs to know what the payloads are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rpc/transport.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

enum class ReplyForm : uint8_t {
  kShort,       // RDMA_MSG: header and Payload stream in one Send
  kLong,        // RDMA_NOMSG: the Payload stream in the Reply chunk
  kImpossible,  // fits nowhere: answered with ERR_CHUNK
};

// True where the n-th payload goes to a Write chunk of `writes`.
inline bool IsPlaced(const WriteList& writes, size_t n) { return n < writes.size() && !writes.chunk(n).empty(); }

// Turns the header of a call into the header of its reply: procedure, and the lists with the lengths that are going to be
// used. XID and credits are the caller's business. No Send may be longer than `threshold`. With kImpossible `header` is spoilt.
ReplyForm PlanReply(const rpc::Message& reply, uint32_t threshold, Header& header);

// The handle to invalidate along with the reply (RFC 8797 §4.1): of the first segment of a chunk of this call, where there
// is one. Never that of a later segment, which may be the requester's permanent one for XDR padding.
// `call` is the header as it was received.
std::optional<rdma::Stag> HandleToInvalidate(const Header& call);

}  // namespace penstock::rpcrdma
