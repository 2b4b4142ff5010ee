#include "cluster/members.h"

#include <gtest/gtest.h>

namespace penstock::cluster {
namespace {

constexpr Duration kNinety = std::chrono::seconds(90);

Members Two() {
  Members members{.scope = "scope", .last_instance = 9, .epoch = 3, .lost = {}, .nodes = {}};
  members.nodes["a"] = {.instance = 8, .lease = kNinety, .server = "x", .enforces = 3};
  members.nodes["b"] = {.instance = 9, .lease = kNinety, .server = "x", .enforces = 3};
  return members;
}

TEST(Members, AreTheSameAfterTheyWereWritten) {
  Members members = Two();
  EXPECT_EQ(ParseMembers(ToText(members)), members);
  members.Lose("a", true);
  EXPECT_EQ(ParseMembers(ToText(members)), members);
}

TEST(Members, DamagedTextIsRefused) {
  Members members = Two();
  members.Lose("a", true);
  const std::string text = ToText(members);
  EXPECT_FALSE(ParseMembers(""));
  EXPECT_FALSE(ParseMembers("[]"));
  for (size_t size = 0; size + 1 < text.size(); ++size) EXPECT_FALSE(ParseMembers(text.substr(0, size))) << size;
  for (const auto& [from, to] : {std::pair("\"version\": 1", "\"version\": 2"),
                                 {"\"lease\": 90000000000", "\"lease\": 90000000000000"},
                                 {"\"instance\": 8", "\"instance\": -8"},
                                 {"\"instance\": 9", "\"instance\": 99999999999"},
                                 {"\"enforces\": 3", "\"enforce\": 3"},
                                 {"\"server\": \"x\"", "\"server\": 1"},
                                 {"\"over\": false", "\"over\": 0"},
                                 {"\"scope\": \"scope\"", "\"scope\": 5"}}) {
    std::string damaged = text;
    const size_t at = damaged.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    EXPECT_FALSE(ParseMembers(damaged.replace(at, std::string_view(from).size(), to))) << to;
  }
}

TEST(Members, ARunThatEndsWithClientsIsLost) {
  Members members = Two();
  members.Lose("a", true);
  EXPECT_TRUE(members.in_grace());
  EXPECT_EQ(members.lost.front(), (Members::Lost{"a", 8, kNinety, false}));
  EXPECT_EQ(members.epoch, 4u);
  EXPECT_TRUE(members.Knows(8));
  EXPECT_FALSE(members.AllEnforce());
  EXPECT_EQ(members.Laggards(), "b");
  members.Find("b", 9)->enforces = 4;
  EXPECT_TRUE(members.AllEnforce());
  EXPECT_EQ(members.Laggards(), "");
  members.Lose("b", true);
  EXPECT_EQ(members.lost.size(), 2u) << "nobody is left, and both may come back";
}

TEST(Members, ARunThatEndsWithoutClientsIsForgotten) {
  Members members = Two();
  members.Lose("a", false);
  members.Lose("unknown", true);
  EXPECT_FALSE(members.in_grace());
  EXPECT_EQ(members.epoch, 3u);
  EXPECT_FALSE(members.Knows(8));
  EXPECT_TRUE(members.Knows(9));
}

TEST(Members, AMemberIsFoundByItsRun) {
  Members members = Two();
  EXPECT_TRUE(members.Find("a", 8));
  EXPECT_FALSE(members.Find("a", 9));
  EXPECT_FALSE(members.Find("c", 9));
}

}  // namespace
}  // namespace penstock::cluster
