// Tests the encoding of NFS version 2 (RFC 1094) and its DDP-eligible items (RFC 8267 §4).
#include "protocol/nfs2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "encoding_test.h"
#include "xdr/testing.h"
#include "xdr/xdr.h"

namespace penstock::nfs2 {
namespace {

using ::testing::ElementsAre;
using xdr::testing::Encoded;
using xdr::testing::Octets;

class Nfs2 : public EncodingTest {};

fhandle Handle() {
  fhandle handle{};
  handle[0] = std::byte{0x81};
  handle[31] = std::byte{0x7f};
  return handle;
}
const std::string kHandle = "81000000 00000000 00000000 00000000 00000000 00000000 00000000 0000007f";

// A handle has a fixed length, so no length stands before it.
TEST_F(Nfs2, EncodesAReadCall) {
  const readargs args{.file = Handle(), .offset = 0x1000, .count = 8192, .totalcount = 0};
  ExpectEncoding(args, kHandle + " 00001000 00002000 00000000");
}

TEST_F(Nfs2, EncodesAWriteCall) {
  const writeargs args{.file = Handle(),
                       .beginoffset = 1,
                       .offset = 2,
                       .totalcount = 3,
                       .data = xdr::Payload<NFS_MAXDATA>::Borrowed("abcde")};
  ExpectEncoding(args, kHandle + " 00000001 00000002 00000003 00000005 61626364 65000000");
}

TEST_F(Nfs2, EncodesAttributes) {
  const fattr attributes{.type = NFREG,
                         .mode = 0100644,
                         .nlink = 1,
                         .uid = 2,
                         .gid = 3,
                         .size = 4,
                         .blocksize = 5,
                         .rdev = 6,
                         .blocks = 7,
                         .fsid = 8,
                         .fileid = 9,
                         .atime = {10, 11},
                         .mtime = {12, 13},
                         .ctime = {14, 15}};
  ExpectEncoding(attributes,
                 "00000001 000081a4 00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008 00000009 "
                 "0000000a 0000000b 0000000c 0000000d 0000000e 0000000f");
}

TEST_F(Nfs2, EncodesADirectory) {
  readdirres result(NFS_OK);
  result.ok().entries = {{.fileid = 1, .name = ".", .cookie = 2}};
  result.ok().eof = true;
  ExpectEncoding(result, "00000000 00000001 00000001 00000001 2e000000 00000002 00000000 00000001");
}

TEST_F(Nfs2, AFailedProcedureHasOnlyAStatus) {
  ExpectEncoding(attrstat(NFSERR_STALE), "00000046");
  ExpectEncoding(readres(NFSERR_ACCES), "0000000d");
  ExpectEncoding(NFSERR_WFLUSH, "00000063");
}

// RFC 8267 §4: the data of READ and WRITE, and the paths of READLINK and SYMLINK.
TEST_F(Nfs2, DdpEligibleProceduresAreThoseOfRfc8267) {
  std::vector<std::string_view> arguments;
  std::vector<std::string_view> results;
  NFS_VERSION_procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
    const auto in_arguments = xdr::kExtent<typename Procedure::Arguments>.payloads;
    const auto in_results = xdr::kExtent<typename Procedure::Results>.payloads;
    EXPECT_LE(in_arguments + in_results, 1u) << Procedure::kName;
    if (in_arguments) arguments.push_back(Procedure::kName);
    if (in_results) results.push_back(Procedure::kName);
  });
  EXPECT_THAT(arguments, ElementsAre("NFSPROC_WRITE", "NFSPROC_SYMLINK"));
  EXPECT_THAT(results, ElementsAre("NFSPROC_READLINK", "NFSPROC_READ"));
}

TEST_F(Nfs2, ProcedureNumbersHaveNoGaps) {
  uint32_t expected = 0;
  NFS_VERSION_procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
    EXPECT_EQ(Procedure::kNumber, expected++);
    EXPECT_EQ(Procedure::kProgram, 100003u);
    EXPECT_EQ(Procedure::kVersion, 2u);
  });
  EXPECT_EQ(expected, 18u);
}

// RFC 1094 §3.5
TEST_F(Nfs2, RejectsWhatIsLongerThanTheProtocolPermits) {
  const auto name_of = [](const std::string& name) { return diropargs{.dir = Handle(), .name = name}; };
  EXPECT_TRUE(xdr::DecodeWhole<diropargs>(Encoded(pool_, name_of(std::string(255, 'n')))));
  const std::string long_name = kHandle + " 00000100" + std::string(512, '6');
  EXPECT_FALSE(xdr::DecodeWhole<diropargs>(xdr::Message::Whole(Octets(pool_, long_name))));
  const std::string long_data = kHandle + " 00000000 00000000 00000000 00002004" + std::string(16392, '6');
  EXPECT_FALSE(xdr::DecodeWhole<writeargs>(xdr::Message::Whole(Octets(pool_, long_data))));
  const std::string long_path = kHandle + " 00000001 6e000000 00000404" + std::string(2056, '6') + std::string(64, '0');
  EXPECT_FALSE(xdr::DecodeWhole<symlinkargs>(xdr::Message::Whole(Octets(pool_, long_path))));
}

TEST_F(Nfs2, RoundTripsTheDefaultOfEachProcedure) {
  const auto expect_round_trip = [&]<class T>(std::type_identity<T>, std::string_view name) {
    const T value{};
    const xdr::Message message = Encoded(pool_, value);
    EXPECT_EQ(message.flat_size(), xdr::EncodedSize(value)) << name;
    EXPECT_EQ(xdr::DecodeWhole<T>(message), value) << name;
  };
  NFS_VERSION_procedures::ForEach([&]<class Procedure>(std::type_identity<Procedure>) {
    expect_round_trip(std::type_identity<typename Procedure::Arguments>(), Procedure::kName);
    expect_round_trip(std::type_identity<typename Procedure::Results>(), Procedure::kName);
  });
}

TEST_F(Nfs2, RejectsAnUndefinedStatus) {
  const auto result = xdr::DecodeWhole<attrstat>(xdr::Message::Whole(Octets(pool_, "00000016")));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), xdr::Error::kBadEnum);
}

}  // namespace
}  // namespace penstock::nfs2
