#include "client/nfs4/locations.h"

#include <gmock/gmock.h>

#include <string>

namespace penstock::client::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

nfs4::fs_locations4 Locations(const std::vector<nfs4::fs_location4>& list) {
  nfs4::fs_locations4 locations;
  locations.locations.assign(list.begin(), list.end());
  return locations;
}
nfs4::fs_location4 LocationAt(std::vector<std::string_view> servers, std::vector<std::string_view> path) {
  nfs4::fs_location4 location;
  location.server.assign(servers.begin(), servers.end());
  location.rootpath.assign(path.begin(), path.end());
  return location;
}

// RFC 8881 §11.16
TEST(Locations, AServerIsANameAnAddressOrAUniversalAddress) {
  EXPECT_EQ(ParseServer("files.example"), (Location{.host = "files.example"}));
  EXPECT_EQ(ParseServer("192.0.2.7"), (Location{.host = "192.0.2.7"}));
  EXPECT_EQ(ParseServer("192.0.2.7.8.2"), (Location{.host = "192.0.2.7", .port = 2050}));
  EXPECT_EQ(ParseServer("2001:db8::7"), (Location{.host = "2001:db8::7"}));
  EXPECT_EQ(ParseServer("2001:db8::7.78.81"), (Location{.host = "2001:db8::7", .port = 20049}));
  EXPECT_EQ(ParseServer("::ffff:192.0.2.7"), (Location{.host = "::ffff:192.0.2.7"}));
  EXPECT_EQ(ParseServer("7.8.files.example.1.2"), (Location{.host = "7.8.files.example.1.2"}));
  EXPECT_EQ(ParseServer(""), Location());
}

TEST(Locations, RejectsAServerWithoutSense) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"two words"sv, "line\n"sv, "\x1b[2J"sv, "192.0.2.7\0"sv, "a:b"sv, "host:2049"sv,
                                      "[2001:db8::7]"sv, "192.0.2.7.0.0"sv, "h\xc3\xb6st"sv, "/"sv, "::g"sv}) {
    EXPECT_FALSE(ParseServer(text)) << text;
  }
  EXPECT_TRUE(ParseServer(std::string(255, 'a')));
  EXPECT_FALSE(ParseServer(std::string(256, 'a')));
}

TEST(Locations, KeepsTheOrderOfTheServer) {
  EXPECT_THAT(LocationsOf(Locations({LocationAt({"one", "192.0.2.7.8.2"}, {"srv", "a"}), LocationAt({"two"}, {})})),
              ElementsAre(Location{.host = "one", .path = {"srv", "a"}},
                          Location{.host = "192.0.2.7", .port = 2050, .path = {"srv", "a"}}, Location{.host = "two"}));
}

TEST(Locations, LeavesOutWhatTheClientCannotUse) {
  using namespace std::string_view_literals;
  EXPECT_THAT(LocationsOf(Locations({LocationAt({"a b", "one"}, {"x"}), LocationAt({}, {"x"})})), SizeIs(1));
  for (const std::string_view name : {""sv, "."sv, ".."sv, "a/b"sv, "a\0b"sv}) {
    EXPECT_THAT(LocationsOf(Locations({LocationAt({"one"}, {"a", name})})), IsEmpty()) << name;
  }
}

TEST(Locations, LeavesOutAPathThatIsTooLong) {
  EXPECT_THAT(LocationsOf(Locations({LocationAt({"one"}, std::vector<std::string_view>(2048, "a"))})), SizeIs(1));
  EXPECT_THAT(LocationsOf(Locations({LocationAt({"one"}, std::vector<std::string_view>(2049, "a"))})), IsEmpty());
}

TEST(Locations, ConsidersTheFirstSixteen) {
  const std::vector<nfs4::fs_location4> many(10'000, LocationAt({"one", "two", "three"}, {}));
  EXPECT_THAT(LocationsOf(Locations(many)), SizeIs(kMostLocations));
}

}  // namespace
}  // namespace penstock::client::v4
