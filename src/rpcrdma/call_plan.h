// Plans a call: how the requester conveys it, and which chunks it offers for the reply (RFC 8166 §3.5, §4.3, RFC 8267
// §3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "rpc/transport.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

// The properties of the connection that a plan depends on.
struct CallConditions {
  uint32_t call_threshold = 1024;   // the inline threshold to the responder
  uint32_t reply_threshold = 1024;  // the inline threshold from the responder
  // Payloads of at least this size move by RDMA Read and Write, even if they would fit inline.
  size_t min_chunk = 4096;
  // False: only short messages (RFC 8167 §5.3).
  bool chunks = true;
  // The boundary that the payloads of calls are padded to; 0: calls are not padded. With padding, a payload of a call
  // goes inline whenever it fits (draft-talpey-nfsv4-rdma-sess-01 §2.8).
  uint32_t padding = 0;
};

struct CallPlan {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  // Items of the call with at least this size become Read chunks. The other items stay in the stream.
  size_t reduce_from = kNone;
  // The boundary that the call is padded to, with all items in the stream (see padding.h); 0 if it is not padded.
  uint32_t padding = 0;
  // True: the call is an RDMA_NOMSG, and the rest of its stream goes into a position-zero chunk.
  bool long_call = false;
  // The number of Write chunks. The call offers them for the first results, and an empty one for a result without
  // octets.
  size_t write_chunks = 0;
  // The size of the Reply chunk; 0 if the call needs none.
  size_t reply_chunk = 0;

  bool reduces(const xdr::Item& item) const { return item.data.size() >= reduce_from; }
};

// Returns none if the call or its reply cannot be conveyed.
std::optional<CallPlan> PlanCall(const rpc::Message& call, const rpc::ReplyShape& shape,
                                 const CallConditions& conditions);

}  // namespace penstock::rpcrdma
