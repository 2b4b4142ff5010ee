// Whether a reply's header agrees with what the call has offered: RFC 8166 §3.4.6, §4.3. Nothing of what a responder says
// about our memory is believed without this.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "rpcrdma/header.h"

namespace penstock::rpcrdma {

enum class ReplyError : uint8_t {
  kReadList,    // a Read list in a reply
  kWriteList,   // another number of Write chunks or of segments than offered
  kReplyChunk,  // a Reply chunk that was not offered, or with other segments
  kSegment,     // a handle or an offset that was not offered, or more octets
  kNotInOrder,  // octets in a segment behind one that is not full
  kProcedure,   // RDMA_NOMSG without octets in the Reply chunk, RDMA_MSG with some
};
std::string_view ToString(ReplyError error);

// `reply` is an RDMA_MSG or RDMA_NOMSG.
Result<void, ReplyError> CheckReply(const ChunkLists& offered, const Header& reply);

}  // namespace penstock::rpcrdma
