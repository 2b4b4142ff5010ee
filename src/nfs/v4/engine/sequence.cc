// SEQUENCE (RFC 8881 §18.46): how it opens a request, and how the request ends.
#include "base/log.h"
#include "nfs/v4/engine/execution.h"
#include "nfs/v4/engine/judged_request.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4.h"
#include "rpc/client_key.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

// RFC 8881 §18.46
nfsstat4 Execution::RunSequence() {
  SEQUENCE4args arguments;
  results_.Begin(OP_SEQUENCE);
  if (!xdr::Decode(arguments_, arguments)) {
    xdr::Encode(results_.encoder(), SEQUENCE4res(NFS4ERR_BADXDR));
    return NFS4ERR_BADXDR;
  }
  const Sessions::RequestFacts facts = FactsAfterOpener(compound_.call, head_, arguments_);
  const TimePoint now = compound_.now();
  State& state = compound_.services.state;
  auto started = state.RunInShard(Shard::Of(arguments.sa_sessionid), [&](ShardTables& tables) {
    return tables.StartRequest(arguments, facts, SessionConnection::Of(compound_.call.peer), now);
  });
  if (!started && started.error() == NFS4ERR_BADSESSION) {
    started = state.Run([&](StateTables& tables) { return tables.sessions.RetryInDeadSession(arguments, facts, now); });
  }
  if (!started) {
    xdr::Encode(results_.encoder(), SEQUENCE4res(started.error()));
    return started.error();
  }
  if (started->outcome == Sessions::Outcome::kReplay) {
    results_.ReplaceAll(started->reply);
    replayed_ = true;
    return NFS4_OK;
  }
  SlotRequest request{.slot = SlotId(arguments.sa_slotid),
                      .sequence = SequenceId(arguments.sa_sequenceid),
                      .session = arguments.sa_sessionid,
                      .replies = std::move(started->replies),
                      .reclaiming = started->reclaiming,
                      .uncached = started->outcome == Sessions::Outcome::kUncached,
                      .digest = facts.digest};
  compound_.session = SessionUse{.client = started->client,
                                 .name = RequestName{request.session, request.slot, request.sequence},
                                 .replaces_exclusive4 = request.replies != nullptr};
  compound_.keeps_reply = arguments.sa_cachethis && !request.uncached;
  request_ = std::move(request);
  limit_ = RoomWithin(started->max_reply);
  LimitToConnection();
  if (compound_.keeps_reply) kept_limit_ = RoomWithin(started->max_kept_reply);
  xdr::Encode(results_.encoder(), SEQUENCE4res(NFS4_OK, started->sequence));
  return NFS4_OK;
}

// Stores the reply of a persistent session (RFC 8881 §2.10.6.5). If that fails, the client still gets the reply,
// since the operations cannot be undone. The session then accepts no new request, so that the client learns that its
// replies are not kept.
Task<> Execution::Persist(const SlotRequest& request) {
  const Services& services = compound_.services;
  const KeptReply kept{.sequence = request.sequence, .digest = request.digest, .results = results_.Copy()};
  // The tag is too long. CheckRoom() has then kept every operation but SEQUENCE from execution.
  if (kept.results.flat_size() > kept_limit_) co_return;
  const bool done = co_await services.replies->Keep(compound_.call.peer.loop, rpc::ClientKeyOf(compound_.call.peer),
                                                    *request.replies, request.slot, kept, compound_.lasting);
  if (done) co_return;
  log::error("the reply of a persistent session cannot be kept: the session ends");
  services.state.Run([&](StateTables& state) { state.sessions.LosePersistence(request.session); });
}

void Execution::Finish(const SlotRequest& request) {
  if (request.uncached) return;
  std::optional<xdr::Message> reply;
  if (compound_.keeps_reply) reply = results_.Copy();
  compound_.services.state.RunInShard(Shard::Of(request.session), [&](ShardTables& state) {
    state.FinishRequest(request.session, request.slot, request.sequence, std::move(reply), compound_.now());
  });
}

}  // namespace penstock::nfs::v4
