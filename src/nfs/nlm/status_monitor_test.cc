// Restarts of hosts and of the server.
#include "nfs/nlm/status_monitor.h"

#include "nfs/nlm/nlm_test.h"
#include "protocol/nsm.h"

namespace penstock::nfs::nlm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class StatusMonitorTest : public NlmTest {
 protected:
  StatusMonitorTest() { server.Serve(monitor); }
  StatusMonitor monitor{manager, 7};
};

TEST_F(StatusMonitorTest, AHostThatHasStartedAgainLosesItsLocks) {
  Lock(alice, {});
  Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice", .state = 5});
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
}

TEST_F(StatusMonitorTest, AnotherHostOrAnotherUserCannotTakeItsLocks) {
  Lock(alice, {});
  Call<nsm::SM_NOTIFY>(bob, {.mon_name = "alice", .state = 5});
  port = 40000;
  Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice", .state = 5});
  port = 700;
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
}

TEST_F(StatusMonitorTest, TellsItsState) {
  const auto told = Call<nsm::SM_STAT>(alice, {.mon_name = "server"});
  EXPECT_EQ(told.res_stat, nsm::STAT_SUCC);
  EXPECT_EQ(told.state, 7);
}

TEST_F(StatusMonitorTest, TheStateIsOddAndGrows) {
  EXPECT_EQ(StateOf(1), 3);
  EXPECT_EQ(StateOf(2), 5);
  EXPECT_GT(StateOf(UINT32_MAX), 0);
}

class RestartNoticesTest : public testing::Test {
 protected:
  static v4::RememberedHost Host(std::string_view address) {
    return {.name = {asio::ip::make_address(address), "host"}, .ours = asio::ip::make_address("192.0.2.100")};
  }
  rdma::sim::World world{1};
  TestHosts hosts;
  RestartNotices notices{hosts, world, {.name = "server", .state = 7}};
};

TEST_F(RestartNoticesTest, AHostIsToldByNameAndByAddress) {
  notices.Send({Host("192.0.2.1")});
  ASSERT_THAT(hosts.calls, SizeIs(2));
  EXPECT_EQ(hosts.calls[0].name, "server");
  EXPECT_EQ(hosts.calls[1].name, "192.0.2.100");
  EXPECT_EQ(hosts.calls[0].state, 7);
  EXPECT_EQ(hosts.calls[0].to.host, asio::ip::make_address("192.0.2.1"));
  EXPECT_TRUE(hosts.calls[0].to.by_udp);
  EXPECT_EQ(notices.under_way(), 0u);
}

TEST_F(RestartNoticesTest, AHostThatDoesNotAnswerIsToldAgain) {
  hosts.outcome = HostCalls::Outcome::kNotReached;
  notices.Send({Host("192.0.2.1")});
  EXPECT_THAT(hosts.calls, SizeIs(1));
  world.RunFor(std::chrono::seconds(7));
  EXPECT_THAT(hosts.calls, SizeIs(3));
  hosts.outcome = HostCalls::Outcome::kAnswered;
  world.RunFor(std::chrono::seconds(60));
  EXPECT_EQ(notices.under_way(), 0u);
}

TEST_F(RestartNoticesTest, TheTimeIsLimited) {
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  notices.Send({Host("192.0.2.1")});
  world.RunFor(std::chrono::minutes(14));
  EXPECT_EQ(notices.under_way(), 1u);
  world.RunFor(std::chrono::minutes(3));
  EXPECT_EQ(notices.under_way(), 0u);
}

TEST_F(RestartNoticesTest, ASilentHostDoesNotKeepOthersWaiting) {
  hosts.outcome = HostCalls::Outcome::kNotReached;
  std::vector<v4::RememberedHost> all;
  for (int i = 1; i <= 100; ++i) all.push_back(Host("192.0.2." + std::to_string(i)));
  notices.Send(all);
  world.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(hosts.calls.size(), 100u);
  Spawn(notices.Stop());
  EXPECT_EQ(notices.under_way(), 0u);
}

}  // namespace
}  // namespace penstock::nfs::nlm
