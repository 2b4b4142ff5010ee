// Tests the encoding of the port mapper's versions 2, 3 and 4 (RFC 1833).
#include "protocol/rpcb.h"

#include <gtest/gtest.h>

#include "encoding_test.h"
#include "xdr/xdr.h"

namespace penstock::pmap {
namespace {

class Rpcb : public EncodingTest {};

TEST_F(Rpcb, EncodesMappingsAsAList) {
  pmaplist list;
  list.push_back({{100003, 3, IPPROTO_TCP_NUMBER, 2049}});
  list.push_back({{100005, 3, IPPROTO_UDP_NUMBER, 20048}});
  ExpectEncoding(list,
                 "00000001 000186a3 00000003 00000006 00000801 "
                 "00000001 000186a5 00000003 00000011 00004e50 "
                 "00000000");
}

TEST_F(Rpcb, EncodesUniversalAddresses) {
  rpcblist list;
  list.push_back({{100003, 4, "tcp", "0.0.0.0.8.1", "0"}});
  ExpectEncoding(list,
                 "00000001 000186a3 00000004 00000003 74637000 "
                 "0000000b 302e302e 302e302e 382e3100 00000001 30000000 "
                 "00000000");
}

TEST_F(Rpcb, NoItemIsDdpEligible) {
  const auto check = []<class Procedure>(std::type_identity<Procedure>) {
    EXPECT_EQ(xdr::kExtent<typename Procedure::Arguments>.payloads, 0u) << Procedure::kName;
    EXPECT_EQ(xdr::kExtent<typename Procedure::Results>.payloads, 0u) << Procedure::kName;
  };
  PMAP_VERS_procedures::ForEach(check);
  RPCBVERS_procedures::ForEach(check);
  RPCBVERS4_procedures::ForEach(check);
}

}  // namespace
}  // namespace penstock::pmap
