#include "nfs/nlm/known_restarts.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::nfs::nlm {
namespace {

using std::chrono::minutes;

class KnownRestartsTest : public testing::Test {
 protected:
  bool IsNew(const std::string& name, int32_t state, const std::string& address = "192.0.2.1") {
    return restarts.IsNew(asio::ip::make_address(address), name, state, now);
  }
  TimePoint now{};
  KnownRestarts restarts{{.limits = {.all = 64, .per_host = 2}, .kept = minutes(15)}};
};

TEST_F(KnownRestartsTest, ARestartIsNewOnce) {
  EXPECT_TRUE(IsNew("alice.example.org", 5));
  EXPECT_FALSE(IsNew("alice.example.org", 5));
  EXPECT_FALSE(IsNew("alice", 5));
  EXPECT_TRUE(IsNew("alice", 7));
  EXPECT_FALSE(IsNew("alice.example.org", 7));
}

TEST_F(KnownRestartsTest, HostsRestartIndependently) {
  EXPECT_TRUE(IsNew("alice", 5));
  EXPECT_TRUE(IsNew("bob", 5));
  EXPECT_TRUE(IsNew("alice", 5, "192.0.2.2"));
}

TEST_F(KnownRestartsTest, AnAddressIsAWholeName) {
  EXPECT_TRUE(IsNew("192.0.2.1", 5));
  EXPECT_TRUE(IsNew("192.0.2.2", 5));
  EXPECT_FALSE(IsNew("192.0.2.2", 5));
}

TEST_F(KnownRestartsTest, ARestartIsForgottenInTheEnd) {
  EXPECT_TRUE(IsNew("alice", 5));
  now += minutes(14);
  EXPECT_FALSE(IsNew("alice", 5));
  now += minutes(1);
  EXPECT_TRUE(IsNew("alice", 5));
  EXPECT_EQ(restarts.size(), 1u);
}

TEST_F(KnownRestartsTest, TheNumberIsLimited) {
  EXPECT_TRUE(IsNew("one", 5));
  EXPECT_TRUE(IsNew("two", 5));
  EXPECT_TRUE(IsNew("three", 5));
  EXPECT_TRUE(IsNew("three", 5)) << "it is not remembered";
  EXPECT_FALSE(IsNew("two", 5));
  EXPECT_TRUE(IsNew("alice", 5, "192.0.2.2"));
  EXPECT_FALSE(IsNew("alice", 5, "192.0.2.2"));
  EXPECT_EQ(restarts.size(), 3u);
}

}  // namespace
}  // namespace penstock::nfs::nlm
