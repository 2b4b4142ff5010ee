#include "nfs/v4/attributes/acl.h"

#include <algorithm>
#include <map>

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

using fs::AclEntry;
using fs::AclTag;
using Kind = Trustee::Kind;

constexpr uint32_t kReads = 4;
constexpr uint32_t kWrites = 2;
constexpr uint32_t kExecutes = 1;

constexpr uint32_t kInherits = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE;

// What everybody may do with a file that it reaches, and what nobody takes from its owner.
constexpr uint32_t kAlways = ACE4_READ_ATTRIBUTES | ACE4_READ_ACL | ACE4_SYNCHRONIZE;
constexpr uint32_t kOwnersAlways = ACE4_WRITE_ATTRIBUTES | ACE4_WRITE_ACL;

uint32_t WriteMask(bool directory) { return ACE4_WRITE_DATA | ACE4_APPEND_DATA | (directory ? ACE4_DELETE_CHILD : 0); }

uint32_t MaskOf(uint32_t permissions, bool directory) {
  return ((permissions & kReads) != 0 ? ACE4_READ_DATA : 0) |
         ((permissions & kWrites) != 0 ? WriteMask(directory) : 0) |
         ((permissions & kExecutes) != 0 ? ACE4_EXECUTE : 0);
}

// A permission is there where all is allowed that it stands for.
uint32_t PermissionsOf(uint32_t mask, bool directory) {
  const auto all = [&](uint32_t wanted) { return (mask & wanted) == wanted; };
  return (all(ACE4_READ_DATA) ? kReads : 0) | (all(WriteMask(directory)) ? kWrites : 0) |
         (all(ACE4_EXECUTE) ? kExecutes : 0);
}

Trustee PrincipalOf(const AclEntry& entry) {
  switch (entry.tag) {
    case AclTag::kOwner:
      return {Kind::kOwner, 0};
    case AclTag::kUser:
      return {Kind::kUser, entry.id};
    case AclTag::kOwningGroup:
      return {Kind::kOwningGroup, 0};
    case AclTag::kGroup:
      return {Kind::kGroup, entry.id};
    case AclTag::kMask:
    case AclTag::kOther:
      break;
  }
  return {Kind::kEveryone, 0};
}

bool IsGroup(const AclEntry& entry) { return entry.tag == AclTag::kOwningGroup || entry.tag == AclTag::kGroup; }

// A POSIX list, entry by entry. In an NFSv4 list, a caller who is not allowed by one entry goes on to the next; in a
// POSIX list the entry of its class is its last. So before it may go on to what others are allowed, that is denied it.
class Writer {
 public:
  Writer(const fs::Acl& acl, bool directory, uint32_t flags, std::vector<AccessControlEntry>& to)
      : acl_(acl), directory_(directory), flags_(flags), to_(to) {
    for (const AclEntry& entry : acl) {
      if (entry.tag == AclTag::kMask) mask_ = entry.permissions;
    }
  }

  void Write() {
    for (size_t i = 0; i < acl_.size(); ++i) {
      const AclEntry& entry = acl_[i];
      if (entry.tag == AclTag::kMask) continue;
      // Of groups, any that allows it will do: all are asked before any denies.
      if (!IsGroup(entry)) Deny(entry, AllowedAfter(i));
      if (entry.tag == AclTag::kOther) DenyGroups(entry.permissions);
      Allow(entry);
    }
  }

 private:
  uint32_t Effective(const AclEntry& entry) const {
    return entry.tag == AclTag::kOwner || entry.tag == AclTag::kOther ? entry.permissions : entry.permissions & mask_;
  }
  // What entries after this one allow to whom it is for. A named user is no other one; the owner may be any of them.
  uint32_t AllowedAfter(size_t index) const {
    uint32_t allowed = 0;
    for (size_t i = index + 1; i < acl_.size(); ++i) {
      const bool another = acl_[index].tag == AclTag::kUser && acl_[i].tag == AclTag::kUser;
      if (acl_[i].tag != AclTag::kMask && !another) allowed |= Effective(acl_[i]);
    }
    return allowed;
  }
  void DenyGroups(uint32_t allowed) {
    for (const AclEntry& entry : acl_) {
      if (IsGroup(entry)) Deny(entry, allowed);
    }
  }
  void Deny(const AclEntry& entry, uint32_t allowed) {
    const uint32_t denied = allowed & ~Effective(entry);
    if (denied != 0) Add(true, entry, MaskOf(denied, directory_));
  }
  void Allow(const AclEntry& entry) {
    const uint32_t always = kAlways | (entry.tag == AclTag::kOwner ? kOwnersAlways : 0);
    Add(false, entry, MaskOf(Effective(entry), directory_) | always);
  }
  void Add(bool denies, const AclEntry& entry, uint32_t mask) {
    to_.push_back({.denies = denies, .flags = flags_, .mask = mask, .who = PrincipalOf(entry)});
  }

