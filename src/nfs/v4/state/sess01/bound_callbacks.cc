// Calls to the clients of sessions of 2004, over the back channels (draft-talpey-nfsv4-rdma-sess-01 §2.6).
#include "nfs/v4/state/sess01/bound_sessions.h"

namespace penstock::nfs::v4::sess01 {

bool BoundSessions::CanCall(const Client& client) const {
  if (!client.bound_session) return false;
  const BoundSession& session = *sessions_.at(*client.bound_session);
  const BoundSession::Channel* back = session.Back();
  return back && back->way && back->way->connected() && session.callback_credential;
}

Result<BoundSessions::CallbackStart, BoundSessions::NoCallback> BoundSessions::StartCallback(const Client& client) {
  if (!CanCall(client)) return std::unexpected(NoCallback::kNoPath);
  BoundSession& session = *sessions_.at(*client.bound_session);
  const auto stream = session.callback_streams.Take();
  if (!stream) return std::unexpected(NoCallback::kBusy);
  const BoundSession::Channel& back = *session.Back();
  return CallbackStart{.session = session.id,
                       .channel = back.id,
                       .stream = *stream,
                       .credential = *session.callback_credential,
                       .way = back.way};
}

void BoundSessions::FinishCallback(const CallbackStart& call, CallbackSlots::Fate fate) {
  BoundSession* const session = Find(call.session);
  // A later back channel has streams of its own.
  if (session && session->callbacks_since == call.channel) session->callback_streams.Give(call.stream, fate);
}

std::shared_ptr<rpc::BackChannel> BoundSessions::CallbackWay(uint64_t id) {
  const BoundSession* const session = Find(id);
  const BoundSession::Channel* back = session ? session->Back() : nullptr;
  return back && back->way && back->way->connected() ? back->way : nullptr;
}

}  // namespace penstock::nfs::v4::sess01
