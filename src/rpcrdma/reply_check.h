// Checks that the chunk lists of a reply agree with the chunks that the call has offered: RFC 8166 §3.4.6, §4.3. The
// requester uses the lengths and segments of a reply only after this check.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

enum class ReplyError : uint8_t {
  kReadList,    // the reply has a Read list
  kWriteList,   // the number of Write chunks, or of their segments, differs from the call
  kReplyChunk,  // the call has no Reply chunk, or one with another number of segments
  kSegment,     // a handle or an offset differs from the call, or the length exceeds it
  kNotInOrder,  // a segment has octets although an earlier one is not full
  kProcedure,   // RDMA_NOMSG without octets in the Reply chunk, or RDMA_MSG with octets there
};
std::string_view ToString(ReplyError error);

// `reply` must be an RDMA_MSG or RDMA_NOMSG.
Result<void, ReplyError> CheckReply(const ChunkLists& offered, const Header& reply);

}  // namespace penstock::rpcrdma
