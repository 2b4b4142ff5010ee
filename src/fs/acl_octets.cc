#include "fs/acl_octets.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

#include <algorithm>
#include <bit>

namespace penstock::fs {
namespace {

constexpr uint32_t kVersion = 2;
constexpr uint32_t kNoId = UINT32_MAX;
constexpr size_t kEntrySize = 8;

// Indexed by AclTag.
constexpr uint16_t kTags[] = {ACL_USER_OBJ, ACL_USER, ACL_GROUP_OBJ, ACL_GROUP, ACL_MASK, ACL_OTHER};

template <std::unsigned_integral T>
void StoreLittle(std::byte* at, T value) {
  StoreBig<T>(at, std::byteswap(value));
}

template <std::unsigned_integral T>
T LoadLittle(const std::byte* at) {
  return std::byteswap(LoadBig<T>(at));
}

bool HasId(AclTag tag) { return tag == AclTag::kUser || tag == AclTag::kGroup; }

}  // namespace

std::vector<std::byte> OctetsOfAcl(const Acl& acl) {
  std::vector<std::byte> octets(4 + kEntrySize * acl.size());
  StoreLittle<uint32_t>(octets.data(), kVersion);
  std::byte* at = octets.data() + 4;
  for (const AclEntry& entry : acl) {
    StoreLittle<uint16_t>(at, kTags[static_cast<size_t>(entry.tag)]);
    StoreLittle<uint16_t>(at + 2, static_cast<uint16_t>(entry.permissions));
    StoreLittle<uint32_t>(at + 4, HasId(entry.tag) ? entry.id : kNoId);
    at += kEntrySize;
  }
  return octets;
}

Result<Acl> AclOfOctets(ConstBytes octets) {
  if (octets.size() < 4 || LoadLittle<uint32_t>(octets.data()) != kVersion) return std::unexpected(Error::kServerFault);
  Acl acl;
  for (octets = octets.subspan(4); octets.size() >= kEntrySize; octets = octets.subspan(kEntrySize)) {
    const auto tag = std::ranges::find(kTags, LoadLittle<uint16_t>(octets.data()));
    if (tag == std::end(kTags)) return std::unexpected(Error::kServerFault);
    AclEntry entry;
    entry.tag = static_cast<AclTag>(tag - kTags);
    entry.permissions = LoadLittle<uint16_t>(octets.data() + 2);
    if (HasId(entry.tag)) entry.id = LoadLittle<uint32_t>(octets.data() + 4);
    acl.push_back(entry);
  }
  std::ranges::sort(acl);
  if (!IsValid(acl)) return std::unexpected(Error::kServerFault);
  return acl;
}

}  // namespace penstock::fs
