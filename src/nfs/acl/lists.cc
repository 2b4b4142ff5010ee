#include "nfs/acl/lists.h"

#include <algorithm>
#include <iterator>

#include "nfs_protocol/acl_mapping.h"

namespace penstock::nfs::acl {

using namespace nfsacl;  // NOLINT: the protocol's own names
using nfs_protocol::kAclTypes;

namespace {

// The id that is not a user and not a group.
constexpr uint32_t kNoId = UINT32_MAX;

bool HasId(fs::AclTag tag) { return tag == fs::AclTag::kUser || tag == fs::AclTag::kGroup; }

// Adds the mask that a list of three entries lacks.
fs::Acl WithMask(fs::Acl acl) {
  if (!fs::IsMinimal(acl)) return acl;
  acl.insert(acl.begin() + 2, {fs::AclTag::kMask, 0, acl[1].permissions});
  return acl;
}

// The owner and the owning group have their ids, too.
uint32_t IdOf(const fs::AclEntry& entry, const fs::Attributes& object) {
  if (entry.tag == fs::AclTag::kOwner) return object.uid;
  if (entry.tag == fs::AclTag::kOwningGroup) return object.gid;
  return entry.id;
}

using List = decltype(secattr::access);

// Returns false if the list is too long. Writes only the count unless `with_entries`.
bool Write(const fs::Acl& from, const fs::Attributes& object, uint32_t flag, bool with_entries, uint32_t& count,
           List& list) {
  const fs::Acl acl = WithMask(from);
  if (acl.size() > NFS_ACL_MAX_ENTRIES) return false;
  count = static_cast<uint32_t>(acl.size());
  if (!with_entries) return true;
  for (const fs::AclEntry& entry : acl) {
    list.push_back({.type = kAclTypes[static_cast<size_t>(entry.tag)] | flag,
                    .id = IdOf(entry, object),
                    .perm = entry.permissions});
  }
  return true;
}

std::optional<fs::AclEntry> FromEntry(const aclent& given, uint32_t flag) {
  const auto type = std::ranges::find(kAclTypes, given.type & ~flag);
  if (type == kAclTypes.end()) return std::nullopt;
  fs::AclEntry entry{.tag = static_cast<fs::AclTag>(type - kAclTypes.begin()), .permissions = given.perm};
  if (HasId(entry.tag)) {
    if (given.id == kNoId) return std::nullopt;
    entry.id = given.id;
  }
  if (entry.tag == fs::AclTag::kMask) entry.permissions &= 7;  // Solaris may set more bits in a mask
  return entry;
}

// `flag` is the bit that the types of the entries may have. The counts must agree.
std::optional<fs::Acl> Read(const List& list, uint32_t count, uint32_t flag) {
  if (count != list.size()) return std::nullopt;
  fs::Acl acl;
  for (const aclent& given : list) {
    const auto entry = FromEntry(given, flag);
    if (!entry) return std::nullopt;
    acl.push_back(*entry);
  }
  std::ranges::sort(acl);
  fs::RemoveNeedlessMask(acl);
  return acl;
}

}  // namespace

std::optional<secattr> ToSecurityAttributes(const fs::Acls& acls, const fs::Attributes& object, uint32_t mask) {
  secattr to{.mask = mask};
  if ((mask & (NA_ACL | NA_ACLCNT)) != 0 &&
      !Write(acls.access, object, 0, (mask & NA_ACL) != 0, to.aclcnt, to.access)) {
    return std::nullopt;
  }
  if ((mask & (NA_DFACL | NA_DFACLCNT)) != 0 &&
      !Write(acls.defaults, object, NA_ACL_DEFAULT, (mask & NA_DFACL) != 0, to.dfaclcnt, to.defaults)) {
    return std::nullopt;
  }
  return to;
}

std::optional<fs::NewAcls> FromSecurityAttributes(const secattr& given) {
  fs::NewAcls acls;
  if ((given.mask & NA_ACL) != 0) {
    acls.access = Read(given.access, given.aclcnt, 0);
    if (!acls.access || !fs::IsValid(*acls.access)) return std::nullopt;
  }
  if ((given.mask & NA_DFACL) != 0) {
    acls.defaults = Read(given.defaults, given.dfaclcnt, NA_ACL_DEFAULT);
    if (!acls.defaults || (!acls.defaults->empty() && !fs::IsValid(*acls.defaults))) return std::nullopt;
  }
  return acls;
}

}  // namespace penstock::nfs::acl
