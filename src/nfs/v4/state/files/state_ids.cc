#include "nfs/v4/state/files/state_ids.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "nfs/v4/state/files/records.h"

namespace penstock::nfs::v4 {
namespace {

using nfs4::nfsstat4;
using nfs4::stateid4;

constexpr uint32_t kAllOnes = 0xffffffff;

bool IsFilledWith(const stateid4& id, uint8_t octet) {
  return std::ranges::all_of(id.other, [octet](std::byte at) { return at == std::byte{octet}; });
}

// A permutation of 64 bits that cannot be predicted without the secret: a Feistel network (Luby and Rackoff, 1988).
constexpr int kRounds = 6;

uint32_t RoundOf(const SipKey& secret, int round, uint32_t half) {
  std::byte text[5];
  text[0] = static_cast<std::byte>(round);
  StoreBig<uint32_t>(text + 1, half);
  return static_cast<uint32_t>(SipHash(secret, text));
}

uint64_t Scramble(const SipKey& secret, uint64_t plain) {
  auto left = static_cast<uint32_t>(plain >> 32), right = static_cast<uint32_t>(plain);
  for (int round = 0; round < kRounds; ++round) {
    left ^= RoundOf(secret, round, right);
    std::swap(left, right);
  }
  return uint64_t{left} << 32 | right;
}

uint64_t Unscramble(const SipKey& secret, uint64_t scrambled) {
  auto left = static_cast<uint32_t>(scrambled >> 32), right = static_cast<uint32_t>(scrambled);
  for (int round = kRounds; round-- > 0;) {
    std::swap(left, right);
    left ^= RoundOf(secret, round, right);
  }
  return uint64_t{left} << 32 | right;
}

}  // namespace

bool IsAnonymous(const stateid4& id) { return id.seqid == 0 && IsFilledWith(id, 0); }
bool IsReadBypass(const stateid4& id) { return id.seqid == kAllOnes && IsFilledWith(id, 0xff); }
bool IsCurrent(const stateid4& id) { return id.seqid == 1 && IsFilledWith(id, 0); }
stateid4 InvalidStateId() { return {.seqid = kAllOnes, .other = {}}; }

StateIdTable::StateIdTable(uint32_t instance, const SipKey& secret) : instance_(instance), secret_(secret) {
  assert(instance != 0 && instance != kAllOnes);
}

void StateIdTable::Place(std::unique_ptr<StateRecord> record) {
  if (free_.size() <= kRemembered) {
    record->index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    record->index = free_.front();
    free_.pop_front();
  }
  Slot& slot = slots_[record->index];
  record->generation = ++slot.generation;
  slot.record = std::move(record);
  ++size_;
}

void StateIdTable::Remove(StateRecord& record, Ending ending, bool keeps_slot) {
  const uint32_t index = record.index;
  Slot& slot = slots_[index];
  assert(slot.record.get() == &record);
  slot.ending = ending;
  slot.kept = keeps_slot;
  if (!keeps_slot) SetFree(index);
  slot.record.reset();
  --size_;
}

void StateIdTable::Release(uint32_t index) {
  Slot& slot = slots_[index];
  assert(slot.kept);
  slot.ending = Ending::kReleased;
  slot.kept = false;
  SetFree(index);
}

bool StateIdTable::IsKept(uint32_t index) const { return index < slots_.size() && slots_[index].kept; }

// A slot whose generations are used up is not used again.
void StateIdTable::SetFree(uint32_t index) {
  if (slots_[index].generation != kAllOnes) free_.push_back(index);
}

stateid4 StateIdTable::IdOf(const StateRecord& record) const {
  stateid4 id{.seqid = record.seqid, .other = {}};
  StoreBig<uint32_t>(id.other.data(), instance_);
  StoreBig<uint64_t>(id.other.data() + 4, Scramble(secret_, uint64_t{record.index} << 32 | record.generation));
  return id;
}

Result<StateRecord*, nfsstat4> StateIdTable::Find(const Presenter& who, const stateid4& id) const {
  const auto instance = LoadBig<uint32_t>(id.other.data());
  if (instance != instance_) {
    // Special stateids belong to no run of the server; those that reach this table are not valid here. RFC 8881
    // §15.1.16.5: in a session, SEQUENCE detects a client of an earlier run before any stateid is checked.
    const bool special = IsFilledWith(id, 0) || IsFilledWith(id, 0xff);
    return std::unexpected(special ? nfs4::NFS4ERR_BAD_STATEID : who.dialect.errors().stateid_of_earlier_run);
  }
  const Slot* const slot = SlotOf(id);
  if (!slot) return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
  if (!slot->record) {
    switch (slot->ending) {
      case Ending::kReleased:
        return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
      case Ending::kExpired:
        return std::unexpected(nfs4::NFS4ERR_EXPIRED);
      case Ending::kRevoked:
      case Ending::kRevokedByOperator:
      case Ending::kNotReturned:
        return std::unexpected(nfs4::NFS4ERR_ADMIN_REVOKED);
    }
  }
  if (who.client && slot->record->client->id != *who.client) return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
  return slot->record.get();
}

StateRecord* StateIdTable::RecordOf(const stateid4& id) const {
  if (LoadBig<uint32_t>(id.other.data()) != instance_) return nullptr;
  const Slot* const slot = SlotOf(id);
  return slot ? slot->record.get() : nullptr;
}

std::optional<uint32_t> StateIdTable::EndedSlotOf(const stateid4& id) const {
  if (LoadBig<uint32_t>(id.other.data()) != instance_) return std::nullopt;
  const std::optional<uint32_t> index = IndexOf(id);
  return index && !slots_[*index].record ? index : std::nullopt;
}

std::optional<uint32_t> StateIdTable::IndexOf(const stateid4& id) const {
  const uint64_t place = Unscramble(secret_, LoadBig<uint64_t>(id.other.data() + 4));
  const auto index = static_cast<uint32_t>(place >> 32);
  if (index >= slots_.size() || static_cast<uint32_t>(place) != slots_[index].generation) return std::nullopt;
  return index;
}

const StateIdTable::Slot* StateIdTable::SlotOf(const stateid4& id) const {
  const std::optional<uint32_t> index = IndexOf(id);
  return index ? &slots_[*index] : nullptr;
}

nfsstat4 StateIdTable::CheckSeqid(const Presenter& who, const StateRecord& record, uint32_t seqid) {
  if (seqid == record.seqid || (seqid == 0 && who.dialect.zero_seqid_is_latest())) return nfs4::NFS4_OK;
  // Seqids wrap around, so the difference decides.
  const bool older = static_cast<int32_t>(seqid - record.seqid) < 0;
  return older ? nfs4::NFS4ERR_OLD_STATEID : nfs4::NFS4ERR_BAD_STATEID;
}

}  // namespace penstock::nfs::v4
