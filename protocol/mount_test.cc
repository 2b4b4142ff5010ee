// Tests the encoding of MOUNT version 3 (RFC 1813 appendix I).
#include "protocol/mount.h"

#include <gtest/gtest.h>

#include "encoding_test.h"
#include "xdr/xdr.h"

namespace penstock::mount3 {
namespace {

class Mount : public EncodingTest {};

TEST_F(Mount, EncodesAHandleAndItsFlavors) {
  mountres3 result(MNT3_OK);
  result.mountinfo().fhandle.Assign(AsBytes("fh"));
  result.mountinfo().auth_flavors = {1, 0};
  ExpectEncoding(result, "00000000 00000002 66680000 00000002 00000001 00000000");
  ExpectEncoding(mountres3(MNT3ERR_ACCES), "0000000d");
}

TEST_F(Mount, EncodesExportsAsAListOfLists) {
  exports list(2);
  list[0].ex_dir = "/a";
  list[0].ex_groups = {{.gr_name = "h"}};
  list[1].ex_dir = "/b";
  ExpectEncoding(list,
                 "00000001 00000002 2f610000 00000001 00000001 68000000 00000000 "
                 "00000001 00000002 2f620000 00000000 "
                 "00000000");
}

TEST_F(Mount, NoItemIsDdpEligible) {
  MOUNT_V3_procedures::ForEach([]<class Procedure>(std::type_identity<Procedure>) {
    EXPECT_EQ(xdr::kExtent<typename Procedure::Arguments>.payloads, 0u) << Procedure::kName;
    EXPECT_EQ(xdr::kExtent<typename Procedure::Results>.payloads, 0u) << Procedure::kName;
  });
}

}  // namespace
}  // namespace penstock::mount3
