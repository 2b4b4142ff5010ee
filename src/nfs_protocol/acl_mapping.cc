#include "nfs_protocol/acl_mapping.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>

namespace penstock::nfs_protocol {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

using fs::AclEntry;
using fs::AclTag;
using Kind = Trustee::Kind;

constexpr uint32_t kReads = 4;
constexpr uint32_t kWrites = 2;
constexpr uint32_t kExecutes = 1;

constexpr uint32_t kInherits = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE;

// The rights that every caller has, and the additional rights that the owner always has.
constexpr uint32_t kAlways = ACE4_READ_ATTRIBUTES | ACE4_READ_ACL | ACE4_SYNCHRONIZE;
constexpr uint32_t kOwnersAlways = ACE4_WRITE_ATTRIBUTES | ACE4_WRITE_ACL;

uint32_t WriteMask(bool directory) { return ACE4_WRITE_DATA | ACE4_APPEND_DATA | (directory ? ACE4_DELETE_CHILD : 0); }

uint32_t MaskOf(uint32_t permissions, bool directory) {
  return ((permissions & kReads) != 0 ? ACE4_READ_DATA : 0) |
         ((permissions & kWrites) != 0 ? WriteMask(directory) : 0) |
         ((permissions & kExecutes) != 0 ? ACE4_EXECUTE : 0);
}

// The permissions whose rights are all in the mask.
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

// Writes a POSIX list as an NFSv4 list. In an NFSv4 list, the search goes on to the next entry if an entry does not
// allow a right. In a POSIX list, it ends at the entry of the caller's class. So a deny entry must precede the entries
// that would allow more.
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
      // One group that allows a permission is enough, so the deny entries of groups come behind the allow entries of
      // all groups.
      if (!IsGroup(entry)) Deny(entry, AllowedAfter(i));
      if (entry.tag == AclTag::kOther) DenyGroups(entry.permissions);
      Allow(entry);
    }
  }

 private:
  uint32_t Effective(const AclEntry& entry) const {
    return entry.tag == AclTag::kOwner || entry.tag == AclTag::kOther ? entry.permissions : entry.permissions & mask_;
  }
  // The permissions that later entries allow to the subject of this entry. A later entry of a named user does not apply
  // to another named user. All later entries may apply to the owner.
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

// The rights that the entries so far allow and deny to a class of callers. The first entry that names a right decides.
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

// Reads an NFSv4 list into the classes of a POSIX list. If an entry denies a right to some callers, the right is denied
// to every class that may contain one of them.
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
  // A class that an entry names for the first time starts with the rights that earlier entries give to everyone.
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
  // Adds `mask` to all classes whose callers may be members of a group.
  void AddToMembers(bool denies, uint32_t mask) {
    unnamed_.Add(denies, mask);
    owning_group_.Add(denies, mask);
    for (auto& [id, user] : users_) user.Add(denies, mask);
    for (auto& [id, group] : groups_) group.Add(denies, mask);
  }

  Verdicts owner_, owning_group_, other_, unnamed_;
  std::map<uint32_t, Verdicts> users_, groups_;
};

constexpr std::string_view kOwner = "OWNER@";
constexpr std::string_view kGroup = "GROUP@";
constexpr std::string_view kEveryone = "EVERYONE@";

}  // namespace

Kind KindOf(std::string_view who, bool group) {
  if (who == kOwner) return Kind::kOwner;
  if (who == kGroup) return Kind::kOwningGroup;
  if (who == kEveryone) return Kind::kEveryone;
  return group ? Kind::kGroup : Kind::kUser;
}

std::string_view WhoOf(Kind kind) {
  assert(kind != Kind::kUser && kind != Kind::kGroup);
  return kind == Kind::kOwner ? kOwner : kind == Kind::kOwningGroup ? kGroup : kEveryone;
}

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

// ---- what a mapping loses ----

