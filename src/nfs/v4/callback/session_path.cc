// Calls to clients with sessions, over the backchannels of the sessions.
#include "nfs/v4/callback/call_over.h"
#include "nfs/v4/callback/callback_sender.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

using Fate = CallbackSlots::Fate;

// RFC 8881 §2.10.6.3
referring_call_list4 ReferringTo(const RequestName& request) {
  referring_call_list4 list;
  list.rcl_sessionid = request.session;
  list.rcl_referring_calls.push_back({request.sequence.value(), request.slot.value()});
  return list;
}

}  // namespace

void CallbackSender::ProbeSession(const SessionId& session, std::shared_ptr<rpc::BackChannel> channel) {
  Run(DeliverProbe(session, std::move(channel)));
}

// RFC 8881 §19.1.3. A connection whose probe fails or is refused is not used for other calls.
Task<void> CallbackSender::DeliverProbe(SessionId session, std::shared_ptr<rpc::BackChannel> channel) {
  if (probed_.size() >= options_.max_probes) co_return;
  const Way way(session, channel.get());
  const auto probed = probed_.insert(way);
  if (!probed.second) co_return;
  const auto called_as = state_.Run([&](StateTables& state) { return state.sessions.FindCallbackProgram(session); });
  if (called_as) {
    const CallbackCall call{.program = called_as->number,
                            .credential = called_as->credential.auth(),
                            .protection = called_as->credential.protection().get()};
    if (channel->loop()) co_await SwitchTo(*channel->loop());
    const auto answer = co_await CallOver(*channel, channel->xids().Next(), call);
    if (home_) co_await SwitchTo(*home_);
    if (!answer) state_.Run([&](StateTables& state) { state.sessions.SuspectChannel(session, *channel); });
  }
  probed_.erase(way);
}

Task<CallbackSender::Answer> CallbackSender::CallBySession(ClientId client, const CallbackOperation& operation,
                                                           TimePoint end, OnlySession only) {
  bool early = false;
  const auto started = state_.Run([&](StateTables& state) {
    early = operation.refers_to && !state.sessions.HasSeenReply(*operation.refers_to);
    return state.sessions.StartCallback(client, only);
  });
  if (!started) {
    using enum Sessions::NoCallback;
    co_return std::unexpected(started.error() == kNoClient ? Failure::kNoClient
                              : started.error() == kBusy   ? Failure::kBusy
                                                           : Failure::kNoPath);
  }
  CallbackCall call{.program = started->program,
                    .credential = started->credential.auth(),
                    .protection = started->credential.protection().get(),
                    .minor_version = started->minor_version,
                    .sequence = CB_SEQUENCE4args{.csa_sessionid = started->session,
                                                 .csa_sequenceid = started->slot.sequence.value(),
                                                 .csa_slotid = started->slot.id.value(),
                                                 .csa_highest_slotid = started->highest_slot.value(),
                                                 .csa_cachethis = false,
                                                 .csa_referring_call_lists = {}},
                    .operation = &operation};
  if (early) call.sequence->csa_referring_call_lists.push_back(ReferringTo(*operation.refers_to));
  const auto finish = [&](Fate fate) {
    state_.Run([&](StateTables& state) { state.sessions.FinishCallback(*started, fate); });
  };

  const auto next_channel = [&started](StateTables& state) -> std::optional<std::shared_ptr<rpc::BackChannel>> {
    if (!state.sessions.Has(started->session)) return std::nullopt;
    return state.sessions.CallbackChannel(started->session);
  };
  std::shared_ptr<rpc::BackChannel> channel = started->channel;
  while (channel) {
    if (channel->loop()) co_await SwitchTo(*channel->loop());
    const auto answer = co_await CallOver(*channel, channel->xids().Next(), call);
    if (home_) co_await SwitchTo(*home_);

    if (answer && answer->opener == NFS4_OK) {
      finish(Fate::kSeen);
      co_return *answer;
    }
    if (answer && answer->opener != NFS4ERR_DELAY) {
      // NFS4ERR_BADSESSION, NFS4ERR_SEQ_MISORDERED and others: client and server disagree about the slot.
      finish(Fate::kUnknown);
      co_return std::unexpected(Failure::kNoPath);
    }
    if (!answer && answer.error() != LostCall::kNoAnswer) {
      // The client refuses the call or cannot receive a call of this size. Another attempt would fail as well.
      finish(Fate::kUnseen);
      co_return std::unexpected(Failure::kRefused);
    }
    // After NFS4ERR_DELAY, the sender repeats the call on the same slot. Without an answer, it needs another
    // connection.
    if (!answer) state_.Run([&](StateTables& state) { state.sessions.SuspectChannel(started->session, *channel); });
    if (answer) co_await pauses_.For(options_.again);
    channel = co_await NextWay(end, next_channel);
  }
  finish(Fate::kUnknown);
  co_return std::unexpected(Failure::kNoPath);
}

Task<std::shared_ptr<rpc::BackChannel>> CallbackSender::NextWay(TimePoint end, LookForWay look) {
  while (!IsOver(end)) {
    auto way = state_.Run(look);
    if (!way) break;
    if (*way) co_return *std::move(way);
    co_await pauses_.For(options_.again);
  }
  co_return nullptr;
}

}  // namespace penstock::nfs::v4
