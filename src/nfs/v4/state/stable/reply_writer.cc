#include "nfs/v4/state/stable/reply_writer.h"

namespace penstock::nfs::v4 {

Task<std::shared_ptr<SessionReplies>> ReplyWriter::Create(Loop* loop, SessionId session, ReplyRoom room) {
  co_return co_await Offload(loop, pool_, [this, &session, &room] { return store_.Create(session, room); });
}

Task<bool> ReplyWriter::Keep(Loop* loop, SessionReplies& session, SlotId slot, const KeptReply& reply, bool lasting) {
  co_return co_await Offload(loop, pool_, [&session, slot, &reply, lasting] {  //
    return session.Keep(slot, reply, lasting);
  });
}

Task<> ReplyWriter::Remove(Loop* loop, const std::vector<std::shared_ptr<SessionReplies>>& sessions) {
  const auto remove = [&sessions] {
    for (const auto& session : sessions) session->Remove();
    return true;
  };
  co_await Offload(loop, pool_, remove);
}

}  // namespace penstock::nfs::v4
