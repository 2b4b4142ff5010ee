// The XDR of the attributes acl and dacl (RFC 8881 §6.2.1, §6.2.2).
#include "base/utf8.h"
#include "nfs/v4/attributes/acl.h"
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/attributes/owner_texts.h"
#include "xdr/decode.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

using Kind = Trustee::Kind;

constexpr uint32_t kMaxEntries = 1024;

// These flags have no effect: they tell the origin of an entry, or belong to audit entries.
constexpr uint32_t kIgnoredFlags =
    ACE4_INHERITED_ACE | ACE4_SUCCESSFUL_ACCESS_ACE_FLAG | ACE4_FAILED_ACCESS_ACE_FLAG | ACE4_IDENTIFIER_GROUP;
constexpr uint32_t kKnownFlags = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE | ACE4_INHERIT_ONLY_ACE;

constexpr uint32_t kKnownRights = ACE4_READ_DATA | ACE4_WRITE_DATA | ACE4_APPEND_DATA | ACE4_READ_NAMED_ATTRS |
                                  ACE4_WRITE_NAMED_ATTRS | ACE4_EXECUTE | ACE4_DELETE_CHILD | ACE4_READ_ATTRIBUTES |
                                  ACE4_WRITE_ATTRIBUTES | ACE4_WRITE_RETENTION | ACE4_WRITE_RETENTION_HOLD |
                                  ACE4_DELETE | ACE4_READ_ACL | ACE4_WRITE_ACL | ACE4_WRITE_OWNER | ACE4_SYNCHRONIZE;

void EncodeWho(xdr::Encoder& to, const Trustee& who, const OwnerTexts& owners) {
  switch (who.kind) {
    case Kind::kUser:
      return owners.EncodeUser(to, who.id);
    case Kind::kGroup:
      return owners.EncodeGroup(to, who.id);
    default:
      return to.String(nfs_protocol::WhoOf(who.kind));
  }
}

nfsstat4 Check(const nfsace4& given) {
  if (given.type != ACE4_ACCESS_ALLOWED_ACE_TYPE && given.type != ACE4_ACCESS_DENIED_ACE_TYPE) {
    return given.type <= ACE4_SYSTEM_ALARM_ACE_TYPE ? NFS4ERR_ATTRNOTSUPP : NFS4ERR_INVAL;
  }
  // POSIX default lists are inherited at all levels.
  if ((given.flag & ACE4_NO_PROPAGATE_INHERIT_ACE) != 0) return NFS4ERR_ATTRNOTSUPP;
  if ((given.flag & ~(kKnownFlags | kIgnoredFlags)) != 0 || (given.access_mask & ~kKnownRights) != 0) {
    return NFS4ERR_INVAL;
  }
  return IsUtf8(given.who) ? NFS4_OK : NFS4ERR_INVAL;
}

}  // namespace

nfsstat4 CheckListFlags(aclflag4 flags) {
  if ((flags & ~(ACL4_AUTO_INHERIT | ACL4_PROTECTED | ACL4_DEFAULTED)) != 0) return NFS4ERR_INVAL;
  return (flags & ~kListFlags) == 0 ? NFS4_OK : NFS4ERR_ATTRNOTSUPP;
}

Task<> LoadTexts(OwnerTexts& owners, const fs::Acls& acls) {
  for (const fs::Acl* acl : {&acls.access, &acls.defaults}) {
    for (const fs::AclEntry& entry : *acl) {
      if (entry.tag == fs::AclTag::kUser) co_await owners.LoadUser(entry.id);
      if (entry.tag == fs::AclTag::kGroup) co_await owners.LoadGroup(entry.id);
    }
  }
}

void EncodeAcl(xdr::Encoder& to, const fs::Acls& acls, bool directory, const OwnerTexts& owners) {
  const std::vector<AccessControlEntry> entries = ToNfs(acls, directory);
  to.Length(entries.size());
  for (const AccessControlEntry& entry : entries) {
    to.U32(entry.denies ? ACE4_ACCESS_DENIED_ACE_TYPE : ACE4_ACCESS_ALLOWED_ACE_TYPE);
    to.U32(entry.flags | (entry.who.kind == Kind::kGroup ? ACE4_IDENTIFIER_GROUP : 0));
    to.U32(entry.mask);
    EncodeWho(to, entry.who, owners);
  }
}

nfsstat4 DecodeAcl(xdr::Decoder& from, std::vector<GivenEntry>& entries) {
  uint32_t count;
  if (!from.U32(count)) return NFS4ERR_BADXDR;
  if (count > kMaxEntries) return NFS4ERR_INVAL;
  for (uint32_t i = 0; i < count; ++i) {
    nfsace4 given{};
    if (!xdr::Decode(from, given)) return NFS4ERR_BADXDR;
    if (const nfsstat4 status = Check(given); status != NFS4_OK) return status;
    GivenEntry entry;
    entry.entry.denies = given.type == ACE4_ACCESS_DENIED_ACE_TYPE;
    entry.entry.flags = given.flag & kKnownFlags;
    entry.entry.mask = given.access_mask;
    entry.entry.who.kind = nfs_protocol::KindOf(given.who, (given.flag & ACE4_IDENTIFIER_GROUP) != 0);
    entry.user_or_group = given.who;
    entries.push_back(entry);
  }
  return NFS4_OK;
}

Task<Result<std::vector<AccessControlEntry>, nfsstat4>> FindIds(OwnerTexts& owners, std::vector<GivenEntry> entries) {
  std::vector<AccessControlEntry> found;
  for (GivenEntry& given : entries) {
    Trustee& who = given.entry.who;
    if (who.kind == Kind::kUser || who.kind == Kind::kGroup) {
      Result<uint32_t, nfsstat4> id;
      if (who.kind == Kind::kUser) {
        id = co_await owners.UserOf(given.user_or_group);
      } else {
        id = co_await owners.GroupOf(given.user_or_group);
      }
      if (!id) co_return std::unexpected(id.error());
      who.id = *id;
    }
    found.push_back(given.entry);
  }
  co_return found;
}

}  // namespace penstock::nfs::v4
