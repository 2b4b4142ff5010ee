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

constexpr uint32_t kRead = ACE4_READ_DATA;
constexpr Trustee kGroupWho{Kind::kOwningGroup, 0};
constexpr Trustee User(uint32_t id) { return {Kind::kUser, id}; }
constexpr Trustee Group(uint32_t id) { return {Kind::kGroup, id}; }

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
