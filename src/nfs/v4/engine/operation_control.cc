// OPERATION_CONTROL (draft-talpey-nfsv4-rdma-sess-01 §6.4): how it opens a request of a session of 2004, and how the
// request ends. docs/sessions-2004.md lists the decisions on what the draft leaves open.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/log_limit.h"
#include "nfs/v4/engine/execution.h"
#include "nfs/v4/engine/judged_request.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4_compound.h"
#include "protocol/nfs4_sess01.h"
#include "rpc/client_key.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names

using sess01::BoundSessions;
using sess01::ChainRun;
using sess01::StreamTable;

Task<nfsstat4> Execution::RunControl() {
  OPERATIONCONTROL4args arguments;
  results_.Begin(OP_OPERATION_CONTROL);
  const auto refuse = [this](nfsstat4 status) {
    xdr::Encode(results_.encoder(), OPERATIONCONTROL4res(status));
    return status;
  };
  if (!xdr::Decode(arguments_, arguments)) co_return refuse(NFS4ERR_BADXDR);
  const Settings& settings = compound_.services.settings;
  // RFC 7530 §15.2: the server may limit the operations of a COMPOUND.
  if (head_.count > settings.max_bound_operations) co_return refuse(NFS4ERR_RESOURCE);
  const rpc::CallContext& call = compound_.call;
  const BoundRequest described = DescribeRequest(call, head_, arguments, arguments_);
  auto started = co_await JudgeInOrder(compound_.services, call, described);
  // A retry that comes while the request is still being executed waits for its reply.
  while (started && started->outcome == StreamTable::Outcome::kWait) {
    const auto wait = started->wait;
    co_await wait->over;
    started = Judge(compound_.services, call, described);
  }
  if (!started) co_return refuse(started.error());
  if (started->outcome == StreamTable::Outcome::kReplay) {
    results_.ReplaceAll(started->reply);
    replayed_ = true;
    co_return NFS4_OK;
  }

  StreamRequest request{.ref = std::move(started->request),
                        .record = {.channel = sess01::ChannelId(arguments.channelid),
                                   .xid = described.facts.xid,
                                   .digest = described.facts.digest},
                        .storage = std::move(started->storage),
                        .keeps_reply = started->keeps_reply,
                        .repeats = started->repeats};
  const rpc::ConnectionLimits limits = started->limits;
  const ClientId client = started->client;
  nfsstat4 status = started->refusal;
  if (status != NFS4_OK) {
    request.executed = false;
  } else if (request.ref.chain.run) {
    status = co_await AwaitTurn(request);
  }
  limit_ = RoomWithin(described.facts.is_stream ? limits.max_response : settings.max_response);
  if (request.keeps_reply) changed_limit_ = RoomWithin(std::min(limits.max_response, settings.max_cached_response));
  request_ = std::move(request);
  if (status != NFS4_OK) co_return refuse(status);
  compound_.session = SessionUse{.client = client};
  xdr::Encode(results_.encoder(), OPERATIONCONTROL4res(NFS4_OK, arguments.streamid));
  co_return NFS4_OK;
}

// §2.7: the requests of a chain execute strictly in sequence.
Task<nfsstat4> Execution::AwaitTurn(StreamRequest& request) {
  State& state = compound_.services.state;
  for (;;) {
    const auto turn = state.Run(
        [&](StateTables& tables) { return tables.bound_sessions.TurnOf(request.ref, compound_.call.peer.loop); });
    switch (turn.turn) {
      case ChainRun::Turn::kWait:
        co_await turn.wait->over;
        continue;
      case ChainRun::Turn::kRun:
        co_return RestoreFilehandles(turn.filehandles);
      case ChainRun::Turn::kBroken:
        request.executed = false;
        if (turn.lost) {
          state.Run([&](StateTables& tables) { tables.bound_sessions.WithdrawRequest(request.ref); });
          request.ref = {};
        }
        co_return NFS4ERR_SESS01_CHAIN_BROKEN;
    }
  }
}

// The filehandles that the chain's last request has left (§2.7).
nfsstat4 Execution::RestoreFilehandles(const ChainRun::Filehandles& filehandles) {
  compound_.following = &arguments_;
  if (filehandles.saved) {
    if (const auto status = compound_.PutCurrent(*filehandles.saved); status != NFS4_OK) return status;
    compound_.saved = std::exchange(compound_.current, std::nullopt);
  }
  return filehandles.current ? compound_.PutCurrent(*filehandles.current) : NFS4_OK;
}

// ---- persist (§6.1): the session and its replies survive a restart of the server

// Whether the effect of an operation may be on stable storage when it ends, so that the name of its request must be
// there before.
bool Execution::MayLast(const Operation& operation) const {
  if (operation.number != OP_OPEN) return operation.lasting;
  xdr::Decoder arguments = arguments_.Fork();
  OPEN4args open;
  return xdr::Decode(arguments, open) && open.openhow.opentype() == OPEN4_CREATE;
}

Task<bool> Execution::BeginChange(const Operation& operation) {
  auto* const request = std::get_if<StreamRequest>(&request_);
  if (!request || !request->storage) co_return true;
  const auto wanted = MayLast(operation) ? StreamRequest::Begun::kLasting : StreamRequest::Begun::kYes;
  if (request->begun >= wanted) co_return true;
  const bool lasting = wanted == StreamRequest::Begun::kLasting;
  const bool done =
      co_await compound_.services.replies->Begin(compound_.call.peer.loop, rpc::ClientKeyOf(compound_.call.peer),
                                                 *request->storage, request->ref.stream, request->record, lasting);
  if (done) {
    request->begun = wanted;
  } else if (static LogLimit limit; limit.Allows(compound_.now())) {
    log::error("requests of persistent sessions cannot be noted in the state directory: they are not executed");
  }
  co_return done;
}

// If the reply cannot be kept, the client still gets it, since the operations cannot be undone. After a restart, a
// retry then learns that the fate of the request is unknown.
Task<> Execution::Persist(const StreamRequest& request) {
  StreamRecord kept = request.record;
  kept.results = results_.Copy();
  // The tag is too long: the check of room has then kept every change from execution.
  if (kept.results->flat_size() > compound_.services.settings.max_cached_response) co_return;
  const bool done =
      co_await compound_.services.replies->Keep(compound_.call.peer.loop, rpc::ClientKeyOf(compound_.call.peer),
                                                *request.storage, request.ref.stream, kept, compound_.lasting);
  if (static LogLimit limit; !done && limit.Allows(compound_.now())) {
    log::error("replies of persistent sessions cannot be kept in the state directory");
  }
}

void Execution::Finish(const StreamRequest& request) {
  const auto handle_of = [](const std::optional<Object>& object) {
    return object ? std::optional(object->handle()) : std::nullopt;
  };
  const bool changed = changed_ || wrote_;
  // The table need not keep the data of a READ: a request that changed nothing may be executed again.
  const bool is_small = results_.size() <= changed_limit_ && !results_.has_payload();
  BoundSessions::RequestEnd end{
      .changed = changed,
      .executed = request.executed,
      .complete = status_ == NFS4_OK && !compound_.incomplete,
      .filehandles = {.current = handle_of(compound_.current), .saved = handle_of(compound_.saved)}};
  if (request.keeps_reply && (changed || is_small)) end.reply = results_.Copy();
  compound_.services.state.Run(
      [&](StateTables& state) { state.bound_sessions.FinishRequest(request.ref, std::move(end), compound_.now()); });
}

}  // namespace penstock::nfs::v4
