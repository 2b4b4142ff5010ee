// Calls to clients with sessions of 2004, over the back channel of the session (draft-talpey-nfsv4-rdma-sess-01 §2.6).
#include "nfs/v4/callback/call_over.h"
#include "nfs/v4/callback/callback_sender.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names

using sess01::BoundSessions;

// The credits are withdrawn before the call: the server then takes back the receives of all messages by which the
// client returns credits. A client that does not answer NFS4_OK in time is disconnected by
// BoundSessions::EndOverdueRecalls().
Task<void> CallbackSender::DeliverCreditRecall(CreditRecall recall) {
  const TimePoint now = timers_.Now();
  const auto begun = state_.Run([&](StateTables& state) { return state.bound_sessions.BeginRecall(recall, now); });
  if (!begun) co_return;
  for (const auto& way : begun->ways) {
    if (stopping_) co_return;
    if (way->loop()) co_await SwitchTo(*way->loop());
    way->Withdraw(recall.target, begun->deadline - now);
    if (home_) co_await SwitchTo(*home_);
  }
  const auto operation = CallbackOperation::Of(OP_CB_CREDITRECALL, CB_CREDITRECALLargs{.target = recall.target});
  const std::function<bool()> owes = [this, &recall] {
    return state_.Run([&](StateTables& state) { return state.bound_sessions.OwesCredits(recall); });
  };
  const auto status = co_await DeliverUntil(begun->deadline, recall.client, operation, owes);
  if (status == NFS4_OK) state_.Run([&](StateTables& state) { state.bound_sessions.FinishRecall(recall); });
}

// A call without an answer is repeated over the next back channel that the client binds, with the channelid, the
// streamid and the XID of the first attempt (§3.2). Over a live connection no call is sent again (§2.5): a connection
// without an answer is closed, so that the client notices and binds another one.
Task<CallbackSender::Answer> CallbackSender::CallByBoundSession(ClientId client, const CallbackOperation& operation,
                                                                TimePoint end) {
  const auto started = state_.Run([&](StateTables& state) {
    const Client* known = state.clients.Find(client);
    return known ? state.bound_sessions.StartCallback(*known) : std::unexpected(BoundSessions::NoCallback::kNoPath);
  });
  if (!started) {
    co_return std::unexpected(started.error() == BoundSessions::NoCallback::kBusy ? Failure::kBusy : Failure::kNoPath);
  }
  using Fate = CallbackSlots::Fate;
  const auto finish = [&](Fate fate) {
    state_.Run([&](StateTables& state) { state.bound_sessions.FinishCallback(*started, fate); });
  };
  const CallbackCall call{.program = NFS4_CALLBACK,
                          .credential = started->credential.auth(),
                          .minor_version = kFactsOfSess01.minor_version,
                          .control = OPERATIONCONTROL4args{.channelid = started->channel.value(),
                                                           .streamid = started->stream.id.value(),
                                                           .chainflags = NOCHAIN},
                          .operation = &operation};
  const auto next_way = [&started](StateTables& state) -> std::optional<std::shared_ptr<rpc::BackChannel>> {
    if (!state.bound_sessions.Find(started->session)) return std::nullopt;
    return state.bound_sessions.CallbackWay(started->session);
  };
  std::optional<rpc::Xid> xid;
  std::shared_ptr<rpc::BackChannel> way = started->way;
  while (way) {
    if (way->loop()) co_await SwitchTo(*way->loop());
    if (!xid) xid = way->xids().Next();
    const auto answer = co_await CallOver(*way, *xid, call);
    if (home_) co_await SwitchTo(*home_);
    if (answer && answer->opener == NFS4_OK) {
      finish(Fate::kSeen);
      co_return *answer;
    }
    if (answer && answer->opener == NFS4ERR_DELAY) {
      finish(Fate::kUnseen);
      co_return std::unexpected(Failure::kBusy);
    }
    if (answer) {
      // The client and the server disagree about the stream, so the server does not use it again.
      finish(Fate::kUnknown);
      co_return std::unexpected(Failure::kNoPath);
    }
    if (answer.error() != LostCall::kNoAnswer) {
      finish(Fate::kUnseen);
      co_return std::unexpected(Failure::kRefused);
    }
    way->CloseConnection("a call to the client got no answer");
    co_await pauses_.For(options_.again);
    way = co_await NextWay(end, next_way);
  }
  finish(Fate::kUnknown);
  co_return std::unexpected(Failure::kNoPath);
}

}  // namespace penstock::nfs::v4
