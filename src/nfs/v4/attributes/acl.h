// The access control lists of NFSv4 (RFC 8881 §6.2.1), and how those that files have are shown as such.
//
// A file has a POSIX list, which is less: it allows, by one class of callers after the other, three permissions. Shown
// as an NFSv4 list it allows and denies exactly the same; a list that a client sets becomes the POSIX list that allows
// no more than it (the mapping of draft-ietf-nfsv4-acl-mapping, as Linux has it).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/task.h"
#include "fs/acl.h"
#include "protocol/nfs4_attributes.h"
#include "protocol/nfs4_types.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

class OwnerNames;

// What of `aclsupport` we have.
inline constexpr uint32_t kAclSupport = nfs4::ACL4_SUPPORT_ALLOW_ACL | nfs4::ACL4_SUPPORT_DENY_ACL;

// Who an entry is for. (A Principal is who sends calls.)
struct Trustee {
  enum class Kind : uint8_t { kOwner, kOwningGroup, kEveryone, kUser, kGroup };
  Kind kind = Kind::kEveryone;
  uint32_t id = 0;  // of kUser and kGroup
  bool operator==(const Trustee&) const = default;
};

struct AccessControlEntry {
  bool denies = false;
  uint32_t flags = 0;  // of inheritance: ACE4_FILE_INHERIT_ACE and the like
  uint32_t mask = 0;   // ACE4_READ_DATA and the like
  Trustee who;
  bool operator==(const AccessControlEntry&) const = default;
};

// --- The mapping

// A file's list; then a directory's default, as entries that are inherited and say nothing of the directory itself.
std::vector<AccessControlEntry> ToNfs(const fs::Acls& acls, bool directory);
// NFS4ERR_INVAL where a file is to hand something down. A list without any entry that counts for the object allows
// nothing. The default of a directory is set, too, to none where nothing is inherited.
Result<fs::NewAcls, nfs4::nfsstat4> FromNfs(const std::vector<AccessControlEntry>& entries, bool directory);

// --- The attribute (12, acl)

// Sees to it that Encode knows the names of all who are in the lists.
Task<> LoadNames(OwnerNames& owners, Loop* loop, const fs::Acls& acls);
void EncodeAcl(xdr::Encoder& to, const fs::Acls& acls, bool directory, const OwnerNames& owners);

// An entry as a client wrote it; a view of what was decoded.
struct GivenEntry {
  AccessControlEntry entry;
  std::string_view user_or_group;  // where `who` is one of them: its id is still to be found
};
// NFS4ERR_BADXDR; NFS4ERR_ATTRNOTSUPP for entries that do not allow or deny (RFC 8881 §6.2.1.1); NFS4ERR_INVAL for
// flags or rights that there are not, for a name that is no UTF-8, and for more entries than make sense.
nfs4::nfsstat4 DecodeAcl(xdr::Decoder& from, std::vector<GivenEntry>& entries);
// NFS4ERR_BADOWNER: nobody is called that.
Task<Result<std::vector<AccessControlEntry>, nfs4::nfsstat4>> FindIds(OwnerNames& owners, Loop* loop,
                                                                      std::vector<GivenEntry> entries);

}  // namespace penstock::nfs::v4
