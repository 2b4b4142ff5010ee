// Persistent sessions (RFC 8881 §2.10.6.5): the sessions of this run that keep their replies, and the dead sessions of
// earlier runs.
#include <algorithm>
#include <cassert>
#include <iterator>

#include "nfs/v4/state/sessions/sessions.h"

namespace penstock::nfs::v4 {

nfs4::CREATE_SESSION4res Sessions::FinishCreate(ClientId id, const SessionId& session_id,
                                                std::shared_ptr<SessionReplies> replies) {
  if (Client* client = clients_.FindAny(id)) client->creating = false;
  Session* session = Find(session_id);
  if (!session) {
    if (replies) ended_.push_back(std::move(replies));
    return nfs4::CREATE_SESSION4res(nfs4::NFS4ERR_STALE_CLIENTID);
  }
  assert(session->persistent && session->client->create_reply);
  nfs4::CREATE_SESSION4res& reply = *session->client->create_reply;
  if (replies) {
    reply.csr_resok4().csr_flags |= nfs4::CREATE_SESSION4_FLAG_PERSIST;
    session->replies = std::move(replies);
  } else {
    session->persistent = false;
    --persistent_count_;
  }
  return reply;
}

void Sessions::LosePersistence(const SessionId& id) {
  if (Session* session = Find(id)) session->dead = true;
}

std::vector<std::shared_ptr<SessionReplies>> Sessions::TakeEnded(TimePoint now) {
  std::vector<std::shared_ptr<SessionReplies>> ended = dead_sessions_.TakeEnded(now);
  std::ranges::move(ended_, std::back_inserter(ended));
  ended_.clear();
  return ended;
}

Result<Sessions::StartedRequest, nfs4::nfsstat4> Sessions::RetryInDeadSession(const nfs4::SEQUENCE4args& arguments,
                                                                              const RequestFacts& facts,
                                                                              TimePoint now) {
  if (!dead_sessions_.Has(arguments.sa_sessionid)) return std::unexpected(nfs4::NFS4ERR_BADSESSION);
  const ReplySlots::Request request{.slot = SlotId(arguments.sa_slotid),
                                    .sequence = SequenceId(arguments.sa_sequenceid),
                                    .highest_slot = SlotId(arguments.sa_highest_slotid),
                                    .digest = facts.digest};
  PENSTOCK_TRY(xdr::Message reply, dead_sessions_.Retry(arguments.sa_sessionid, request, now));
  return StartedRequest{.outcome = Outcome::kReplay, .client = ClientId(0), .sequence = {}, .reply = std::move(reply)};
}

}  // namespace penstock::nfs::v4
