// POSIX access control lists (POSIX.1e, draft 17), as the file system stores them, independent of any protocol.
#pragma once

#include <optional>
#include <vector>

#include "fs/permission.h"
#include "fs/types.h"

namespace penstock::fs {

// In the order of the entries in a list.
enum class AclTag : uint8_t { kOwner, kUser, kOwningGroup, kGroup, kMask, kOther };

struct AclEntry {
  AclTag tag = AclTag::kOwner;
  uint32_t id = 0;           // for kUser and kGroup only
  uint32_t permissions = 0;  // a sum of 4 (read), 2 (write) and 1 (execute)
  auto operator<=>(const AclEntry&) const = default;
};

// Sorted by tag, then by id.
using Acl = std::vector<AclEntry>;

struct Acls {
  Acl access;    // never empty: an object without a list has the list that its mode stands for
  Acl defaults;  // the default list of a directory, which new objects in it inherit; empty if it has none
  bool operator==(const Acls&) const = default;
};

struct NewAcls {
  std::optional<Acl> access;
  std::optional<Acl> defaults;  // empty: removes the default list
};

// Checks that a list is complete and sorted: it has exactly one owner, one owning group and one other entry, no user
// or group twice, and a mask if it names users or groups.
bool IsValid(const Acl& acl);

// Returns true if a mode can express the whole list.
inline bool IsMinimal(const Acl& acl) { return acl.size() == 3; }

Acl AclOfMode(uint32_t mode);
// The nine permission bits that correspond to a list.
uint32_t ModeOfAcl(const Acl& acl);
// In a list of four entries, leaves out a mask with the rights of the owning group, which changes nothing.
void RemoveNeedlessMask(Acl& acl);
// Changes a list as chmod() does.
void SetMode(Acl& acl, uint32_t mode);
// The access list of a new object that is created with `mode` in a directory with these defaults.
Acl Inherit(const Acl& defaults, uint32_t mode);

// The rights that the list gives to the caller. RightsOf(attributes, caller) is the same without a list.
Rights RightsOf(const Acl& acl, const Attributes& object, const Credentials& caller);

}  // namespace penstock::fs
