#include "nfs/v4/callback/callback_sender.h"

#include <algorithm>

#include "nfs/v4/state/random.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

nfs_fh4 HandleOf(const FileHandle& file) { return nfs_fh4(EncodedHandle(file).bytes()); }

// Whether the call may have reached the client before the reply to its OPEN. The client then does not know the file or
// the stateid yet (RFC 8881 §20.2.3).
bool MayHaveBeenEarly(nfsstat4 status) {
  return status == NFS4ERR_DELAY || status == NFS4ERR_BADHANDLE || status == NFS4ERR_BAD_STATEID;
}

}  // namespace

CallbackSender::CallbackSender(State& state, Loop* home, TimerService& timers, BufferPool& buffers, Connect connect,
                               Options options)
    : state_(state),
      home_(home),
      timers_(timers),
      buffers_(buffers),
      connect_(std::move(connect)),
      options_(options),
      pauses_(timers),
      xids_(rpc::Xid(static_cast<uint32_t>(SystemRandom()))) {}

void CallbackSender::Stop() {
  stopping_ = true;
  pauses_.EndAll();
  addresses_.clear();
}

// ---- tasks ----

void CallbackSender::Run(Task<void> task) {
  if (stopping_) return;
  if (!home_) {
    Spawn(Count(std::move(task)));
    return;
  }
  home_->Post([this, task = std::move(task)]() mutable { Spawn(Count(std::move(task))); });
}

Task<void> CallbackSender::Count(Task<void> task) {
  if (stopping_ || under_way() >= options_.max_calls) co_return;
  under_way_.Begin();
  co_await std::move(task);
  under_way_.End();
}

Task<void> CallbackSender::Deliver(ClientId client, CallbackOperation operation, std::function<bool()> wanted,
                                   OnlySession only) {
  co_await DeliverUntil(timers_.Now() + options_.patience, client, operation, std::move(wanted), only);
}

Task<std::optional<nfsstat4>> CallbackSender::DeliverUntil(TimePoint end, ClientId client,
                                                           const CallbackOperation& operation,
                                                           std::function<bool()> wanted, OnlySession only) {
  while (!IsOver(end) && wanted()) {
    const Answer answer = co_await CallOnce(client, operation, end, only);
    if (answer && !MayHaveBeenEarly(answer->status)) co_return answer->status;
    if (!answer && (answer.error() == Failure::kNoClient || answer.error() == Failure::kRefused)) break;
    co_await pauses_.For(options_.again);
  }
  co_return std::nullopt;
}

Task<CallbackSender::Answer> CallbackSender::CallOnce(ClientId client, const CallbackOperation& operation,
                                                      TimePoint end, OnlySession only) {
  Answer answer = co_await Attempt(client, operation, end, only);
  auto result = AttemptResult::kNoAnswer;
  if (answer) result = answer->status == NFS4_OK ? AttemptResult::kOk : AttemptResult::kError;
  for (Attempts& each : attempts_) {
    if (each.operation == operation.number) each.results[static_cast<size_t>(result)].Add();
  }
  co_return answer;
}

Task<CallbackSender::Answer> CallbackSender::Attempt(ClientId client, const CallbackOperation& operation, TimePoint end,
                                                     OnlySession only) {
  CallbackAddress address;
  const auto kind = state_.Run([&](StateTables& state) -> std::optional<SessionKind> {
    const Client* known = state.clients.Find(client);
    if (!known) return std::nullopt;
    address = known->callback;
    return known->dialect.session_kind();
  });
  if (!kind) co_return std::unexpected(Failure::kNoClient);
  switch (*kind) {
    case SessionKind::kNone:
      co_return co_await CallByAddress(client, std::move(address), &operation);
    case SessionKind::kSlots:
      co_return co_await CallBySession(client, operation, end, only);
    case SessionKind::kBound:
      co_return co_await CallByBoundSession(client, operation, end);
  }
  std::unreachable();
}

// ---- the calls ----

void CallbackSender::Recall(ClientId client, const stateid4& delegation, const FileHandle& file,
                            const std::optional<RequestName>& given_by) {
  // `truncate` is false, since the sender does not know the change that caused the recall.
  auto operation = CallbackOperation::Of(OP_CB_RECALL, CB_RECALL4args{delegation, false, HandleOf(file)});
  operation.refers_to = given_by;
  Run(DeliverRecall(client, delegation, std::move(operation)));
}

// Does nothing if a recall of the same delegation is under way.
Task<void> CallbackSender::DeliverRecall(ClientId client, stateid4 delegation, CallbackOperation operation) {
  const auto recalled = recalled_.emplace(client, delegation.other);
  if (!recalled.second) co_return;
  const auto wanted = [this, client, delegation] {
    return state_.Run([&](StateTables& state) {
      const Client* known = state.clients.Find(client);
      return known && state.files.Test({known->dialect, client}, delegation) == NFS4_OK;
    });
  };
  co_await Deliver(client, std::move(operation), wanted);
  recalled_.erase({client, delegation.other});
}

