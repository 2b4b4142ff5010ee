#include "client/nfs4/callback_slots.h"

#include <cassert>
#include <utility>

namespace penstock::client::v4 {

using nfs4::nfsstat4;

CallbackSlots::Start CallbackSlots::HandleSequence(uint32_t slot, uint32_t sequence) {
  if (slot >= slots_.size()) return {nfsstat4::NFS4ERR_BADSLOT};
  Slot& used = slots_[slot];
  if (sequence == used.sequence + 1) {
    if (used.in_use) return {nfsstat4::NFS4ERR_SEQ_MISORDERED};
    used = {.sequence = sequence, .in_use = true, .results = {}};
    return {};
  }
  if (sequence != used.sequence) return {nfsstat4::NFS4ERR_SEQ_MISORDERED};
  if (used.in_use) return {nfsstat4::NFS4ERR_DELAY};
  // No call has used this slot yet.
  if (used.results.empty()) return {nfsstat4::NFS4ERR_SEQ_MISORDERED};
  return {nfsstat4::NFS4_OK, &used.results};
}

void CallbackSlots::Finish(uint32_t slot, xdr::Message results) {
  assert(slots_[slot].in_use);
  slots_[slot].in_use = false;
  slots_[slot].results = std::move(results);
}

}  // namespace penstock::client::v4
