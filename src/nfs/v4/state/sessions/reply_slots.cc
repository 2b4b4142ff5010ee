#include "nfs/v4/state/sessions/reply_slots.h"

#include <algorithm>
#include <cassert>
#include <ranges>

namespace penstock::nfs::v4 {

ReplySlots::ReplySlots(uint32_t count, SequenceId last)
    : slots_(count, Slot{.sequence = last}), granted_(count), target_(count) {
  assert(count > 0);
}

Result<ReplySlots::Started, nfs4::nfsstat4> ReplySlots::Start(const Request& request) {
  if (request.slot.value() >= granted_) return std::unexpected(nfs4::NFS4ERR_BADSLOT);
  // A client that has not yet seen a lower target may still name its higher slots, but never a slot beyond the
  // negotiated number.
  if (request.highest_slot.value() >= count()) return std::unexpected(nfs4::NFS4ERR_BAD_HIGH_SLOT);

  Slot& slot = slots_[request.slot.value()];
  if (slot.used && request.sequence == slot.sequence) return Retry(slot, request);
  const bool next = request.sequence.value() == slot.sequence.value() + 1;  // the sequence ID wraps around
  const bool first = slot.fresh && request.sequence.value() == 1;
  if (slot.busy || (!next && !first)) return std::unexpected(nfs4::NFS4ERR_SEQ_MISORDERED);

  // A new request on the slot shows that the client has seen the slot's last reply, and the target in it.
  const bool heard = slot.used && slot.told == generation_;
  Replace(slot,
          {.sequence = request.sequence, .used = true, .busy = true, .told = generation_, .digest = request.digest});
  ++busy_;
  if (heard && target_ < granted_ && request.highest_slot.value() < target_) Retire();
  return Started{Outcome::kRun};
}

Result<ReplySlots::Started, nfs4::nfsstat4> ReplySlots::Retry(const Slot& slot, const Request& request) const {
  // This check precedes that of the digest: a client may ask about a running request by SEQUENCE alone, and must not
  // conclude that the request has ended.
  if (slot.busy) return std::unexpected(nfs4::NFS4ERR_DELAY);
  if (slot.digest != request.digest) return std::unexpected(nfs4::NFS4ERR_SEQ_FALSE_RETRY);
  if (!slot.kept) return Started{Outcome::kUncached};
  return Started{Outcome::kReplay, slot.reply};
}

bool ReplySlots::IsLast(SlotId id, SequenceId sequence) const {
  return id.value() < count() && slots_[id.value()].used && slots_[id.value()].sequence == sequence;
}

void ReplySlots::Finish(SlotId id, SequenceId sequence, std::optional<xdr::Message> reply) {
  assert(id.value() < count());
  Slot& slot = slots_[id.value()];
  assert(slot.busy && slot.sequence == sequence);
  slot.busy = false;
  --busy_;
  slot.kept = reply.has_value();
  if (reply) {
    slot.reply = *std::move(reply);
    kept_octets_ += slot.reply.memory();
  }
}

void ReplySlots::Replace(Slot& slot, Slot with) {
  if (slot.kept) kept_octets_ -= slot.reply.memory();
  slot = std::move(with);
}

void ReplySlots::SetTarget(uint32_t slots) {
  slots = std::clamp(slots, 1u, count());
  if (slots == target_) return;
  target_ = slots;
  ++generation_;
  granted_ = std::max(granted_, target_);
}

// Takes back the slots beyond the target and drops their replies. Does nothing while one of these slots is busy. Keeps
// their sequence IDs for the case that the slots come back.
void ReplySlots::Retire() {
  const auto beyond = std::views::drop(slots_, target_) | std::views::take(granted_ - target_);
  if (std::ranges::any_of(beyond, &Slot::busy)) return;
  for (Slot& slot : beyond) Replace(slot, {.sequence = slot.sequence, .fresh = true});
  granted_ = target_;
}

}  // namespace penstock::nfs::v4
