#include "rpc/udp/reply_allowance.h"

#include <gtest/gtest.h>

namespace penstock::rpc::udp {
namespace {

using namespace std::chrono_literals;
using asio::ip::make_address;

class ReplyAllowanceTest : public ::testing::Test {
 protected:
  bool Spend(const char* host, size_t call, size_t reply) {
    return allowance.Spend(make_address(host), call, reply, now);
  }

  ReplyAllowance allowance{{.octets_per_second = 1000, .burst = 2000}, SipKey{1, 2}};
  TimePoint now{1h};
};

TEST_F(ReplyAllowanceTest, AReplyThatIsNotLongerThanItsCallIsFree) {
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(Spend("192.0.2.1", 100, 100));
  EXPECT_TRUE(Spend("192.0.2.1", 0, 2000));
  EXPECT_TRUE(Spend("192.0.2.1", 100, 100));
}

TEST_F(ReplyAllowanceTest, AHostGetsABurstAndThenASteadyRate) {
  EXPECT_TRUE(Spend("192.0.2.1", 100, 1100));
  EXPECT_TRUE(Spend("192.0.2.1", 100, 1100));
  EXPECT_FALSE(Spend("192.0.2.1", 100, 1100));
  now += 1s;
  EXPECT_TRUE(Spend("192.0.2.1", 100, 1100));
  EXPECT_FALSE(Spend("192.0.2.1", 100, 101));
  now += 1h;
  // Silence does not save up more than the burst.
  EXPECT_FALSE(Spend("192.0.2.1", 100, 2101));
  EXPECT_TRUE(Spend("192.0.2.1", 100, 2100));
}

TEST_F(ReplyAllowanceTest, OtherHostsHaveTheirOwn) {
  EXPECT_TRUE(Spend("192.0.2.1", 0, 2000));
  EXPECT_FALSE(Spend("192.0.2.1", 0, 1));
  EXPECT_TRUE(Spend("192.0.2.2", 0, 2000));
  EXPECT_TRUE(Spend("2001:db8::1", 0, 2000));
  EXPECT_FALSE(Spend("2001:db8::2", 0, 1)) << "the same network of 64 bits";
}

}  // namespace
}  // namespace penstock::rpc::udp
