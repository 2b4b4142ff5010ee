#include "nfs/v4/attributes/acl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nfs/test_server.h"
#include "nfs/v4/attributes/owner_texts.h"
#include "xdr/message.h"

namespace penstock::nfs::v4 {
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

// --- The attribute

class AclAttributeTest : public testing::Test {
 protected:
  // Encodes a list.
  xdr::Message Encoded(const std::vector<nfsace4>& entries) {
    xdr::Encoder encoder(buffers_);
    encoder.Length(entries.size());
    for (const nfsace4& entry : entries) {
      encoder.U32(entry.type);
      encoder.U32(entry.flag);
      encoder.U32(entry.access_mask);
      encoder.String(entry.who);
    }
    return encoder.Finish();
  }
  Result<std::vector<AccessControlEntry>, nfsstat4> Decoded(const xdr::Message& message) {
    xdr::Decoder decoder(message);
    std::vector<GivenEntry> given;
    if (const nfsstat4 status = DecodeAcl(decoder, given); status != NFS4_OK) return std::unexpected(status);
    return Now(FindIds(owners_, std::move(given)));
  }
  nfsstat4 Refusal(const nfsace4& entry) {
    const auto decoded = Decoded(Encoded({entry}));
    return decoded ? NFS4_OK : decoded.error();
  }

  BufferPool buffers_;
  OwnerTexts owners_;
};

TEST_F(AclAttributeTest, DecodesAnEncodedList) {
  const fs::Acls acls{
      {{kOwner, 0, 6}, {kUser, 1003, 5}, {kOwningGroup, 0, 4}, {kGroup, 2001, 2}, {kMask, 0, 7}, {kOther, 0, 1}},
      fs::AclOfMode(0750)};
  xdr::Encoder encoder(buffers_);
  EncodeAcl(encoder, acls, true, owners_);
  EXPECT_EQ(Decoded(encoder.Finish()), ToNfs(acls, true));
}

TEST_F(AclAttributeTest, TheIdentifierGroupFlagMarksAGroup) {
  EXPECT_EQ((*Decoded(Encoded({{0, 0, kRead, "1003"}})))[0].who, User(1003));
  EXPECT_EQ((*Decoded(Encoded({{0, ACE4_IDENTIFIER_GROUP, kRead, "1003"}})))[0].who, Group(1003));
  EXPECT_EQ((*Decoded(Encoded({{0, ACE4_IDENTIFIER_GROUP, kRead, "GROUP@"}})))[0].who, kGroupWho);
}

TEST_F(AclAttributeTest, RejectsUnsupportedEntries) {
  EXPECT_EQ(Refusal({ACE4_SYSTEM_AUDIT_ACE_TYPE, 0, kRead, "OWNER@"}), NFS4ERR_ATTRNOTSUPP);
  EXPECT_EQ(Refusal({0, ACE4_FILE_INHERIT_ACE | ACE4_NO_PROPAGATE_INHERIT_ACE, kRead, "OWNER@"}), NFS4ERR_ATTRNOTSUPP);
  EXPECT_EQ(Refusal({7, 0, kRead, "OWNER@"}), NFS4ERR_INVAL);
  EXPECT_EQ(Refusal({0, 0x1000, kRead, "OWNER@"}), NFS4ERR_INVAL);
  EXPECT_EQ(Refusal({0, 0, 0x80000000, "OWNER@"}), NFS4ERR_INVAL);
  EXPECT_EQ(Refusal({0, 0, kRead, "\xff"}), NFS4ERR_INVAL);
  EXPECT_EQ(Refusal({0, 0, kRead, "nobody we know"}), NFS4ERR_BADOWNER);
  EXPECT_EQ(Refusal({0, 0, kRead, "NETWORK@"}), NFS4ERR_BADOWNER);
}

TEST_F(AclAttributeTest, RejectsATruncatedList) {
  const xdr::Message whole = Encoded({{0, 0, kRead, "OWNER@"}, {0, 0, kRead, "GROUP@"}});
  for (size_t size = 0; size < whole.stream.size(); size += 4) {
    const xdr::Message cut = xdr::Message::Whole(whole.stream.Sub(0, size));
    EXPECT_EQ(Decoded(cut).error(), NFS4ERR_BADXDR) << size;
  }
}

TEST_F(AclAttributeTest, LimitsTheNumberOfEntries) {
  EXPECT_EQ(Decoded(Encoded(std::vector<nfsace4>(1025, {0, 0, kRead, "OWNER@"}))).error(), NFS4ERR_INVAL);
  EXPECT_TRUE(Decoded(Encoded(std::vector<nfsace4>(1024, {0, 0, kRead, "OWNER@"}))));
}

}  // namespace
}  // namespace penstock::nfs::v4
