// The access control lists of NFSv4 (RFC 8881 §6.2.1), and their mapping to the POSIX lists of files. The server and
// the copier share it.
//
// A POSIX list can express less than an NFSv4 list: it allows up to three permissions to each class of callers. ToNfs()
// makes an NFSv4 list that allows and denies exactly the same. FromNfs() makes a POSIX list that allows no more than
// the NFSv4 list. The mapping is that of draft-ietf-nfsv4-acl-mapping and of Linux.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/acl.h"
#include "protocol/nfs4_attributes.h"
#include "protocol/nfs4_types.h"
#include "protocol/nfsacl.h"

namespace penstock::nfs_protocol {

// The types of the entries of NFSACL, indexed by fs::AclTag. Linux has the same numbers in extended attributes.
inline constexpr std::array<uint32_t, 6> kAclTypes = {nfsacl::NA_USER_OBJ, nfsacl::NA_USER,      nfsacl::NA_GROUP_OBJ,
                                                      nfsacl::NA_GROUP,    nfsacl::NA_CLASS_OBJ, nfsacl::NA_OTHER_OBJ};

// The user or group that an entry applies to. (A Principal is the sender of a call.)
struct Trustee {
  enum class Kind : uint8_t { kOwner, kOwningGroup, kEveryone, kUser, kGroup };
  Kind kind = Kind::kEveryone;
  uint32_t id = 0;  // for kUser and kGroup
  auto operator<=>(const Trustee&) const = default;
};
// The kind of a `who` of the protocol. `group`: the entry has the flag ACE4_IDENTIFIER_GROUP.
Trustee::Kind KindOf(std::string_view who, bool group);
// The `who` of the protocol for a kind without an id.
std::string_view WhoOf(Trustee::Kind kind);

struct AccessControlEntry {
  bool denies = false;
  uint32_t flags = 0;  // flags of inheritance, such as ACE4_FILE_INHERIT_ACE
  uint32_t mask = 0;   // rights, such as ACE4_READ_DATA
  Trustee who;
  bool operator==(const AccessControlEntry&) const = default;
};

// Converts a file's list. For a directory, the default list follows as entries that apply only to new children.
std::vector<AccessControlEntry> ToNfs(const fs::Acls& acls, bool directory);
// Converts the list that a client sets. Returns NFS4ERR_INVAL if an entry of a file is inheritable. If no entry applies
// to the object itself, the list allows nothing. The result also sets the default list of a directory, which is empty
// if no entry is inheritable.
Result<fs::NewAcls, nfs4::nfsstat4> FromNfs(const std::vector<AccessControlEntry>& entries, bool directory);
// Whether FromNfs() loses nothing that the list allows. READ_ATTRIBUTES, READ_ACL and SYNCHRONIZE, which everybody has,
// and the attributes that an owner may change do not count.
bool IsExactInPosix(const std::vector<AccessControlEntry>& entries, bool directory);

}  // namespace penstock::nfs_protocol
