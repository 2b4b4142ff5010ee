// POSIX access control lists (POSIX.1e, draft 17): as files have them, whatever protocol shows them.
#pragma once

#include <optional>
#include <vector>

#include "fs/permission.h"
#include "fs/types.h"

namespace penstock::fs {

// In the order in which a list has them.
enum class AclTag : uint8_t { kOwner, kUser, kOwningGroup, kGroup, kMask, kOther };

struct AclEntry {
  AclTag tag = AclTag::kOwner;
  uint32_t id = 0;           // of kUser and kGroup
  uint32_t permissions = 0;  // 4 read, 2 write, 1 execute
  auto operator<=>(const AclEntry&) const = default;
};

// Sorted: by tag, then by id.
using Acl = std::vector<AclEntry>;

struct Acls {
  Acl access;    // never empty: where none is kept, what the mode says
  Acl defaults;  // a directory's: what new objects in it get; empty where there is none
};

struct NewAcls {
  std::optional<Acl> access;
  std::optional<Acl> defaults;  // empty: the directory is to have none
};

// Whether it is one: each of owner, owning group and other once; no user or group twice; a mask where there are any; sorted.
bool IsValid(const Acl& acl);

// Whether it says no more than a mode can.
inline bool IsMinimal(const Acl& acl) { return acl.size() == 3; }

Acl AclOfMode(uint32_t mode);
// The nine permission bits that go with a list.
uint32_t ModeOfAcl(const Acl& acl);
// What chmod() makes of a list.
void SetMode(Acl& acl, uint32_t mode);
// What a new object is given by its directory's default, when it is made with `mode`.
Acl Inherit(const Acl& defaults, uint32_t mode);

// As RightsOf(attributes, caller), by the list.
Rights RightsOf(const Acl& acl, const Attributes& object, const Credentials& caller);

}  // namespace penstock::fs
