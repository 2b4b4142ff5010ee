#include "cli/acl_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/nfs4.h"
#include "protocol/nfsacl.h"

namespace penstock::cli {
namespace {

using client::Ace;
using client::PosixAce;
using testing::ElementsAre;

TEST(AclText, WritesAndReadsEntriesOfVersion4) {
  for (const char* text : {"A::OWNER@:rwatTnNcCoy", "A:g:GROUP@:rxtncy", "D:fdi:ann@example.org:w", "U:SF:EVERYONE@:Dd",
                           "A::1000:r", "L:n:bob@example.org:"}) {
    const auto ace = ParseAce(text);
    ASSERT_TRUE(ace) << text;
    EXPECT_EQ(AceText(*ace), text);
  }
  EXPECT_EQ(ParseAce("D:fd:ann@example.org:w"),
            (Ace{nfs4::ACE4_ACCESS_DENIED_ACE_TYPE, nfs4::ACE4_FILE_INHERIT_ACE | nfs4::ACE4_DIRECTORY_INHERIT_ACE,
                 nfs4::ACE4_WRITE_DATA, "ann@example.org"}));
}

TEST(AclText, LettersInCapitalsStandForGroupsOfPermissions) {
  EXPECT_EQ(AceText(*ParseAce("A::OWNER@:RX")), "A::OWNER@:rxtncy");
  EXPECT_EQ(AceText(*ParseAce("A::OWNER@:W")), "A::OWNER@:watTNcCy");
}

TEST(AclText, TheGroupOfTheFileIsAGroup) { EXPECT_EQ(AceText(*ParseAce("A::GROUP@:r")), "A:g:GROUP@:r"); }

TEST(AclText, ListsHaveCommentsAndSeveralSeparators) {
  const auto aces = ParseAces("# file: /a\nA::OWNER@:r\n\nA::1:w,D::2:x");
  ASSERT_TRUE(aces);
  EXPECT_EQ(aces->size(), 3u);
  EXPECT_EQ(ParseAces("A::1:w,nonsense").error(), "nonsense");
}

TEST(AclText, RejectsOtherEntries) {
  for (const char* text :
       {"", "A", "A::OWNER@", "Q::OWNER@:r", "A:q:OWNER@:r", "A::OWNER@:q", "A::OWNER@:r:x", "A:::r"}) {
    EXPECT_FALSE(ParseAce(text)) << text;
  }
}

TEST(AclText, ReadsEntriesOfPosix) {
  const auto aces = ParsePosixAces("u::rwx,user:ann:r-x,g::5\nd:g:staff:rw #effective:r--\nm::r,o:-");
  ASSERT_TRUE(aces) << aces.error();
  ASSERT_EQ(aces->size(), 6u);
  const auto is = [&](size_t at, bool is_default, uint32_t type, std::string_view name, uint32_t permissions) {
    const NamedPosixAce& ace = (*aces)[at];
    EXPECT_EQ(ace.is_default, is_default) << at;
    EXPECT_EQ(ace.type, type) << at;
    EXPECT_EQ(ace.name, name) << at;
    EXPECT_EQ(ace.permissions, permissions) << at;
  };
  is(0, false, nfsacl::NA_USER_OBJ, "", 7);
  is(1, false, nfsacl::NA_USER, "ann", 5);
  is(2, false, nfsacl::NA_GROUP_OBJ, "", 5);
  is(3, true, nfsacl::NA_GROUP, "staff", 6);
  is(4, false, nfsacl::NA_CLASS_OBJ, "", 4);
  is(5, false, nfsacl::NA_OTHER_OBJ, "", 0);
  EXPECT_EQ(ParsePosixAces("u:ann")->front().permissions, std::nullopt);
  for (const char* text : {"x::r", "u::q", "u:a:b:r", "mask:ann:r", "default", "u::"}) {
    EXPECT_FALSE(ParsePosixAces(text)) << text;
  }
}

TEST(AclText, TheMaskHoldsWhatNamedEntriesAndTheGroupHave) {
  std::vector<PosixAce> acl = PosixAclOfMode(0640);
  ComputeMask(acl);
  EXPECT_EQ(acl.size(), 3u) << "a list without named entries needs no mask";
  PutPosixAce(acl, {nfsacl::NA_USER, 1000, 2});
  PutPosixAce(acl, {nfsacl::NA_USER, 1000, 3});
  ComputeMask(acl);
  SortPosixAcl(acl);
  EXPECT_THAT(acl, ElementsAre(PosixAce{nfsacl::NA_USER_OBJ, 0, 6}, PosixAce{nfsacl::NA_USER, 1000, 3},
                               PosixAce{nfsacl::NA_GROUP_OBJ, 0, 4}, PosixAce{nfsacl::NA_CLASS_OBJ, 0, 7},
                               PosixAce{nfsacl::NA_OTHER_OBJ, 0, 0}));
  EXPECT_EQ(PosixAceText(acl[1], "ann"), "user:ann:-wx");
  EXPECT_EQ(PosixAceText(acl[3], ""), "mask::rwx");
}

}  // namespace
}  // namespace penstock::cli
