#include "nfs/acl/lists.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::nfs::acl {
namespace {

using namespace nfsacl;  // NOLINT: the protocol's own names
using fs::AclTag;

constexpr uint32_t kNoId = UINT32_MAX;

class ListsTest : public testing::Test {
 protected:
  ListsTest() {
    object_.uid = 17;
    object_.gid = 18;
  }
  static secattr Access(const std::vector<aclent>& entries) {
    secattr lists{.mask = NA_ACL};
    lists.aclcnt = static_cast<uint32_t>(entries.size());
    for (const aclent& each : entries) lists.access.push_back(each);
    return lists;
  }
  static std::optional<fs::Acl> AccessFrom(const std::vector<aclent>& entries) {
    const auto acls = FromSecurityAttributes(Access(entries));
    if (!acls) return std::nullopt;
    return acls->access;
  }

  fs::Attributes object_;
  const fs::Acl long_{{AclTag::kOwner, 0, 7},       {AclTag::kUser, 5, 6},  {AclTag::kUser, 9, 4},
                      {AclTag::kOwningGroup, 0, 5}, {AclTag::kGroup, 3, 1}, {AclTag::kMask, 0, 6},
                      {AclTag::kOther, 0, 0}};
};

TEST_F(ListsTest, ConvertsEachKindOfEntry) {
  const auto lists = ToSecurityAttributes({long_, {}}, object_, NA_ACL);
  ASSERT_TRUE(lists);
  const std::vector<aclent> expected{{0x1, 17, 7}, {0x2, 5, 6},  {0x2, 9, 4}, {0x4, 18, 5},
                                     {0x8, 3, 1},  {0x10, 0, 6}, {0x20, 0, 0}};
  EXPECT_EQ(std::vector(lists->access.begin(), lists->access.end()), expected);
  EXPECT_EQ(lists->aclcnt, 7u);
  EXPECT_EQ(FromSecurityAttributes(*lists)->access, long_);
}

TEST_F(ListsTest, MarksTheEntriesOfADefaultList) {
  const auto lists = ToSecurityAttributes({fs::AclOfMode(0), long_}, object_, NA_DFACL);
  ASSERT_TRUE(lists);
  for (const aclent& each : lists->defaults) EXPECT_TRUE(each.type & NA_ACL_DEFAULT) << each.type;
  EXPECT_EQ(lists->dfaclcnt, 7u);
  EXPECT_EQ(FromSecurityAttributes(*lists)->defaults, long_);
  EXPECT_FALSE(FromSecurityAttributes(*lists)->access);
}

TEST_F(ListsTest, AcceptsADefaultListWithoutMarks) {
  secattr lists{.mask = NA_DFACL};
  lists.dfaclcnt = 3;
  for (const aclent& each : {aclent{NA_USER_OBJ, 0, 7}, {NA_GROUP_OBJ, 0, 5}, {NA_OTHER_OBJ, 0, 0}}) {
    lists.defaults.push_back(each);
  }
  EXPECT_EQ(FromSecurityAttributes(lists)->defaults, fs::AclOfMode(0750));
}

TEST_F(ListsTest, AddsAMaskToAListOfThreeEntriesAndRemovesIt) {
  const auto lists = ToSecurityAttributes({fs::AclOfMode(0640), fs::AclOfMode(0751)}, object_, kAllParts);
  ASSERT_TRUE(lists);
  EXPECT_EQ(lists->aclcnt, 4u);
  EXPECT_EQ(lists->access[2], (aclent{NA_CLASS_OBJ, 0, 4}));
  EXPECT_EQ(lists->dfaclcnt, 4u);
  EXPECT_EQ(lists->defaults[2], (aclent{NA_CLASS_OBJ | NA_ACL_DEFAULT, 0, 5}));
  const auto back = FromSecurityAttributes(*lists);
  EXPECT_EQ(back->access, fs::AclOfMode(0640));
  EXPECT_EQ(back->defaults, fs::AclOfMode(0751));
}

TEST_F(ListsTest, KeepsAMaskThatLimitsTheOwningGroup) {
  const std::vector<aclent> entries{
      {NA_USER_OBJ, 0, 6}, {NA_GROUP_OBJ, 0, 6}, {NA_CLASS_OBJ, 0, 4}, {NA_OTHER_OBJ, 0, 0}};
  EXPECT_EQ(AccessFrom(entries)->size(), 4u);
}

TEST_F(ListsTest, KeepsAMaskBesideNamedUsers) {
  const std::vector<aclent> entries{
      {NA_USER_OBJ, 0, 6}, {NA_USER, 1, 6}, {NA_GROUP_OBJ, 0, 6}, {NA_CLASS_OBJ, 0, 6}, {NA_OTHER_OBJ, 0, 0}};
  EXPECT_EQ(AccessFrom(entries)->size(), 5u);
}

TEST_F(ListsTest, ReturnsOnlyTheRequestedParts) {
  const auto counts = ToSecurityAttributes({long_, long_}, object_, NA_ACLCNT | NA_DFACLCNT);
  EXPECT_EQ(counts->mask, NA_ACLCNT | NA_DFACLCNT);
  EXPECT_EQ(counts->aclcnt, 7u);
  EXPECT_EQ(counts->dfaclcnt, 7u);
  EXPECT_TRUE(counts->access.empty());
  EXPECT_TRUE(counts->defaults.empty());
  EXPECT_EQ(ToSecurityAttributes({long_, long_}, object_, 0), secattr{});
}

TEST_F(ListsTest, SortsEntries) {
  const std::vector<aclent> entries{{NA_OTHER_OBJ, 0, 0}, {NA_CLASS_OBJ, 0, 6},  {NA_GROUP, 3, 1},    {NA_USER, 9, 4},
                                    {NA_USER, 5, 6},      {NA_GROUP_OBJ, 18, 5}, {NA_USER_OBJ, 17, 7}};
  EXPECT_EQ(AccessFrom(entries), long_);
}

// Solaris may set other bits in a mask.
TEST_F(ListsTest, IgnoresUnknownRightsOfAMaskOnly) {
  std::vector<aclent> entries{
      {NA_USER_OBJ, 0, 6}, {NA_USER, 1, 6}, {NA_GROUP_OBJ, 0, 6}, {NA_CLASS_OBJ, 0, 0xff6}, {NA_OTHER_OBJ, 0, 0}};
  EXPECT_EQ(AccessFrom(entries)->at(3).permissions, 6u);
  entries[1].perm = 8;
  EXPECT_FALSE(AccessFrom(entries));
}

TEST_F(ListsTest, RejectsMalformedLists) {
  const aclent owner{NA_USER_OBJ, 0, 6}, group{NA_GROUP_OBJ, 0, 4}, other{NA_OTHER_OBJ, 0, 0};
  const aclent user{NA_USER, 1, 4}, mask{NA_CLASS_OBJ, 0, 7};
  EXPECT_TRUE(AccessFrom({owner, group, other}));
  EXPECT_FALSE(AccessFrom({})) << "an access list has entries";
  EXPECT_FALSE(AccessFrom({owner, group})) << "no entry of others";
  EXPECT_FALSE(AccessFrom({owner, owner, group, other})) << "two owners";
  EXPECT_FALSE(AccessFrom({owner, user, group, other})) << "no mask";
  EXPECT_FALSE(AccessFrom({owner, user, user, group, mask, other})) << "a user twice";
  EXPECT_FALSE(AccessFrom({owner, {NA_USER, kNoId, 4}, group, mask, other})) << "no user";
  EXPECT_FALSE(AccessFrom({owner, group, other, {0x40, 0, 4}})) << "an unknown type";
  EXPECT_FALSE(AccessFrom({owner, group, other, {0, 0, 4}})) << "no type";
  EXPECT_FALSE(AccessFrom({owner, group, {NA_OTHER_OBJ | NA_ACL_DEFAULT, 0, 0}})) << "an entry of a default list";
}

TEST_F(ListsTest, RejectsACountThatDiffersFromTheList) {
  secattr lists = Access({{NA_USER_OBJ, 0, 6}, {NA_GROUP_OBJ, 0, 4}, {NA_OTHER_OBJ, 0, 0}});
  lists.aclcnt = 4;
  EXPECT_FALSE(FromSecurityAttributes(lists));
  lists.mask = 0;
  EXPECT_TRUE(FromSecurityAttributes(lists)) << "a list without its bit does not count";
}

TEST_F(ListsTest, ReturnsNoListBeyondTheLimitOfTheProtocol) {
  fs::Acl acl = fs::AclOfMode(0);
  acl.insert(acl.begin() + 2, {AclTag::kMask, 0, 7});
  for (uint32_t id = 0; acl.size() < NFS_ACL_MAX_ENTRIES; ++id) acl.insert(acl.end() - 2, {AclTag::kGroup, id, 7});
  EXPECT_EQ(ToSecurityAttributes({acl, {}}, object_, NA_ACL)->access.size(), NFS_ACL_MAX_ENTRIES);
  acl.insert(acl.end() - 2, {AclTag::kGroup, 5000, 7});
  EXPECT_FALSE(ToSecurityAttributes({acl, {}}, object_, NA_ACL));
  EXPECT_FALSE(ToSecurityAttributes({acl, {}}, object_, NA_ACLCNT));
  EXPECT_FALSE(ToSecurityAttributes({fs::AclOfMode(0), acl}, object_, NA_DFACL));
  EXPECT_TRUE(ToSecurityAttributes({fs::AclOfMode(0), acl}, object_, NA_ACL));
}

}  // namespace
}  // namespace penstock::nfs::acl
