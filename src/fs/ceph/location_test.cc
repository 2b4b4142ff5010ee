#include "fs/ceph/location.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::fs::ceph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectLocation(std::string_view text, const Location& wanted) {
  const auto parsed = ParseLocation(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, wanted) << text << ": " << ToString(*parsed);
}

void ExpectMistake(std::string_view text, const char* why) {
  const auto parsed = ParseLocation(text);
  ASSERT_FALSE(parsed) << text;
  EXPECT_THAT(parsed.error().message, AllOf(StartsWith(text), HasSubstr(why)));
}

TEST(CephLocation, HasAPathAndOptions) {
  ExpectLocation("ceph:/", {.path = "/"});
  ExpectLocation("ceph:/volumes/home", {.path = "/volumes/home"});
  ExpectLocation("ceph:/x?conf=/etc/ceph/b.conf&fs=archive&user=nfs",
                 {.path = "/x", .conf = "/etc/ceph/b.conf", .fs = "archive", .user = "nfs"});
  ExpectLocation("ceph:/x?user=nfs&fs=archive", {.path = "/x", .fs = "archive", .user = "nfs"});
}

TEST(CephLocation, NormalizesThePath) {
  ExpectLocation("ceph://", {.path = "/"});
  ExpectLocation("ceph://a///b/", {.path = "/a/b"});
  ExpectLocation("ceph:/...", {.path = "/..."});
}

TEST(CephLocation, DecodesOctets) {
  ExpectLocation("ceph:/a%20b%3F%25", {.path = "/a b?%"});
  ExpectLocation("ceph:/%c3%A9", {.path = "/\xc3\xa9"});
  ExpectLocation("ceph:/x?fs=a%26b%3dc", {.path = "/x", .fs = "a&b=c"});
  ExpectLocation("ceph:/x?fs=a=b", {.path = "/x", .fs = "a=b"});
  ExpectLocation("ceph:/x?conf=%2Fetc/c", {.path = "/x", .conf = "/etc/c"});
}

TEST(CephLocation, RefusesPathsThatAreNotPlain) {
  ExpectMistake("ceph:", "does not begin with a slash");
  ExpectMistake("ceph:x", "does not begin with a slash");
  ExpectMistake("ceph:?fs=a", "does not begin with a slash");
  ExpectMistake("ceph:/a/../b", "component \"..\"");
  ExpectMistake("ceph:/a/.", "component \".\"");
  ExpectMistake("ceph:/a/.snap/s", "snapshots are not exported");
  ExpectMistake("ceph:/a/%2e%2E", "component \"..\"");
  ExpectMistake("ceph:/a%2F..", "component \"..\"");
  ExpectMistake("/x", "does not begin with ceph:");
}

TEST(CephLocation, RefusesBadPercentSequences) {
  ExpectMistake("ceph:/a%", "\"%\" is not % with two hexadecimal digits");
  ExpectMistake("ceph:/a%4", "\"%4\" is not");
  ExpectMistake("ceph:/a%4g", "\"%4g\" is not");
  ExpectMistake("ceph:/a%-1", "\"%-1\" is not");
  ExpectMistake("ceph:/a?fs=%zz", "\"%zz\" is not");
}

TEST(CephLocation, RefusesZeroOctets) {
  ExpectMistake("ceph:/a%00", "a zero octet");
  ExpectMistake("ceph:/a?user=%00", "a zero octet");
  const auto parsed = ParseLocation(std::string_view("ceph:/a\0b", 9));
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, AllOf(HasSubstr("a zero octet"), HasSubstr("a%00b")));
}

TEST(CephLocation, RefusesMistakesInOptions) {
  ExpectMistake("ceph:/x?pool=a", "unknown option \"pool\": the options are conf, fs and user");
  ExpectMistake("ceph:/x?FS=a", "unknown option \"FS\"");
  ExpectMistake("ceph:/x?fs", "the option fs has no value");
  ExpectMistake("ceph:/x?fs=", "the option fs has no value");
  ExpectMistake("ceph:/x?fs=a&fs=a", "the option fs is repeated");
  ExpectMistake("ceph:/x?conf=/a&user=b&conf=/c", "the option conf is repeated");
  ExpectMistake("ceph:/x?", "an option is missing");
  ExpectMistake("ceph:/x?fs=a&", "an option is missing");
  ExpectMistake("ceph:/x?=a", "an option is missing");
  ExpectMistake("ceph:/x?conf=ceph.conf", "conf=ceph.conf is not an absolute path");
  ExpectMistake("ceph:/x?user=client.nfs", "user=nfs");
}

TEST(CephLocation, IsWrittenAsItIsRead) {
  EXPECT_EQ(ToString({.path = "/"}), "ceph:/");
  EXPECT_EQ(ToString({.path = "/a b", .fs = "x&y", .user = "nfs"}), "ceph:/a%20b?fs=x%26y&user=nfs");
  std::string all;
  for (int octet = 1; octet < 256; ++octet) {
    if (octet != '/' && octet != '.') all += static_cast<char>(octet);
  }
  const Location location{.path = "/" + all, .conf = "/" + all, .fs = all, .user = all};
  ExpectLocation(ToString(location), location);
}

}  // namespace
}  // namespace penstock::fs::ceph
