#include "nfs_protocol/acl_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::nfs_protocol {
namespace {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881
using enum fs::AclTag;
using Kind = Trustee::Kind;

// Prints an entry as "A:1003:rw" or "D:GROUP@:x". Omits the rights that every caller has.
std::string Describe(const AccessControlEntry& entry) {
  const Trustee& who = entry.who;
  std::string text = entry.denies ? "D:" : "A:";
  if ((entry.flags & ACE4_INHERIT_ONLY_ACE) != 0) text = "inherited " + text;
  switch (who.kind) {
    case Kind::kOwner:
      text += "OWNER@";
      break;
    case Kind::kOwningGroup:
      text += "GROUP@";
      break;
    case Kind::kEveryone:
      text += "EVERYONE@";
      break;
    case Kind::kUser:
      text += "u" + std::to_string(who.id);
      break;
    case Kind::kGroup:
      text += "g" + std::to_string(who.id);
      break;
  }
  text += ":";
  if ((entry.mask & ACE4_READ_DATA) != 0) text += "r";
  if ((entry.mask & ACE4_WRITE_DATA) != 0) text += "w";
  if ((entry.mask & ACE4_EXECUTE) != 0) text += "x";
  return text;
}

std::vector<std::string> Shown(const fs::Acls& acls, bool directory = false) {
  std::vector<std::string> lines;
  for (const AccessControlEntry& entry : ToNfs(acls, directory)) lines.push_back(Describe(entry));
  return lines;
}

constexpr uint32_t kRead = ACE4_READ_DATA;
constexpr uint32_t kWrite = ACE4_WRITE_DATA | ACE4_APPEND_DATA;
constexpr uint32_t kExecute = ACE4_EXECUTE;
constexpr Trustee kOwnerWho{Kind::kOwner, 0};
constexpr Trustee kGroupWho{Kind::kOwningGroup, 0};
constexpr Trustee kEveryoneWho{Kind::kEveryone, 0};
constexpr Trustee User(uint32_t id) { return {Kind::kUser, id}; }
constexpr Trustee Group(uint32_t id) { return {Kind::kGroup, id}; }

AccessControlEntry Allow(Trustee who, uint32_t mask, uint32_t flags = 0) { return {false, flags, mask, who}; }
AccessControlEntry Deny(Trustee who, uint32_t mask, uint32_t flags = 0) { return {true, flags, mask, who}; }

fs::Acl AccessOf(const std::vector<AccessControlEntry>& entries, bool directory = false) {
  const auto acls = FromNfs(entries, directory);
  EXPECT_TRUE(acls);
  EXPECT_TRUE(fs::IsValid(*acls->access));
  return *acls->access;
}

// --- From POSIX lists to NFSv4 lists

TEST(AclToNfs, AModeBecomesThreeEntries) {
  EXPECT_THAT(Shown({fs::AclOfMode(0754), {}}), testing::ElementsAre("A:OWNER@:rwx", "A:GROUP@:rx", "A:EVERYONE@:r"));
}

TEST(AclToNfs, DeniesAClassThePermissionsOfTheFollowingClasses) {
  EXPECT_THAT(Shown({fs::AclOfMode(0067), {}}),
              testing::ElementsAre("D:OWNER@:rwx", "A:OWNER@:", "A:GROUP@:rw", "D:GROUP@:x", "A:EVERYONE@:rwx"));
}

TEST(AclToNfs, AppliesTheMaskToTheEntries) {
  const fs::Acl acl{{kOwner, 0, 7},    {kUser, 1003, 7}, {kOwningGroup, 0, 5},
                    {kGroup, 2001, 6}, {kMask, 0, 4},    {kOther, 0, 0}};
  EXPECT_THAT(Shown({acl, {}}),
              testing::ElementsAre("A:OWNER@:rwx", "A:u1003:r", "A:GROUP@:r", "A:g2001:r", "A:EVERYONE@:"));
}

TEST(AclToNfs, DeniesANamedUserThePermissionsOfGroupsOnly) {
  const fs::Acl acl{{kOwner, 0, 7},       {kUser, 1003, 4}, {kUser, 1004, 6},
                    {kOwningGroup, 0, 1}, {kMask, 0, 7},    {kOther, 0, 0}};
  EXPECT_THAT(Shown({acl, {}}), testing::ElementsAre("A:OWNER@:rwx", "D:u1003:x", "A:u1003:r", "D:u1004:x",
                                                     "A:u1004:rw", "A:GROUP@:x", "A:EVERYONE@:"));
}

TEST(AclToNfs, AllowEntriesOfAllGroupsPrecedeTheirDenyEntries) {
  const fs::Acl acl{{kOwner, 0, 7}, {kOwningGroup, 0, 4}, {kGroup, 2001, 2}, {kMask, 0, 7}, {kOther, 0, 1}};
  EXPECT_THAT(Shown({acl, {}}), testing::ElementsAre("A:OWNER@:rwx", "A:GROUP@:r", "A:g2001:w", "D:GROUP@:x",
                                                     "D:g2001:x", "A:EVERYONE@:x"));
}

TEST(AclToNfs, ADefaultListBecomesInheritedEntries) {
  const auto lines = Shown({fs::AclOfMode(0755), fs::AclOfMode(0700)}, true);
  EXPECT_THAT(lines, testing::ElementsAre("A:OWNER@:rwx", "A:GROUP@:rx", "A:EVERYONE@:rx", "inherited A:OWNER@:rwx",
                                          "inherited A:GROUP@:", "inherited A:EVERYONE@:"));
}

TEST(AclToNfs, WritePermissionOnADirectoryIncludesDeleteChild) {
  EXPECT_TRUE(ToNfs({fs::AclOfMode(0700), {}}, true)[0].mask & ACE4_DELETE_CHILD);
  EXPECT_FALSE(ToNfs({fs::AclOfMode(0700), {}}, false)[0].mask & ACE4_DELETE_CHILD);
}

// --- From NFSv4 lists to POSIX lists

TEST(AclFromNfs, PreservesAListThatToNfsMade) {
  const fs::Acl masked{{kOwner, 0, 6},    {kUser, 1003, 5}, {kUser, 1004, 0}, {kOwningGroup, 0, 4},
                       {kGroup, 2001, 2}, {kMask, 0, 7},    {kOther, 0, 1}};
  for (const bool directory : {false, true}) {
    EXPECT_EQ(AccessOf(ToNfs({masked, {}}, directory), directory), masked);
    for (uint32_t mode = 0; mode <= 0777; ++mode) {
      ASSERT_EQ(AccessOf(ToNfs({fs::AclOfMode(mode), {}}, directory), directory), fs::AclOfMode(mode)) << mode;
    }
  }
}

TEST(AclFromNfs, TheFirstEntryThatNamesAPermissionDecides) {
  EXPECT_EQ(AccessOf({Deny(kOwnerWho, kWrite), Allow(kOwnerWho, kRead | kWrite)}), fs::AclOfMode(0400));
  EXPECT_EQ(AccessOf({Allow(kOwnerWho, kWrite), Deny(kOwnerWho, kRead | kWrite)}), fs::AclOfMode(0200));
}

TEST(AclFromNfs, EveryoneIncludesOwnerAndGroup) {
  EXPECT_EQ(AccessOf({Allow(kEveryoneWho, kRead)}), fs::AclOfMode(0444));
  EXPECT_EQ(AccessOf({Deny(kGroupWho, kRead), Allow(kEveryoneWho, kRead)}), fs::AclOfMode(0004))
      << "the owner may be in the group";
}

TEST(AclFromNfs, EveryoneIncludesUsersThatLaterEntriesName) {
  const fs::Acl acl = AccessOf({Allow(kEveryoneWho, kRead), Allow(User(1003), kExecute)});
  EXPECT_EQ(acl[1], (fs::AclEntry{kUser, 1003, 5}));
}

TEST(AclFromNfs, ADenyEntryOfAGroupAppliesToAllPossibleMembers) {
  const fs::Acl acl = AccessOf({Allow(kOwnerWho, kRead), Deny(Group(2001), kExecute), Allow(User(1003), kExecute),
                                Allow(kEveryoneWho, kExecute)});
  EXPECT_EQ(
      acl,
      (fs::Acl{
          {kOwner, 0, 4}, {kUser, 1003, 0}, {kOwningGroup, 0, 0}, {kGroup, 2001, 0}, {kMask, 0, 0}, {kOther, 0, 1}}));
}

TEST(AclFromNfs, APermissionRequiresAllRightsOfItsMask) {
  EXPECT_EQ(AccessOf({Allow(kOwnerWho, ACE4_WRITE_DATA)}), fs::AclOfMode(0));
  EXPECT_EQ(AccessOf({Allow(kOwnerWho, ACE4_WRITE_DATA), Allow(kOwnerWho, ACE4_APPEND_DATA)}), fs::AclOfMode(0200));
  EXPECT_EQ(AccessOf({Allow(kOwnerWho, kWrite)}, true), fs::AclOfMode(0))
      << "for a directory, write permission includes the right to delete children";
}

TEST(AclFromNfs, AnEmptyListAllowsNothing) { EXPECT_EQ(AccessOf({}), fs::AclOfMode(0)); }

TEST(AclFromNfs, InheritableEntriesOfADirectoryBecomeItsDefaultList) {
  const auto acls = FromNfs({Allow(kOwnerWho, kRead, ACE4_FILE_INHERIT_ACE),
                             Allow(kOwnerWho, kExecute, ACE4_DIRECTORY_INHERIT_ACE | ACE4_INHERIT_ONLY_ACE)},
                            true);
  ASSERT_TRUE(acls);
  EXPECT_EQ(acls->access, fs::AclOfMode(0400));
  EXPECT_EQ(acls->defaults, fs::AclOfMode(0500));
  EXPECT_EQ(FromNfs({Allow(kOwnerWho, kRead)}, true)->defaults, fs::Acl());
}

TEST(AclFromNfs, RejectsInheritableEntriesOfAFile) {
  EXPECT_EQ(FromNfs({Allow(kOwnerWho, kRead, ACE4_FILE_INHERIT_ACE)}, false).error(), NFS4ERR_INVAL);
  EXPECT_FALSE(FromNfs({Allow(kOwnerWho, kRead)}, false)->defaults);
}

// --- What a POSIX list cannot express

TEST(AclIsExact, ForListsThatToNfsMade) {
  const fs::Acl masked{{kOwner, 0, 6},    {kUser, 1003, 5}, {kUser, 1004, 0}, {kOwningGroup, 0, 4},
                       {kGroup, 2001, 2}, {kMask, 0, 3},    {kOther, 0, 1}};
  EXPECT_TRUE(IsExactInPosix(ToNfs({masked, {}}, false), false));
  EXPECT_TRUE(IsExactInPosix(ToNfs({masked, masked}, true), true));
  for (uint32_t mode = 0; mode <= 0777; ++mode) {
    ASSERT_TRUE(IsExactInPosix(ToNfs({fs::AclOfMode(mode), {}}, true), true)) << mode;
  }
}

TEST(AclIsExact, NotIfARightIsLost) {
  EXPECT_TRUE(IsExactInPosix({Allow(kEveryoneWho, kRead)}, false));
  EXPECT_FALSE(IsExactInPosix({Allow(kEveryoneWho, ACE4_WRITE_DATA)}, false)) << "a file that can only be overwritten";
  EXPECT_FALSE(IsExactInPosix({Allow(User(1003), kRead | ACE4_WRITE_ACL)}, false));
  EXPECT_TRUE(IsExactInPosix({Allow(kOwnerWho, kRead | ACE4_WRITE_ACL | ACE4_WRITE_OWNER)}, false));
  // A member of the group who is user 1003 may execute the file.
  EXPECT_FALSE(IsExactInPosix({Deny(Group(2001), kExecute), Allow(User(1003), kExecute)}, false));
  EXPECT_FALSE(IsExactInPosix({Allow(User(1003), kRead), Allow(Group(2001), kExecute)}, false));
}

TEST(AclIsExact, NotIfOnlySomeChildrenInherit) {
  constexpr uint32_t kBoth = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE;
  EXPECT_TRUE(IsExactInPosix({Allow(kEveryoneWho, kRead, kBoth)}, true));
  EXPECT_FALSE(IsExactInPosix({Allow(kEveryoneWho, kRead, ACE4_FILE_INHERIT_ACE)}, true));
  EXPECT_FALSE(IsExactInPosix({Allow(kEveryoneWho, kRead, kBoth | ACE4_NO_PROPAGATE_INHERIT_ACE)}, true));
}

}  // namespace
}  // namespace penstock::nfs_protocol
