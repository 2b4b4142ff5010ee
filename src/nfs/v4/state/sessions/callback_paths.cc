#include <algorithm>
#include <cassert>

#include "nfs/v4/state/sessions/sessions.h"

namespace penstock::nfs::v4 {

// ---- the slots of the backchannel ----

std::optional<CallbackSlots::Slot> CallbackSlots::Take() {
  const auto idle = std::ranges::find(slots_, false, &Entry::taken);
  if (idle == slots_.end()) return std::nullopt;
  idle->taken = true;
  return Slot{SlotId(static_cast<uint32_t>(idle - slots_.begin())), SequenceId(idle->sequence + 1)};
}

void CallbackSlots::Give(const Slot& slot, Fate fate) {
  Entry& entry = slots_[slot.id.value()];
  assert(entry.taken);
  if (fate == Fate::kUnknown) {
    ++lost_;
    return;
  }
  entry.taken = false;
  if (fate == Fate::kSeen) entry.sequence = slot.sequence.value();
}

SlotId CallbackSlots::highest_busy() const {
  uint32_t highest = 0;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].taken) highest = i;
  }
  return SlotId(highest);
}

// ---- callbacks to clients ----

bool Sessions::CanCall(const Client& client) const {
  return std::ranges::any_of(client.sessions, [&](const SessionId& each) { return Find(each)->back_channel_works(); });
}

Result<Sessions::CallbackStart, Sessions::NoCallback> Sessions::StartCallback(ClientId id,
                                                                              const std::optional<SessionId>& only) {
  const Client* client = clients_.Find(id);
  if (!client) return std::unexpected(NoCallback::kNoClient);
  NoCallback reason = NoCallback::kNoPath;
  for (const SessionId& session_id : client->sessions) {
    if (only && *only != session_id) continue;
    Session& session = *Find(session_id);
    if (!session.back_channel_works()) continue;
    const auto slot = session.callback_slots.Take();
    if (!slot) {
      reason = NoCallback::kBusy;
      continue;
    }
    return CallbackStart{.session = session_id,
                         .slot = *slot,
                         .highest_slot = session.callback_slots.highest_busy(),
                         .minor_version = session.minor_version,
                         .program = session.callback_program,
                         .credential = session.callback_credential,
                         .channel = session.connections.BackChannel()};
  }
  return std::unexpected(reason);
}

std::optional<Sessions::CallbackProgram> Sessions::FindCallbackProgram(const SessionId& id) const {
  const Session* session = Find(id);
  if (!session) return std::nullopt;
  return CallbackProgram{session->callback_program, session->callback_credential};
}

bool Sessions::HasSeenReply(const RequestName& request) const {
  const Session* session = Find(request.session);
  return !session || !session->slots.IsLast(request.slot, request.sequence);
}

std::shared_ptr<rpc::BackChannel> Sessions::CallbackChannel(const SessionId& id) const {
  const Session* session = Find(id);
  return session && session->back_channel_works() ? session->connections.BackChannel() : nullptr;
}

void Sessions::FinishCallback(const CallbackStart& call, CallbackSlots::Fate fate) {
  if (Session* session = Find(call.session)) session->callback_slots.Give(call.slot, fate);
}

void Sessions::SuspectChannel(const SessionId& id, const rpc::BackChannel& channel) {
  if (Session* session = Find(id)) session->connections.Suspect(channel);
}

}  // namespace penstock::nfs::v4
