#include "fs/acl.h"

#include <algorithm>

namespace penstock::fs {
namespace {

bool IsNamed(const AclEntry& entry) { return entry.tag == AclTag::kUser || entry.tag == AclTag::kGroup; }

const AclEntry* Find(const Acl& acl, AclTag tag) {
  const auto found = std::ranges::find(acl, tag, &AclEntry::tag);
  return found == acl.end() ? nullptr : &*found;
}

Rights RightsOfBits(uint32_t bits) { return {(bits & 4) != 0, (bits & 2) != 0, (bits & 1) != 0}; }

}  // namespace

bool IsValid(const Acl& acl) {
  const auto count = [&](AclTag tag) { return std::ranges::count(acl, tag, &AclEntry::tag); };
  const bool named = std::ranges::any_of(acl, IsNamed);
  const auto place = [](const AclEntry& entry) { return std::pair(entry.tag, IsNamed(entry) ? entry.id : 0); };
  return count(AclTag::kOwner) == 1 && count(AclTag::kOwningGroup) == 1 && count(AclTag::kOther) == 1 &&
         count(AclTag::kMask) <= 1 && (!named || count(AclTag::kMask) == 1) &&
         std::ranges::all_of(acl, [](const AclEntry& entry) { return entry.permissions <= 7; }) &&
         std::ranges::adjacent_find(acl, std::ranges::greater_equal(), place) == acl.end();
}

Acl AclOfMode(uint32_t mode) {
  return {{AclTag::kOwner, 0, mode >> 6 & 7}, {AclTag::kOwningGroup, 0, mode >> 3 & 7}, {AclTag::kOther, 0, mode & 7}};
}

uint32_t ModeOfAcl(const Acl& acl) {
  const AclEntry* mask = Find(acl, AclTag::kMask);
  const AclEntry* group = mask ? mask : Find(acl, AclTag::kOwningGroup);
  return Find(acl, AclTag::kOwner)->permissions << 6 | group->permissions << 3 | Find(acl, AclTag::kOther)->permissions;
}

void RemoveNeedlessMask(Acl& acl) {
  if (acl.size() == 4 && acl[1].tag == AclTag::kOwningGroup && acl[2].tag == AclTag::kMask &&
      acl[1].permissions == acl[2].permissions) {
    acl.erase(acl.begin() + 2);
  }
}

void SetMode(Acl& acl, uint32_t mode) {
  const bool masked = Find(acl, AclTag::kMask) != nullptr;
  for (AclEntry& entry : acl) {
    if (entry.tag == AclTag::kOwner) entry.permissions = mode >> 6 & 7;
    if (entry.tag == (masked ? AclTag::kMask : AclTag::kOwningGroup)) entry.permissions = mode >> 3 & 7;
    if (entry.tag == AclTag::kOther) entry.permissions = mode & 7;
  }
}

Acl Inherit(const Acl& defaults, uint32_t mode) {
  Acl acl = defaults;
  SetMode(acl, mode & ModeOfAcl(defaults));
  return acl;
}

// The first entry that matches the caller decides, in the order owner, named users, groups, others. If several groups
// match, each of them may grant a right. The mask limits all entries but those of the owner and of others.
Rights RightsOf(const Acl& acl, const Attributes& object, const Credentials& caller) {
  if (caller.uid == 0) return RightsOf(object, caller);
  if (caller.uid == object.uid) return RightsOfBits(Find(acl, AclTag::kOwner)->permissions);
  const AclEntry* mask_entry = Find(acl, AclTag::kMask);
  const uint32_t mask = mask_entry ? mask_entry->permissions : 7;
  bool member = false;
  uint32_t group_bits = 0;
  for (const AclEntry& entry : acl) {
    if (entry.tag == AclTag::kUser && entry.id == caller.uid) return RightsOfBits(entry.permissions & mask);
    const bool in_group = (entry.tag == AclTag::kOwningGroup && IsMember(caller, object.gid)) ||
                          (entry.tag == AclTag::kGroup && IsMember(caller, entry.id));
    if (!in_group) continue;
    member = true;
    group_bits |= entry.permissions;
  }
  if (member) return RightsOfBits(group_bits & mask);
  return RightsOfBits(Find(acl, AclTag::kOther)->permissions);
}

}  // namespace penstock::fs
