#include "client/acl_values.h"

#include <gmock/gmock.h>

#include "protocol/nfsacl.h"

namespace penstock::client {
namespace {

std::vector<std::byte> Octets(std::initializer_list<int> values) {
  std::vector<std::byte> octets;
  for (const int value : values) octets.push_back(static_cast<std::byte>(value));
  return octets;
}

TEST(AclValues, AnNfs4ListIsXdr) {
  const std::vector<Ace> acl = {{.type = 0, .flags = 0x40, .mask = 1, .who = "a@b"}};
  const auto value = Octets({0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 0, 0, 0, 3, 'a', '@', 'b', 0});
  EXPECT_EQ(EncodeNfs4Acl(acl), value);
  EXPECT_EQ(DecodeNfs4Acl(value), acl);
}

TEST(AclValues, RejectsAMalformedNfs4List) {
  EXPECT_FALSE(DecodeNfs4Acl({}));
  EXPECT_FALSE(DecodeNfs4Acl(Octets({0, 0, 0, 1})));
  EXPECT_FALSE(DecodeNfs4Acl(Octets({0, 0, 0, 0, 0}))) << "octets are left over";
}

TEST(AclValues, APosixListIsLittleEndianAndSorted) {
  const std::vector<PosixAce> entries = {{nfsacl::NA_OTHER_OBJ, 0, 4}, {nfsacl::NA_USER, 0x102, 6}};
  const auto value = Octets({2, 0, 0, 0, 2, 0, 6, 0, 2, 1, 0, 0, 0x20, 0, 4, 0, 0xff, 0xff, 0xff, 0xff});
  EXPECT_EQ(EncodePosixAcl(entries), value);
  EXPECT_EQ(DecodePosixAcl(value), (std::vector<PosixAce>{entries[1], entries[0]}));
}

TEST(AclValues, RejectsAMalformedPosixList) {
  EXPECT_FALSE(DecodePosixAcl({}));
  EXPECT_FALSE(DecodePosixAcl(Octets({1, 0, 0, 0}))) << "another version";
  EXPECT_FALSE(DecodePosixAcl(Octets({2, 0, 0, 0, 1}))) << "half of an entry";
}

}  // namespace
}  // namespace penstock::client
