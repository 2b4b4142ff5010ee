#include "nfs/v4/state/stable/reply_writer.h"

#include "base/log.h"

namespace penstock::nfs::v4 {

Task<std::shared_ptr<SessionReplies>> ReplyWriter::Create(Loop* loop, SessionId session, ReplyRoom room) {
  co_return co_await Offload(loop, pool_, [this, &session, &room] { return store_.Create(session, room); });
}

Task<bool> ReplyWriter::Keep(Loop* loop, const ClientKey& client, SessionReplies& session, SlotId slot,
                             const KeptReply& reply, bool lasting) {
  const auto keep = [&session, slot, &reply, lasting] { return session.Keep(slot, reply, lasting); };
  co_return co_await Offload(loop, pool_, keep, client);
}

Task<std::shared_ptr<StreamStorage>> ReplyWriter::Create(Loop* loop, const BoundSessionRecord& session) {
  co_return co_await Offload(loop, pool_, [this, &session] { return streams_.Create(session); });
}

Task<bool> ReplyWriter::Begin(Loop* loop, const ClientKey& client, StreamStorage& session, sess01::StreamId stream,
                              const StreamRecord& request, bool lasting) {
  const auto begin = [&session, stream, &request, lasting] { return session.Begin(stream, request, lasting); };
  co_return co_await Offload(loop, pool_, begin, client);
}

Task<bool> ReplyWriter::Keep(Loop* loop, const ClientKey& client, StreamStorage& session, sess01::StreamId stream,
                             const StreamRecord& request, bool lasting) {
  const auto keep = [&session, stream, &request, lasting] { return session.Keep(stream, request, lasting); };
  co_return co_await Offload(loop, pool_, keep, client);
}

Task<bool> ReplyWriter::Reserve(Loop* loop, StreamStorage& session, const ChannelBlock& channels) {
  co_return co_await Offload(loop, pool_, [&session, &channels] { return session.Reserve(channels); });
}

Task<bool> ReplyWriter::HasRoomFor(Loop* loop, const BoundSessionRecord& session) {
  co_return co_await Offload(loop, pool_, [this, &session] { return streams_.HasRoomFor(session); });
}

Task<> ReplyWriter::Remove(Loop* loop, const std::vector<std::shared_ptr<SessionReplies>>& sessions) {
  if (sessions.empty()) co_return;
  const auto remove = [&sessions] {
    for (const auto& session : sessions) session->Remove();
    return true;
  };
  co_await Offload(loop, pool_, remove);
}

Task<> ReplyWriter::Remove(Loop* loop, const std::vector<std::shared_ptr<StreamStorage>>& sessions) {
  if (sessions.empty()) co_return;
  const auto remove = [&sessions] {
    bool done = true;
    for (const auto& session : sessions) done &= session->Remove(false);
    return done;
  };
  if (!co_await Offload(loop, pool_, remove)) {
    log::error("files of sessions that have ended cannot be removed from the state directory: they come back");
  }
}

Task<bool> ReplyWriter::RemoveForGood(Loop* loop, StreamStorage& session) {
  co_return co_await Offload(loop, pool_, [&session] { return session.Remove(true); });
}

}  // namespace penstock::nfs::v4