void CallbackSender::RecallAny(const v4::RecallAny& recall) { Run(DeliverRecallAny(recall)); }

// Does nothing if another CB_RECALL_ANY to the client is under way.
Task<void> CallbackSender::DeliverRecallAny(v4::RecallAny recall) {
  if (asked_for_any_.size() >= options_.max_recall_anys) co_return;
  const auto asked = asked_for_any_.insert(recall.client);
  if (!asked.second) co_return;
  constexpr uint32_t kBothKinds = 1 << RCA4_TYPE_MASK_RDATA_DLG | 1 << RCA4_TYPE_MASK_WDATA_DLG;
  const CB_RECALL_ANY4args arguments{.craa_objects_to_keep = recall.keep, .craa_type_mask = {kBothKinds}};
  const auto operation = CallbackOperation::Of(OP_CB_RECALL_ANY, arguments);
  std::function<bool()> owes = [this, recall] {
    return state_.Run([&](StateTables& state) { return state.files.delegations.IsOwed(recall); });
  };
  const TimePoint end = timers_.Now() + options_.patience;
  const auto status = co_await DeliverUntil(end, recall.client, operation, std::move(owes));
  asked_for_any_.erase(recall.client);
  if (!status || *status == NFS4_OK) co_return;
  state_.Run([&](StateTables& state) { state.files.delegations.HandleRecallAnyRefused(recall.client); });
}

void CallbackSender::NotifyLock(ClientId client, const FileHandle& file, ConstBytes owner) {
  const CB_NOTIFY_LOCK4args arguments{.cnla_fh = HandleOf(file),
                                      .cnla_lock_owner = {.clientid = client.value(), .owner = owner}};
  // The notice is a hint (RFC 8881 §20.11.4), so the sender makes one attempt. The client also asks for the lock again
  // by itself.
  Run(Deliver(client, CallbackOperation::Of(OP_CB_NOTIFY_LOCK, arguments),
              [first = true]() mutable { return std::exchange(first, false); }));
}

void CallbackSender::RecallSlots(ClientId client, const SessionId& session, SlotId target_highest) {
  const SlotRecall recall{client, session, target_highest};
  Run(Deliver(
      client, CallbackOperation::Of(OP_CB_RECALL_SLOT, CB_RECALL_SLOT4args{target_highest.value()}),
      [this, recall] { return state_.Run([&](StateTables& state) { return state.sessions.OwesSlots(recall); }); },
      session));
}

void CallbackSender::RecallCredits(const CreditRecall& recall) { Run(DeliverCreditRecall(recall)); }

Task<> CallbackSender::OffloadDone(ClientId client, FileHandle file, stateid4 copy, offload_info4 information) {
  const CB_OFFLOAD4args arguments{.coa_fh = HandleOf(file), .coa_stateid = copy, .coa_offload_info = information};
  if (stopping_) co_return;
  if (home_) co_await SwitchTo(*home_);
  std::function<bool()> always = [] { return true; };
  Task<> delivery = Deliver(client, CallbackOperation::Of(OP_CB_OFFLOAD, arguments), std::move(always));
  co_await Count(std::move(delivery));
}

Task<HolderAttributes> CallbackSender::GetAttributes(Loop* loop, ClientId client, const FileHandle& file,
                                                     bool with_times) {
  struct Asked {
    OneShot<> over;
    HolderAttributes attributes;
  };
  if (stopping_) co_return HolderAttributes{};
  if (home_) co_await SwitchTo(*home_);
  const auto asked = std::make_shared<Asked>();
  auto timer = timers_.MakeTimer([asked] {
    if (!asked->over.is_set()) asked->over.Set();
  });
  timer->ExpireAfter(options_.for_attributes);
  // The answer may come after the timer has ended the wait.
  Spawn(Count([](CallbackSender& caller, ClientId holder, CallbackOperation operation,
                 std::shared_ptr<Asked> asks) -> Task<void> {
    const TimePoint end = caller.timers_.Now() + caller.options_.for_attributes;
    const Answer answer = co_await caller.CallOnce(holder, operation, end);
    if (asks->over.is_set()) co_return;
    if (answer && answer->status == NFS4_OK) asks->attributes = answer->attributes;
    asks->over.Set();
  }(*this, client, MakeGetAttributes(file, with_times), asked)));
  co_await asked->over;
  const HolderAttributes attributes = asked->attributes;
  if (loop) co_await SwitchTo(*loop);
  co_return attributes;
}

}  // namespace penstock::nfs::v4
