// How a requester conveys a call, and what it offers for the reply: RFC 8166 §3.5, §4.3, RFC 8267 §3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "rpc/transport.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

struct CallConditions {
  uint32_t call_threshold = 1024;   // inline, to the responder
  uint32_t reply_threshold = 1024;  // inline, from the responder
  // Payloads of so many octets move by RDMA Read and Write even where they would fit inline.
  size_t min_chunk = 4096;
  // False: short messages only (RFC 8167 §5.3).
  bool chunks = true;
};

struct CallPlan {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  // Items of the call that have at least so many octets become Read chunks; the others stay in the stream.
  size_t reduce_from = kNone;
  // RDMA_NOMSG: what is left of the stream goes into a position-zero chunk.
  bool long_call = false;
  // Write chunks are offered for the results 0 ... write_chunks - 1; empty ones where no octets are expected.
  size_t write_chunks = 0;
  // Octets of the Reply chunk; 0 where none is needed.
  size_t reply_chunk = 0;

  bool reduces(const xdr::Item& item) const { return item.data.size() >= reduce_from; }
};

// None where the call or its reply cannot be conveyed.
std::optional<CallPlan> PlanCall(const rpc::Message& call, const rpc::ReplyShape& shape,
                                 const CallConditions& conditions);

}  // namespace penstock::rpcrdma
