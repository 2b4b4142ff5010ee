#include "fs/acl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::fs {
namespace {

using enum AclTag;

// owner rw-, user 1001 r-x, owning group r--, group 2001 -w-, mask rw-, other ---
const Acl kAcl = {{kOwner, 0, 6},    {kUser, 1001, 5}, {kOwningGroup, 0, 4},
                  {kGroup, 2001, 2}, {kMask, 0, 6},    {kOther, 0, 0}};

Attributes OwnedBy(uint32_t uid, uint32_t gid) {
  Attributes attributes;
  attributes.uid = uid;
  attributes.gid = gid;
  attributes.mode = ModeOfAcl(kAcl);
  return attributes;
}

// The rights as text: "rwx", without the letters of the rights that are missing.
std::string RightsFor(uint32_t uid, uint32_t gid, std::vector<uint32_t> groups = {}) {
  const Rights rights = RightsOf(kAcl, OwnedBy(1000, 2000), Credentials{uid, gid, groups});
  return std::string(rights.read ? "r" : "") + (rights.write ? "w" : "") + (rights.execute ? "x" : "");
}

TEST(Acl, MinimalListCorrespondsToAMode) {
  EXPECT_TRUE(IsValid(AclOfMode(0754)));
  EXPECT_TRUE(IsMinimal(AclOfMode(0754)));
  EXPECT_EQ(ModeOfAcl(AclOfMode(0754)), 0754u);
}

TEST(Acl, MaskIsTheGroupBitsOfTheMode) { EXPECT_EQ(ModeOfAcl(kAcl), 0660u); }

TEST(Acl, RequiresAMaskForNamedEntries) {
  EXPECT_TRUE(IsValid(kAcl));
  Acl acl = kAcl;
  std::erase_if(acl, [](const AclEntry& entry) { return entry.tag == kMask; });
  EXPECT_FALSE(IsValid(acl));
}

TEST(Acl, RejectsDuplicateMissingAndUnsortedEntries) {
  for (size_t i = 0; i < kAcl.size(); ++i) {
    Acl twice = kAcl;
    twice.insert(twice.begin() + static_cast<ptrdiff_t>(i), kAcl[i]);
    EXPECT_FALSE(IsValid(twice)) << i;
    Acl turned = kAcl;
    std::swap(turned[i], turned[(i + 1) % kAcl.size()]);
    EXPECT_FALSE(IsValid(turned)) << i;
  }
  for (const AclTag tag : {kOwner, kOwningGroup, kOther}) {
    Acl without = kAcl;
    std::erase_if(without, [&](const AclEntry& entry) { return entry.tag == tag; });
    EXPECT_FALSE(IsValid(without));
  }
  EXPECT_FALSE(IsValid({}));
}

TEST(Acl, RejectsUnknownPermissions) {
  Acl acl = kAcl;
  acl[0].permissions = 8;
  EXPECT_FALSE(IsValid(acl));
}

TEST(Acl, MaskDoesNotLimitTheOwner) { EXPECT_EQ(RightsFor(1000, 1), "rw"); }
TEST(Acl, MaskLimitsNamedUsers) { EXPECT_EQ(RightsFor(1001, 2000), "r"); }
TEST(Acl, MemberOfSeveralGroupsHasTheRightsOfAllOfThem) {
  EXPECT_EQ(RightsFor(1002, 2000), "r");
  EXPECT_EQ(RightsFor(1002, 1, {2001}), "w");
  EXPECT_EQ(RightsFor(1002, 2000, {2001}), "rw");
}
TEST(Acl, CallerThatNoEntryMatchesHasTheRightsOfOthers) { EXPECT_EQ(RightsFor(1002, 1), ""); }
TEST(Acl, RootMayReadAndWriteDespiteTheList) { EXPECT_EQ(RightsFor(0, 0), "rw"); }

TEST(Acl, ChangeOfModeChangesTheMask) {
  Acl acl = kAcl;
  SetMode(acl, 0707);
  EXPECT_EQ(ModeOfAcl(acl), 0707u);
  EXPECT_EQ(acl[2], kAcl[2]) << "not the owning group's entry";
  Acl minimal = AclOfMode(0644);
  SetMode(minimal, 0600);
  EXPECT_EQ(minimal, AclOfMode(0600));
}

TEST(Acl, InheritedListIsLimitedByTheRequestedMode) {
  EXPECT_EQ(ModeOfAcl(Inherit(kAcl, 0777)), 0660u);
  EXPECT_EQ(ModeOfAcl(Inherit(kAcl, 0640)), 0640u);
  EXPECT_EQ(Inherit(kAcl, 0640)[1], kAcl[1]) << "the mask is limited, not each entry";
}

}  // namespace
}  // namespace penstock::fs
