#include "nfs/locations.h"

#include <gtest/gtest.h>

namespace penstock::nfs {
namespace {

std::string ComplaintAboutLocations(std::string_view text) {
  const auto parsed = ParseLocations(text);
  EXPECT_FALSE(parsed) << text;
  return parsed ? "" : parsed.error().message;
}

TEST(Locations, ListsServersOfEachPath) {
  const auto one = ParseLocations("/data@server");
  ASSERT_TRUE(one);
  EXPECT_EQ(*one, (std::vector<Location>{{"/data", {"server"}}}));
  const auto several = ParseLocations("/a//b/@one.example+192.0.2.7:/@two");
  ASSERT_TRUE(several);
  EXPECT_EQ(*several, (std::vector<Location>{{"/a/b", {"one.example", "192.0.2.7"}}, {"/", {"two"}}}));
}

TEST(Locations, AcceptsAddressesOfIpVersion6InBrackets) {
  const auto parsed = ParseLocations("/a@[2001:db8::1]+[::1.8.1]:/b@host");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, (std::vector<Location>{{"/a", {"2001:db8::1", "::1.8.1"}}, {"/b", {"host"}}}));
}

TEST(Locations, ReportsEachError) {
  EXPECT_EQ(ComplaintAboutLocations(""), "a location is missing: write PATH@HOST[+HOST]");
  EXPECT_EQ(ComplaintAboutLocations("/a@one:"), "a location is missing: write PATH@HOST[+HOST]");
  EXPECT_EQ(ComplaintAboutLocations("/a"), "\"/a\" names no host: write PATH@HOST[+HOST]");
  EXPECT_EQ(ComplaintAboutLocations("/a@"), "\"/a@\" names no host: write PATH@HOST[+HOST]");
  EXPECT_EQ(ComplaintAboutLocations("/a@one::/b@two"), "\"\" names no host: write PATH@HOST[+HOST]");
  EXPECT_EQ(ComplaintAboutLocations("a@one"), "export path \"a\" does not begin with a slash");
  EXPECT_EQ(ComplaintAboutLocations("/a/../b@one"), "export path \"/a/../b\" has a component \"..\"");
  EXPECT_EQ(ComplaintAboutLocations("/a@one+"), "a host is missing after \"+\"");
  EXPECT_EQ(ComplaintAboutLocations("/a@one++two"), "\"\" is not a host name or an address");
  EXPECT_EQ(ComplaintAboutLocations("/a@o ne"), "\"o ne\" is not a host name or an address");
  EXPECT_EQ(ComplaintAboutLocations("/a@one@two"), "\"one@two\" is not a host name or an address");
  EXPECT_EQ(ComplaintAboutLocations("/a@[one]"), "\"[one]\" is not a host name or an address");
  EXPECT_EQ(ComplaintAboutLocations("/a@[::1"), "\"[::1\" is not a host name or an address");
  const std::string long_name =
      std::string(63, 'a') + "." + std::string(63, 'b') + "." + std::string(63, 'c') + "." + std::string(62, 'd');
  for (const std::string& host : {std::string("[:]"), std::string("[...:]"), std::string("[1:2:3:4:5:6:7:8:9:10]"),
                                  std::string("[fe80::1%eth0]"), std::string("."), std::string(".."), std::string("-"),
                                  std::string("_"), std::string("a..b"), std::string("999.1.1.1"), std::string("1.2.3"),
                                  std::string("1.2.3.4.999.1"), std::string(64, 'a'), long_name}) {
    EXPECT_EQ(ComplaintAboutLocations("/a@" + host), "\"" + host + "\" is not a host name or an address");
  }
  for (const char* path : {"/a\n", "/\x07", "/\x7f", "/\xff\xfe"}) {
    EXPECT_EQ(ComplaintAboutLocations(std::string(path) + "@host"),
              "the path on the other server is not UTF-8, or has control characters");
  }
  EXPECT_EQ(ComplaintAboutLocations("/a@" + std::string(4096, 'h')), "the list is longer than 4096 octets");
}

}  // namespace
}  // namespace penstock::nfs
