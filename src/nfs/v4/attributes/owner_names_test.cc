#include "nfs/v4/attributes/owner_names.h"

#include <gtest/gtest.h>

#include "nfs/test_server.h"

namespace penstock::nfs::v4 {
namespace {

class OwnerNamesTest : public testing::Test {
 protected:
  OwnerNamesTest() {
    database.user_name = [this](uint32_t uid) -> std::optional<std::string> {
      ++look_ups;
      return uid == 7 ? std::optional<std::string>("anna") : std::nullopt;
    };
    database.group_name = [](uint32_t gid) -> std::optional<std::string> {
      return gid == 8 ? std::optional<std::string>("staff") : std::nullopt;
    };
    database.user_id = [](const std::string& name) -> std::optional<uint32_t> {
      return name == "anna" ? std::optional<uint32_t>(7) : std::nullopt;
    };
    database.group_id = [](const std::string& name) -> std::optional<uint32_t> {
      return name == "staff" ? std::optional<uint32_t>(8) : std::nullopt;
    };
  }
  std::string User(const OwnerNames& names, uint32_t uid) {
    xdr::Encoder encoder(pool);
    names.EncodeUser(encoder, uid);
    const xdr::Message message = encoder.Finish();
    const uint32_t length = LoadBig<uint32_t>(message.stream.data());
    return std::string(AsText(message.stream.bytes().subspan(4, length)));
  }

  BufferPool pool;
  StoppedClock clock;
  IdentityDatabase database;
  int look_ups = 0;
};

TEST_F(OwnerNamesTest, EncodesNumbersWithoutADomain) {
  OwnerNames names;
  EXPECT_TRUE(names.Knows(7, 8));
  EXPECT_EQ(User(names, 7), "7");
  EXPECT_EQ(Now(names.UserOf("4294967295", nullptr)), 4294967295u);
  EXPECT_EQ(Now(names.UserOf("anna", nullptr)), std::nullopt);
  EXPECT_EQ(Now(names.GroupOf("4294967296", nullptr)), std::nullopt);
}

TEST_F(OwnerNamesTest, EncodesNamesWithTheirDomain) {
  OwnerNames names("example.org", database, clock, nullptr);
  EXPECT_FALSE(names.Knows(7, 8));
  Now([](OwnerNames& of) -> Task<int> {
    co_await of.Load(nullptr, 7, 8);
    co_return 0;
  }(names));
  EXPECT_TRUE(names.Knows(7, 8));
  EXPECT_EQ(User(names, 7), "anna@example.org");
  EXPECT_EQ(Now(names.UserOf("anna@example.org", nullptr)), 7u);
  EXPECT_EQ(Now(names.GroupOf("staff@example.org", nullptr)), 8u);
  EXPECT_EQ(Now(names.UserOf("anna@example.com", nullptr)), std::nullopt);
  EXPECT_EQ(Now(names.UserOf("@example.org", nullptr)), std::nullopt);
  EXPECT_EQ(Now(names.UserOf("12", nullptr)), 12u);
}

TEST_F(OwnerNamesTest, EncodesANumberForAnUnknownUserAndRemembersThat) {
  OwnerNames names("example.org", database, clock, nullptr);
  const auto load = [&] {
    Now([](OwnerNames& of) -> Task<int> {
      co_await of.Load(nullptr, 99, 8);
      co_return 0;
    }(names));
  };
  load();
  EXPECT_TRUE(names.Knows(99, 8));
  EXPECT_EQ(User(names, 99), "99");
  clock.now += std::chrono::minutes(10);
  EXPECT_FALSE(names.Knows(99, 8));
  EXPECT_EQ(look_ups, 1);
}

}  // namespace
}  // namespace penstock::nfs::v4