  const fs::Acl& acl_;
  const bool directory_;
  const uint32_t flags_;
  std::vector<AccessControlEntry>& to_;
  uint32_t mask_ = 7;
};

// What a class of callers is allowed and denied so far: the first that says something of a right decides.
struct Verdicts {
  uint32_t allowed = 0;
  uint32_t denied = 0;

  void Add(bool denies, uint32_t mask) {
    if (denies) {
      denied |= mask & ~allowed;
    } else {
      allowed |= mask & ~denied;
    }
  }
};

// An NFSv4 list, entry by entry, as it is for each class of a POSIX list. What is denied to some is denied to all who
// may be one of them.
class Reader {
 public:
  void Take(const AccessControlEntry& entry) {
    const auto [kind, id] = entry.who;
    switch (kind) {
      case Kind::kOwner:
        return owner_.Add(entry.denies, entry.mask);
      case Kind::kUser: {
        Verdicts& user = Named(users_, id);
        user.Add(entry.denies, entry.mask);
        if (entry.denies) owner_.Add(true, user.denied);
        return;
      }
      case Kind::kOwningGroup:
        return TakeGroup(owning_group_, entry);
      case Kind::kGroup:
        return TakeGroup(Named(groups_, id), entry);
      case Kind::kEveryone:
        other_.Add(entry.denies, entry.mask);
        owner_.Add(entry.denies, entry.mask);
        return AddToMembers(entry.denies, entry.mask);
    }
  }

  fs::Acl Finish(bool directory) const {
    const auto permissions = [&](const Verdicts& verdicts) { return PermissionsOf(verdicts.allowed, directory); };
    fs::Acl acl{{AclTag::kOwner, 0, permissions(owner_)}};
    uint32_t mask = permissions(owning_group_);
    const auto add = [&](AclTag tag, const std::map<uint32_t, Verdicts>& named) {
      for (const auto& [id, verdicts] : named) {
        acl.push_back({tag, id, permissions(verdicts)});
        mask |= acl.back().permissions;
      }
    };
    add(AclTag::kUser, users_);
    acl.push_back({AclTag::kOwningGroup, 0, permissions(owning_group_)});
    add(AclTag::kGroup, groups_);
    if (!users_.empty() || !groups_.empty()) acl.push_back({AclTag::kMask, 0, mask});
    acl.push_back({AclTag::kOther, 0, permissions(other_)});
    return acl;
  }

 private:
  // Whoever is named late was everybody until then.
  Verdicts& Named(std::map<uint32_t, Verdicts>& named, uint32_t id) {
    return named.try_emplace(id, unnamed_).first->second;
  }
  void TakeGroup(Verdicts& group, const AccessControlEntry& entry) {
    group.Add(entry.denies, entry.mask);
    if (!entry.denies) return;
    const uint32_t denied = group.denied;
    owner_.Add(true, denied);
    AddToMembers(true, denied);
  }
  // All who may be in some group.
  void AddToMembers(bool denies, uint32_t mask) {
    unnamed_.Add(denies, mask);
    owning_group_.Add(denies, mask);
    for (auto& [id, user] : users_) user.Add(denies, mask);
    for (auto& [id, group] : groups_) group.Add(denies, mask);
  }

  Verdicts owner_, owning_group_, other_, unnamed_;
  std::map<uint32_t, Verdicts> users_, groups_;
};

}  // namespace

std::vector<AccessControlEntry> ToNfs(const fs::Acls& acls, bool directory) {
  std::vector<AccessControlEntry> entries;
  Writer(acls.access, directory, 0, entries).Write();
  if (!acls.defaults.empty()) Writer(acls.defaults, directory, kInherits | ACE4_INHERIT_ONLY_ACE, entries).Write();
  return entries;
}

Result<fs::NewAcls, nfsstat4> FromNfs(const std::vector<AccessControlEntry>& entries, bool directory) {
  Reader access;
  Reader defaults;
  bool inherits = false;
  for (const AccessControlEntry& entry : entries) {
    if ((entry.flags & ACE4_INHERIT_ONLY_ACE) == 0) access.Take(entry);
    if ((entry.flags & kInherits) == 0) continue;
    if (!directory) return std::unexpected(NFS4ERR_INVAL);
    defaults.Take(entry);
    inherits = true;
  }
  fs::NewAcls acls{.access = access.Finish(directory), .defaults = {}};
  if (directory) acls.defaults = inherits ? defaults.Finish(true) : fs::Acl{};
  return acls;
}

}  // namespace penstock::nfs::v4
