// Tests the encoding of MOUNT versions 1 and 2 (RFC 1094 appendix A).
#include "protocol/mount1.h"

#include <gtest/gtest.h>

#include <string>

#include "encoding_test.h"
#include "protocol/mount.h"
#include "xdr/testing.h"
#include "xdr/xdr.h"

namespace penstock::mount1 {
namespace {

using xdr::testing::EncodedHex;

class Mount1 : public EncodingTest {};

TEST_F(Mount1, EncodesAHandleWithoutALength) {
  fhandle handle{};
  handle[0] = std::byte{0x81};
  ExpectEncoding(fhstatus(0, handle),
                 "00000000 81000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000");
}

// The status may be any UNIX error number.
TEST_F(Mount1, EncodesAnErrorNumber) {
  ExpectEncoding(fhstatus(13), "0000000d");
  ExpectEncoding(fhstatus(95), "0000005f");
}

// Short integers and octets take four octets each.
TEST_F(Mount1, EncodesTheLimitsOfPaths) {
  const ppathcnf limits{.link_max = 1,
                        .max_canon = 2,
                        .max_input = 3,
                        .name_max = 4,
                        .path_max = 5,
                        .pipe_buf = 6,
                        .vdisable = 7,
                        .alignment = 8,
                        .mask = {9, 10}};
  ExpectEncoding(limits, "00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008 00000009 0000000a");
}

// One implementation serves these procedures of all versions.
TEST_F(Mount1, ListsHaveTheEncodingOfVersion3) {
  mountlist mounts(1);
  mounts[0].hostname = "host";
  mounts[0].directory = "/d";
  mount3::mountlist mounts3(1);
  mounts3[0].ml_hostname = "host";
  mounts3[0].ml_directory = "/d";
  EXPECT_EQ(EncodedHex(pool_, mounts), EncodedHex(pool_, mounts3));
  exportlist exports(1);
  exports[0].filesys = "/d";
  exports[0].members = {{.grname = "h"}};
  mount3::exports exports3(1);
  exports3[0].ex_dir = "/d";
  exports3[0].ex_groups = {{.gr_name = "h"}};
  EXPECT_EQ(EncodedHex(pool_, exports), EncodedHex(pool_, exports3));
}

TEST_F(Mount1, NoItemIsDdpEligible) {
  const auto check = []<class Procedure>(std::type_identity<Procedure>) {
    EXPECT_EQ(xdr::kExtent<typename Procedure::Arguments>.payloads, 0u) << Procedure::kName;
    EXPECT_EQ(xdr::kExtent<typename Procedure::Results>.payloads, 0u) << Procedure::kName;
  };
  MOUNT_V1_procedures::ForEach(check);
  MOUNT_V2_procedures::ForEach(check);
}

}  // namespace
}  // namespace penstock::mount1
