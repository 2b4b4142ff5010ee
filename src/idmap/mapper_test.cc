#include "idmap/mapper.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "idmap/test_database.h"
#include "rdma/sim/world.h"

namespace penstock::idmap {
namespace {

class MapperTest : public testing::Test {
 protected:
  using Text = Result<std::string, NoAnswer>;
  using Id = Result<std::optional<uint32_t>, NoAnswer>;

  // The result of a call that does not wait for time.
  template <class T>
  static T Now(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> inner, std::optional<T>& to) -> Task<> { to.emplace(co_await std::move(inner)); }(std::move(task),
                                                                                                       result));
    return std::move(result).value();
  }
  Text TextOf(const Mapper& of, Kind kind, uint32_t id) {
    Caller caller;
    return Now(of.TextOf(kind, id, caller));
  }
  Id IdOf(const Mapper& of, Kind kind, std::string_view text, bool accepts_numbers = true) {
    Caller caller;
    return Now(of.IdOf(kind, text, accepts_numbers, caller));
  }

  rdma::sim::World world{1};
  TestDatabase database;
  Lookups lookups{database.database(), world, database.run()};
  const Mapper names{"example.org", lookups};
};

TEST_F(MapperTest, MapsNumbersWithoutADomain) {
  for (const Mapper& numbers : {Mapper(), Mapper("", lookups)}) {
    EXPECT_FALSE(numbers.has_names());
    EXPECT_EQ(TextOf(numbers, Kind::kUser, 7), "7");
    EXPECT_EQ(IdOf(numbers, Kind::kUser, "4294967294"), Id(4294967294u));
    EXPECT_EQ(IdOf(numbers, Kind::kUser, "anna"), Id(std::nullopt));
    EXPECT_EQ(IdOf(numbers, Kind::kUser, "anna@"), Id(std::nullopt));
    EXPECT_EQ(IdOf(numbers, Kind::kGroup, "4294967295"), Id(std::nullopt));
  }
  EXPECT_EQ(database.asked, 0u);
}

TEST_F(MapperTest, MapsNamesOfItsDomain) {
  EXPECT_EQ(TextOf(names, Kind::kUser, 7), "anna@example.org");
  EXPECT_EQ(TextOf(names, Kind::kUser, 0), "root@example.org");
  EXPECT_EQ(TextOf(names, Kind::kGroup, 8), "staff@example.org");
  EXPECT_EQ(IdOf(names, Kind::kUser, "anna@example.org"), Id(7u));
  EXPECT_EQ(IdOf(names, Kind::kUser, "root@EXAMPLE.ORG"), Id(0u));
  EXPECT_EQ(IdOf(names, Kind::kGroup, "staff@example.org"), Id(8u));
}

TEST_F(MapperTest, HasNoIdForOtherNames) {
  for (const std::string_view text : {"anna", "anna@example.com", "@example.org", "staff@example.org", "nobody"}) {
    EXPECT_EQ(IdOf(names, Kind::kUser, text), Id(std::nullopt)) << text;
  }
  EXPECT_EQ(database.asked, 1u);  // for staff
}

// RFC 8881 §5.9: without a translation, the text has no "@".
TEST_F(MapperTest, AnIdWithoutANameIsANumber) {
  database.users["\xff"] = 10;
  EXPECT_EQ(TextOf(names, Kind::kUser, 99), "99");
  EXPECT_EQ(TextOf(names, Kind::kUser, 10), "10");  // its name is not UTF-8
}

TEST_F(MapperTest, AcceptsNumbersOnlyIfTheCallerSaysSo) {
  EXPECT_EQ(IdOf(names, Kind::kUser, "7", true), Id(7u));
  EXPECT_EQ(IdOf(names, Kind::kUser, "7", false), Id(std::nullopt));
  EXPECT_EQ(IdOf(names, Kind::kUser, "anna@example.org", false), Id(7u));
  EXPECT_EQ(database.asked, 1u);
}

// chown(2) would leave the owner unchanged and succeed.
TEST_F(MapperTest, AUserWithTheNumberThatIsNoIdIsUnknown) {
  database.users["strange"] = 0xFFFF'FFFF;
  EXPECT_EQ(IdOf(names, Kind::kUser, "strange@example.org"), Id(std::nullopt));
}

TEST_F(MapperTest, TellsAMissingAnswerFromAMissingName) {
  database.fails = true;
  EXPECT_FALSE(TextOf(names, Kind::kUser, 7));
  EXPECT_FALSE(IdOf(names, Kind::kUser, "anna@example.org"));
}

}  // namespace
}  // namespace penstock::idmap