namespace {

// The rights that FromNfs() can lose. Nobody but the owner has the last ones by a POSIX list.
constexpr uint32_t kOfClasses = ACE4_READ_DATA | ACE4_WRITE_DATA | ACE4_APPEND_DATA | ACE4_EXECUTE | ACE4_DELETE_CHILD;
constexpr uint32_t kOfOthers = ACE4_WRITE_ATTRIBUTES | ACE4_WRITE_ACL | ACE4_WRITE_OWNER | ACE4_DELETE;

// The first entries that decide about the rights of one user or group: for each right, the place in the list.
struct FirstEntries {
  static constexpr size_t kRights = 32;
  static constexpr size_t kNone = SIZE_MAX;
  std::array<size_t, kRights> at{};
  uint32_t allowed = 0;

  FirstEntries() { at.fill(kNone); }
  void Add(const AccessControlEntry& entry, size_t place) {
    for (uint32_t rest = entry.mask; rest != 0; rest &= rest - 1) {
      const auto right = static_cast<size_t>(std::countr_zero(rest));
      if (at[right] != kNone) continue;
      at[right] = place;
      if (!entry.denies) allowed |= 1u << right;
    }
  }
};

// What a list allows to callers. A caller is a user, or none that the list names, and a member of a group, or of none
// that the list names. Members of two groups have nothing that a member of one of them does not have: the first entry
// that names a right decides, and belongs to one of the two.
class Judge {
 public:
  explicit Judge(const std::vector<AccessControlEntry>& entries) {
    for (size_t i = 0; i < entries.size(); ++i) of_[entries[i].who].Add(entries[i], i);
  }

  uint32_t AllowedTo(const Trustee& user, const Trustee& group) const {
    uint32_t allowed = 0;
    std::array<size_t, FirstEntries::kRights> first{};
    first.fill(FirstEntries::kNone);
    for (const Trustee& each : {Trustee{}, user, group}) {
      const auto found = of_.find(each);
      if (found == of_.end()) continue;
      for (size_t right = 0; right < first.size(); ++right) {
        if (found->second.at[right] >= first[right]) continue;
        first[right] = found->second.at[right];
        const uint32_t bit = 1u << right;
        allowed = (allowed & ~bit) | (found->second.allowed & bit);
      }
    }
    return allowed;
  }

 private:
  std::map<Trustee, FirstEntries> of_;
};

// Whether the entries of `given` allow nothing that the POSIX list does not allow. Flags do not count.
bool LosesNothing(const std::vector<AccessControlEntry>& given, const fs::Acl& acl, bool directory) {
  const Judge before(given);
  const Judge after(ToNfs({.access = acl, .defaults = {}}, directory));
  // EVERYONE@ stands for a user, or a group, that the list does not name.
  std::vector<Trustee> users = {{Kind::kEveryone, 0}, {Kind::kOwner, 0}};
  std::vector<Trustee> groups = {{Kind::kEveryone, 0}, {Kind::kOwningGroup, 0}};
  for (const AclEntry& entry : acl) {
    if (entry.tag == AclTag::kUser) users.push_back({Kind::kUser, entry.id});
    if (entry.tag == AclTag::kGroup) groups.push_back({Kind::kGroup, entry.id});
  }
  for (const Trustee& user : users) {
    uint32_t counts = kOfClasses | (user.kind == Kind::kOwner ? 0 : kOfOthers);
    if (!directory) counts &= ~ACE4_DELETE_CHILD;
    for (const Trustee& group : groups) {
      if ((before.AllowedTo(user, group) & ~after.AllowedTo(user, group) & counts) != 0) return false;
    }
  }
  return true;
}

}  // namespace

bool IsExactInPosix(const std::vector<AccessControlEntry>& entries, bool directory) {
  const auto acls = FromNfs(entries, directory);
  if (!acls) return false;
  std::vector<AccessControlEntry> access, defaults;
  for (const AccessControlEntry& entry : entries) {
    const uint32_t inherits = entry.flags & kInherits;
    if ((entry.flags & ACE4_INHERIT_ONLY_ACE) == 0) access.push_back(entry);
    if (inherits == 0) continue;
    // A default list concerns files and directories at all levels.
    if (inherits != kInherits || (entry.flags & ACE4_NO_PROPAGATE_INHERIT_ACE) != 0) return false;
    defaults.push_back(entry);
  }
  return LosesNothing(access, *acls->access, directory) &&
         (defaults.empty() || LosesNothing(defaults, *acls->defaults, true));
}

}  // namespace penstock::nfs_protocol
