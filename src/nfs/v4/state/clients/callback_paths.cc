#include <algorithm>
#include <cassert>

#include "nfs/v4/state/clients/clients.h"

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

// ---- how clients are called ----

bool Clients::BackChannelWorks(const Session& session) const {
  return session.callback_credential && !session.back_channel_fault() && session.connections.HasBack();
}

Result<Clients::CallbackStart, Clients::NoCallback> Clients::StartCallback(ClientId id,
                                                                           const std::optional<SessionId>& only) {
  const Client* client = Find(id);
  if (!client) return std::unexpected(NoCallback::kNoClient);
  NoCallback reason = NoCallback::kNoPath;
  for (const SessionId& session_id : client->sessions) {
    if (only && *only != session_id) continue;
    Session& session = *FindSession(session_id);
    if (!BackChannelWorks(session)) continue;
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
                         .credential = *session.callback_credential,
                         .channel = session.connections.BackChannel()};
  }
  return std::unexpected(reason);
}

std::optional<Clients::CallbackProgram> Clients::FindCallbackProgram(const SessionId& id) const {
  const Session* session = FindSession(id);
  if (!session || !session->callback_credential) return std::nullopt;
  return CallbackProgram{session->callback_program, *session->callback_credential};
}

bool Clients::HasSeenReply(const RequestName& request) const {
  const Session* session = FindSession(request.session);
  return !session || !session->slots.IsLast(request.slot, request.sequence);
}

std::shared_ptr<rpc::BackChannel> Clients::CallbackChannel(const SessionId& id) const {
  const Session* session = FindSession(id);
  return session && BackChannelWorks(*session) ? session->connections.BackChannel() : nullptr;
}

void Clients::FinishCallback(const CallbackStart& call, CallbackSlots::Fate fate) {
  if (Session* session = FindSession(call.session)) session->callback_slots.Give(call.slot, fate);
}

void Clients::SuspectChannel(const SessionId& id, const rpc::BackChannel& channel) {
  if (Session* session = FindSession(id)) session->connections.Suspect(channel);
}

void Clients::SetPath(ClientId id, PathState state) {
  if (Client* client = FindAny(id)) client->path = state;
}

}  // namespace penstock::nfs::v4
