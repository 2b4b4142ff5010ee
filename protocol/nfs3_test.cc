// Tests the encoding of NFS version 3 (RFC 1813) and its DDP-eligible items (RFC 8267 §4).
#include "protocol/nfs3.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "encoding_test.h"
#include "xdr/testing.h"
#include "xdr/xdr.h"

namespace penstock::nfs3 {
namespace {

using ::testing::ElementsAre;
using xdr::testing::Encoded;
using xdr::testing::Octets;

class Nfs3 : public EncodingTest {};

TEST_F(Nfs3, EncodesAReadCall) {
  READ3args args{.offset = 0x100000000, .count = 0x1000};
  args.file.data.Assign(AsBytes("handle"));
  ExpectEncoding(args, "00000006 68616e64 6c650000 00000001 00000000 00001000");
}

TEST_F(Nfs3, EncodesAReadReply) {
  const READ3res read(NFS3_OK, READ3resok{.count = 3, .eof = true, .data = xdr::Payload<>::Borrowed("abc")});
  ExpectEncoding(read, "00000000 00000000 00000003 00000001 00000003 61626300");
  ExpectEncoding(READ3res(NFS3ERR_STALE), "00000046 00000000");
}

TEST_F(Nfs3, EncodesAttributes) {
  fattr3 attributes{.type = NF3DIR, .mode = 0755, .nlink = 2, .uid = 3, .gid = 4, .size = 5, .used = 6};
  attributes.rdev = {7, 8};
  attributes.fsid = 9;
  attributes.fileid = 10;
  attributes.atime = {11, 12};
  attributes.mtime = {13, 14};
  attributes.ctime = {15, 16};
  ExpectEncoding(attributes,
                 "00000002 000001ed 00000002 00000003 00000004 00000000 00000005 00000000 00000006 00000007 00000008 "
                 "00000000 00000009 00000000 0000000a 0000000b 0000000c 0000000d 0000000e 0000000f 00000010");
}

TEST_F(Nfs3, SetattrEncodesUnsetAttributesAsAbsent) {
  sattr3 attributes;
  attributes.size = 0;
  attributes.mtime = set_mtime(SET_TO_CLIENT_TIME, nfstime3{1, 2});
  ExpectEncoding(attributes,
                 "00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000002 00000001 00000002");
}

TEST_F(Nfs3, EncodesADirectory) {
  READDIR3res result(NFS3_OK);
  result.resok().reply.entries = {{.fileid = 1, .name = ".", .cookie = 2}};
  result.resok().reply.eof = true;
  ExpectEncoding(result,
                 "00000000 00000000 00000000 00000000 "
                 "00000001 00000000 00000001 00000001 2e000000 00000000 00000002 "
                 "00000000 00000001");
}

TEST_F(Nfs3, DdpEligibleProceduresAreThoseOfRfc8267) {
  std::vector<std::string_view> arguments;
  std::vector<std::string_view> results;
  NFS_V3_procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
    if (xdr::kExtent<typename Procedure::Arguments>.payloads) arguments.push_back(Procedure::kName);
    if (xdr::kExtent<typename Procedure::Results>.payloads) results.push_back(Procedure::kName);
  });
  EXPECT_THAT(arguments, ElementsAre("NFSPROC3_WRITE", "NFSPROC3_SYMLINK"));
  EXPECT_THAT(results, ElementsAre("NFSPROC3_READLINK", "NFSPROC3_READ"));
}

TEST_F(Nfs3, ProcedureNumbersHaveNoGaps) {
  uint32_t expected = 0;
  NFS_V3_procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
    EXPECT_EQ(Procedure::kNumber, expected++);
    EXPECT_EQ(XdrName(static_cast<NFS_V3_procedure>(Procedure::kNumber)), Procedure::kName);
    EXPECT_EQ(Procedure::kProgram, 100003u);
    EXPECT_EQ(Procedure::kVersion, 3u);
  });
  EXPECT_EQ(expected, 22u);
  EXPECT_TRUE(XdrName(static_cast<NFS_V3_procedure>(22)).empty());
}

// RFC 8267 §3: a client estimates the largest reply. It adds payloads and directory entries itself.
TEST_F(Nfs3, ComputesTheLargestReplyFromTheTypes) {
  EXPECT_EQ(xdr::MaxSize<READ3res>(), 4u + 88 + 4 + 4 + 4);
  EXPECT_EQ(xdr::MaxSize<LOOKUP3res>(), 4u + 68 + 88 + 88);
  EXPECT_FALSE(xdr::kExtent<LOOKUP3res>.open);
  EXPECT_TRUE(xdr::kExtent<READDIRPLUS3res>.open);
}

TEST_F(Nfs3, RoundTripsTheDefaultOfEachProcedure) {
  const auto expect_round_trip = [&]<class T>(std::type_identity<T>, std::string_view name) {
    const T value;
    const xdr::Message message = Encoded(pool_, value);
    EXPECT_EQ(message.flat_size(), xdr::EncodedSize(value)) << name;
    EXPECT_EQ(xdr::DecodeWhole<T>(message), value) << name;
    EXPECT_FALSE(xdr::Print(value).empty()) << name;
  };
  NFS_V3_procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
    expect_round_trip(std::type_identity<typename Procedure::Arguments>(), Procedure::kName);
    expect_round_trip(std::type_identity<typename Procedure::Results>(), Procedure::kName);
  });
}

TEST_F(Nfs3, RejectsAnUndefinedStatus) {
  const auto result = xdr::DecodeWhole<GETATTR3res>(xdr::Message::Whole(Octets(pool_, "00000003")));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), xdr::Error::kBadEnum);
}

}  // namespace
}  // namespace penstock::nfs3
