// Decodes access control lists in the format of a file system's extended attributes, and in NFSv4's format. An accepted
// list must be valid. Its conversion to the other format must be valid too, and must not grant any user more.
#include <array>
#include <cstdio>
#include <cstdlib>

#include "fs/acl_octets.h"
#include "input.h"
#include "nfs/v4/attributes/acl.h"
#include "xdr/decode.h"

namespace {

using namespace penstock;  // NOLINT: a program of its own
using fuzz::Die;
using fuzz::Input;

// All users with small ids: the owner, members of groups, users with their own entries, and others.
void CheckAllowsNoMore(const fs::Acl& than, const fs::Acl& acl) {
  fs::Attributes object{};
  object.uid = 1;
  object.gid = 1;
  for (uint32_t uid = 1; uid < 5; ++uid) {
    for (uint32_t gid = 1; gid < 5; ++gid) {
      const std::array<uint32_t, 1> groups = {gid + 1};
      const fs::Credentials caller{.uid = uid, .gid = gid, .groups = groups};
      const fs::Rights before = fs::RightsOf(than, object, caller);
      const fs::Rights after = fs::RightsOf(acl, object, caller);
      if ((after.read && !before.read) || (after.write && !before.write) || (after.execute && !before.execute)) {
        Die("the converted list grants more");
      }
    }
  }
}

void CheckStored(Input& input) {
  const bool directory = (input.Octet() & 1) != 0;
  const auto acl = fs::AclOfOctets(input.Take(4096));
  if (!acl) return;
  const auto again = fs::AclOfOctets(fs::OctetsOfAcl(*acl));
  if (!again || *again != *acl) Die("the list changed in a round trip");
  if (!fs::IsValid(*acl)) return;
  const auto shown = nfs::v4::ToNfs({.access = *acl, .defaults = {}}, directory);
  const auto back = nfs::v4::FromNfs(shown, directory);
  if (!back || !back->access || !fs::IsValid(*back->access)) Die("a list that clients read cannot be set");
  CheckAllowsNoMore(*acl, *back->access);
}

void CheckGiven(Input& input) {
  const bool directory = (input.Octet() & 1) != 0;
  const ConstBytes octets = input.Take(4096);
  const xdr::Message message = xdr::Message::Whole(Slice::Borrowed(octets));
  xdr::Decoder decoder(message);
  std::vector<nfs::v4::GivenEntry> given;
  if (nfs::v4::DecodeAcl(decoder, given) != nfs4::NFS4_OK) return;
  std::vector<nfs::v4::AccessControlEntry> entries;
  for (nfs::v4::GivenEntry& each : given) {
    each.entry.who.id = static_cast<uint32_t>(each.user_or_group.size());  // any id
    entries.push_back(each.entry);
  }
  const auto set = nfs::v4::FromNfs(entries, directory);
  if (!set) return;
  if (set->access && !fs::IsValid(*set->access)) Die("a client's list became invalid");
  if (set->defaults && !set->defaults->empty() && !fs::IsValid(*set->defaults)) Die("the default list is invalid");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  if (input.Octet() % 2 == 0) {
    CheckStored(input);
  } else {
    CheckGiven(input);
  }
  return 0;
}
