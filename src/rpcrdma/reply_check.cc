#include "rpcrdma/reply_check.h"

namespace penstock::rpcrdma {
namespace {

Result<void, ReplyError> CheckSegments(std::span<const Segment> offered, std::span<const Segment> returned) {
  bool full = true;
  for (size_t i = 0; i < offered.size(); ++i) {
    if (returned[i].stag != offered[i].stag || returned[i].offset != offered[i].offset ||
        returned[i].length > offered[i].length) {
      return std::unexpected(ReplyError::kSegment);
    }
    if (!full && returned[i].length > 0) return std::unexpected(ReplyError::kNotInOrder);
    full = returned[i].length == offered[i].length;
  }
  return {};
}

}  // namespace

std::string_view ToString(ReplyError error) {
  switch (error) {
    case ReplyError::kReadList:
      return "Read list in a reply";
    case ReplyError::kWriteList:
      return "Write list differs from the offered one";
    case ReplyError::kReplyChunk:
      return "Reply chunk differs from the offered one";
    case ReplyError::kSegment:
      return "segment differs from the offered one";
    case ReplyError::kNotInOrder:
      return "segments not filled in order";
    case ReplyError::kProcedure:
      return "procedure and Reply chunk contradict each other";
  }
  return "?";
}

Result<void, ReplyError> CheckReply(const ChunkLists& offered, const Header& reply) {
  const ChunkLists& returned = reply.chunks;
  if (!returned.reads.empty()) return std::unexpected(ReplyError::kReadList);
  if (returned.writes.size() != offered.writes.size()) return std::unexpected(ReplyError::kWriteList);
  for (size_t n = 0; n < offered.writes.size(); ++n) {
    if (returned.writes.chunk(n).size() != offered.writes.chunk(n).size()) {
      return std::unexpected(ReplyError::kWriteList);
    }
    PENSTOCK_CHECK(CheckSegments(offered.writes.chunk(n), returned.writes.chunk(n)));
  }
  // The responder may leave out a Reply chunk that it has not used. Only an RDMA_NOMSG needs it.
  if (returned.has_reply) {
    if (!offered.has_reply || returned.reply.size() != offered.reply.size()) {
      return std::unexpected(ReplyError::kReplyChunk);
    }
    PENSTOCK_CHECK(CheckSegments(offered.reply, returned.reply));
  }
  const bool long_reply = reply.fixed.procedure == Procedure::kNomsg;
  if (long_reply != (TotalLength(returned.reply) > 0)) return std::unexpected(ReplyError::kProcedure);
  return {};
}

}  // namespace penstock::rpcrdma
