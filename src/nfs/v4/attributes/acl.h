// The attributes of access control lists (RFC 8881 §6.2.1).
#pragma once

#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/task.h"
#include "fs/acl.h"
#include "nfs_protocol/acl_mapping.h"
#include "protocol/nfs4_attributes.h"
#include "protocol/nfs4_types.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

class OwnerTexts;

// The value of the attribute aclsupport.
inline constexpr uint32_t kAclSupport = nfs4::ACL4_SUPPORT_ALLOW_ACL | nfs4::ACL4_SUPPORT_DENY_ACL;

using nfs_protocol::AccessControlEntry;
using nfs_protocol::FromNfs;
using nfs_protocol::ToNfs;
using nfs_protocol::Trustee;

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
