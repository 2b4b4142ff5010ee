// The access control lists of NFSv4 (RFC 8881 §6.2.1), and their mapping to the POSIX lists of files.
//
// A POSIX list can express less than an NFSv4 list: it allows up to three permissions to each class of callers. ToNfs()
// makes an NFSv4 list that allows and denies exactly the same. FromNfs() makes a POSIX list that allows no more than
// the NFSv4 list. The mapping is that of draft-ietf-nfsv4-acl-mapping and of Linux.
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

class OwnerTexts;

// The value of the attribute aclsupport.
inline constexpr uint32_t kAclSupport = nfs4::ACL4_SUPPORT_ALLOW_ACL | nfs4::ACL4_SUPPORT_DENY_ACL;

// The user or group that an entry applies to. (A Principal is the sender of a call.)
struct Trustee {
  enum class Kind : uint8_t { kOwner, kOwningGroup, kEveryone, kUser, kGroup };
  Kind kind = Kind::kEveryone;
  uint32_t id = 0;  // for kUser and kGroup
  bool operator==(const Trustee&) const = default;
};

struct AccessControlEntry {
  bool denies = false;
  uint32_t flags = 0;  // flags of inheritance, such as ACE4_FILE_INHERIT_ACE
  uint32_t mask = 0;   // rights, such as ACE4_READ_DATA
  Trustee who;
  bool operator==(const AccessControlEntry&) const = default;
};

// --- The mapping

// Converts a file's list. For a directory, the default list follows as entries that apply only to new children.
std::vector<AccessControlEntry> ToNfs(const fs::Acls& acls, bool directory);
// Converts the list that a client sets. Returns NFS4ERR_INVAL if an entry of a file is inheritable. If no entry applies
// to the object itself, the list allows nothing. The result also sets the default list of a directory, which is empty
// if no entry is inheritable.
Result<fs::NewAcls, nfs4::nfsstat4> FromNfs(const std::vector<AccessControlEntry>& entries, bool directory);

// --- The attributes 12 (acl) and 58 (dacl)

// The na41_flag of each dacl (RFC 8881 §6.4.3.2). POSIX lists do not tell which entries are inherited, so automatic
// inheritance must not change them.
inline constexpr nfs4::aclflag4 kListFlags = nfs4::ACL4_PROTECTED;
// Checks the na41_flag that a client sets. A list without ACL4_PROTECTED is accepted, and gets it. Errors:
// NFS4ERR_ATTRNOTSUPP for the flags of automatic inheritance; NFS4ERR_INVAL for undefined flags.
nfs4::nfsstat4 CheckListFlags(nfs4::aclflag4 flags);

// Loads the texts of all users and groups in the lists, for EncodeAcl().
Task<> LoadTexts(OwnerTexts& owners, const fs::Acls& acls);
void EncodeAcl(xdr::Encoder& to, const fs::Acls& acls, bool directory, const OwnerTexts& owners);

// An entry as a client sends it. The name is a view of the decoded message.
struct GivenEntry {
  AccessControlEntry entry;
  std::string_view user_or_group;  // if `who` is a user or group, whose id FindIds() looks up
};
// Decodes a list. Errors: NFS4ERR_BADXDR for malformed XDR; NFS4ERR_ATTRNOTSUPP for entries that neither allow nor deny
// (RFC 8881 §6.2.1.1); NFS4ERR_INVAL for undefined flags or rights, for a name that is not UTF-8, and for too many
// entries.
nfs4::nfsstat4 DecodeAcl(xdr::Decoder& from, std::vector<GivenEntry>& entries);
// Looks up the ids of users and groups. Errors: those of OwnerTexts::UserOf().
Task<Result<std::vector<AccessControlEntry>, nfs4::nfsstat4>> FindIds(OwnerTexts& owners,
                                                                      std::vector<GivenEntry> entries);

}  // namespace penstock::nfs::v4
