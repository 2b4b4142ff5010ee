#include "idmap/local_owners.h"

#include <gtest/gtest.h>

#include <list>
#include <optional>
#include <string>

#include "idmap/test_database.h"
#include "rdma/sim/world.h"

namespace penstock::idmap {
namespace {

class LocalOwnersTest : public testing::Test {
 protected:
  // The result of a call, which may wait for the database.
  const std::optional<std::string>& Begin(Task<std::string> task) {
    std::optional<std::string>& result = results_.emplace_back();
    Spawn([](Task<std::string> inner, std::optional<std::string>& to) -> Task<> { to = co_await std::move(inner); }(
                                                                          std::move(task), result));
    return result;
  }
  std::string Name(std::string text, Kind kind = Kind::kUser) {
    return Begin(owners.NameOf(kind, std::move(text))).value();
  }
  std::string Number(std::string text, Kind kind = Kind::kUser) {
    return Begin(owners.NumberOf(kind, std::move(text))).value();
  }

  rdma::sim::World world{1};
  TestDatabase database;
  Lookups lookups{database.database(), world, database.run()};
  LocalOwners owners{"example.org", lookups, nullptr};

 private:
  std::list<std::optional<std::string>> results_;
};

TEST_F(LocalOwnersTest, NumbersHaveTheNamesOfThisHost) {
  EXPECT_EQ(Name("7"), "anna");
  EXPECT_EQ(Name("8", Kind::kGroup), "staff");
  EXPECT_EQ(Name("99"), "99");
  EXPECT_EQ(Number("7"), "7");
}

TEST_F(LocalOwnersTest, NamesOfOurDomainAreThoseOfThisHost) {
  EXPECT_EQ(Name("anna@EXAMPLE.org"), "anna");
  EXPECT_EQ(Name("staff@example.org", Kind::kGroup), "staff");
  EXPECT_EQ(Number("anna@example.org"), "7");
  EXPECT_EQ(Number("staff@example.org", Kind::kGroup), "8");
}

TEST_F(LocalOwnersTest, OtherTextsStayAsTheServerSentThem) {
  for (const char* text : {"carl@example.org", "anna@example.com", "anna", "nobody", "", "007", "a@b@c"}) {
    EXPECT_EQ(Name(text), text);
    EXPECT_EQ(Number(text), text);
  }
}

TEST_F(LocalOwnersTest, ADatabaseThatHangsDelaysAListingOnce) {
  database.hangs = true;
  const auto& first = Begin(owners.NameOf(Kind::kUser, "7"));
  EXPECT_FALSE(first);
  world.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(first, "7");
  EXPECT_EQ(Name("0"), "0");
  EXPECT_EQ(Number("anna@example.org"), "anna@example.org");
}

}  // namespace
}  // namespace penstock::idmap
