#include "copying/acl_forms.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "nfs_protocol/acl_mapping.h"
#include "protocol/nfs4_attributes.h"

namespace penstock::copying {
namespace {

using client::Error;
using client::Result;
using fs::AclEntry;
using fs::AclTag;
using nfs_protocol::AccessControlEntry;
using nfs_protocol::kAclTypes;
using Kind = nfs_protocol::Trustee::Kind;

constexpr uint32_t kInheritance = nfs4::ACE4_FILE_INHERIT_ACE | nfs4::ACE4_DIRECTORY_INHERIT_ACE |
                                  nfs4::ACE4_NO_PROPAGATE_INHERIT_ACE | nfs4::ACE4_INHERIT_ONLY_ACE;

constexpr size_t kMostAces = 1024;

bool HasId(AclTag tag) { return tag == AclTag::kUser || tag == AclTag::kGroup; }

std::optional<fs::Acl> ListOf(const std::vector<client::PosixAce>& entries) {
  fs::Acl acl;
  for (const client::PosixAce& each : entries) {
    const auto type = std::ranges::find(kAclTypes, each.type);
    if (type == kAclTypes.end()) return std::nullopt;
    const auto tag = static_cast<AclTag>(type - kAclTypes.begin());
    acl.push_back({tag, HasId(tag) ? each.id : 0, each.permissions & 7});
  }
  std::ranges::sort(acl);
  fs::RemoveNeedlessMask(acl);
  if (!fs::IsValid(acl)) return std::nullopt;
  return acl;
}

std::vector<client::PosixAce> EntriesOf(const fs::Acl& acl) {
  std::vector<client::PosixAce> entries;
  for (const AclEntry& each : acl)
    entries.push_back({kAclTypes[static_cast<size_t>(each.tag)], each.id, each.permissions});
  return entries;
}

uint32_t PermissionsOf(const fs::Acl& acl, AclTag tag, uint32_t absent) {
  const auto found = std::ranges::find(acl, tag, &AclEntry::tag);
  return found == acl.end() ? absent : found->permissions;
}

// What the entries allow when the mask is applied.
fs::Acl Effective(fs::Acl acl) {
  const uint32_t mask = PermissionsOf(acl, AclTag::kMask, 7);
  std::erase_if(acl, [](const AclEntry& each) { return each.tag == AclTag::kMask; });
  for (AclEntry& each : acl) {
    if (each.tag != AclTag::kOwner && each.tag != AclTag::kOther) each.permissions &= mask;
  }
  return acl;
}

fs::Acl WithoutNeedlessMask(fs::Acl acl) {
  fs::RemoveNeedlessMask(acl);
  return acl;
}

}  // namespace

Result<fs::Acls> AclsOf(const client::PosixAcl& acl, uint32_t mode) {
  fs::Acls acls{.access = fs::AclOfMode(mode), .defaults = {}};
  std::optional<fs::Acl> access = acls.access, defaults = acls.defaults;
  if (!acl.access.empty()) access = ListOf(acl.access);
  if (!acl.defaults.empty()) defaults = ListOf(acl.defaults);
  if (!access || !defaults) return std::unexpected(Error{"malformed access control list", std::nullopt, EINVAL});
  acls.access = *std::move(access);
  acls.defaults = *std::move(defaults);
  return acls;
}

client::PosixAcl PosixAclOf(const fs::Acls& acls) {
  return {.access = EntriesOf(acls.access), .defaults = EntriesOf(acls.defaults)};
}

std::vector<client::Ace> AcesOf(const fs::Acls& acls, bool is_directory) {
  std::vector<client::Ace> aces;
  for (const AccessControlEntry& each : nfs_protocol::ToNfs(acls, is_directory)) {
    const bool has_id = each.who.kind == Kind::kUser || each.who.kind == Kind::kGroup;
    aces.push_back({
        .type = each.denies ? nfs4::ACE4_ACCESS_DENIED_ACE_TYPE : nfs4::ACE4_ACCESS_ALLOWED_ACE_TYPE,
        .flags = each.flags | (each.who.kind == Kind::kGroup ? nfs4::ACE4_IDENTIFIER_GROUP : 0),
        .mask = each.mask,
        .who = has_id ? std::to_string(each.who.id) : std::string(nfs_protocol::WhoOf(each.who.kind)),
    });
  }
  return aces;
}

Task<Result<PosixForm>> PosixFormOf(std::vector<client::Ace> aces, bool is_directory, Extras& names) {
  // To compare such a list takes time that grows with the square of its length.
  if (aces.size() > kMostAces) {
    co_return std::unexpected(
        Error{fmt::format("the access control list has {} entries, more than {}", aces.size(), kMostAces), std::nullopt,
              EFBIG});
  }
  PosixForm form;
  std::vector<AccessControlEntry> entries;
  for (client::Ace& ace : aces) {
    AccessControlEntry entry;
    entry.denies = ace.type == nfs4::ACE4_ACCESS_DENIED_ACE_TYPE;
    entry.mask = ace.mask;
    // What audits or alarms allows nobody anything.
    if (!entry.denies && ace.type != nfs4::ACE4_ACCESS_ALLOWED_ACE_TYPE) {
      form.is_exact = false;
      continue;
    }
    if (is_directory) entry.flags = ace.flags & kInheritance;
    entry.who.kind = nfs_protocol::KindOf(ace.who, (ace.flags & nfs4::ACE4_IDENTIFIER_GROUP) != 0);
    if (entry.who.kind == Kind::kUser || entry.who.kind == Kind::kGroup) {
      const auto kind = entry.who.kind == Kind::kUser ? idmap::Kind::kUser : idmap::Kind::kGroup;
      const std::optional<uint32_t> number = co_await names.NumberOf(kind, ace.who);
      if (!number) {
        co_return std::unexpected(
            Error{fmt::format("the access control list names {}, whom the target does not know", ace.who), std::nullopt,
                  EINVAL});
      }
      entry.who.id = *number;
    }
    entries.push_back(std::move(entry));
  }
  const auto found = nfs_protocol::FromNfs(entries, is_directory);
  if (!found) co_return std::unexpected(Error{"malformed access control list", std::nullopt, EINVAL});
  form.acls = {.access = *found->access, .defaults = found->defaults.value_or(fs::Acl())};
  form.is_exact = form.is_exact && nfs_protocol::IsExactInPosix(entries, is_directory);
  co_return form;
}

// A user whom the list names may be a member of the owning group, or of none. So may the members of the groups.
uint32_t ModeWithin(const fs::Acl& acl) {
  const fs::Acl effective = Effective(acl);
  uint32_t all = 7;
  for (const AclEntry& each : effective) {
    if (HasId(each.tag)) all &= each.permissions;
  }
  const uint32_t group = PermissionsOf(effective, AclTag::kOwningGroup, 0) & all;
  const uint32_t other = PermissionsOf(effective, AclTag::kOther, 0) & all;
  return PermissionsOf(effective, AclTag::kOwner, 0) << 6 | group << 3 | other;
}

bool SayTheSame(const fs::Acls& one, const fs::Acls& other, bool one_was_nfs) {
  if (one_was_nfs) {
    return Effective(one.access) == Effective(other.access) && Effective(one.defaults) == Effective(other.defaults);
  }
  return WithoutNeedlessMask(one.access) == WithoutNeedlessMask(other.access) &&
         WithoutNeedlessMask(one.defaults) == WithoutNeedlessMask(other.defaults);
}

}  // namespace penstock::copying
