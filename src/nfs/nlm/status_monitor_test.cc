// Restarts of hosts and of the server.
#include "nfs/nlm/status_monitor.h"

#include <string>
#include <vector>

#include "base/test_log.h"
#include "nfs/nlm/nlm_test.h"
#include "protocol/nsm.h"

namespace penstock::nfs::nlm {
namespace {

using testing::ElementsAre;
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

// Linux tells of each restart by its name with the domain, and then without.
TEST_F(StatusMonitorTest, ARestartThatIsToldTwiceDoesNotEndNewLocks) {
  Lock(alice, {});
  Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice.example.org", .state = 5});
  EXPECT_EQ(Lock(alice, {.offset = 100}), NLM4_GRANTED);
  Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice", .state = 5});
  EXPECT_EQ(Lock(bob, {.offset = 100}), NLM4_DENIED);
  Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice", .state = 7});
  EXPECT_EQ(Lock(bob, {.offset = 100}), NLM4_GRANTED);
}

TEST_F(StatusMonitorTest, AnotherHostOrAnotherUserCannotTakeItsLocks) {
  Lock(alice, {});
  Call<nsm::SM_NOTIFY>(bob, {.mon_name = "alice", .state = 5});
  port = 40000;
  Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice", .state = 5});
  port = 700;
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
}

TEST_F(StatusMonitorTest, RefusedNoticesOfRestartsAreLoggedNowAndThen) {
  const CapturedLog log;
  port = 40000;
  for (int i = 0; i < 10; ++i) {
    Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice", .state = 5});
    Call<NLMPROC4_FREE_ALL>(bob, {.name = "bob", .state = 3});
  }
  const std::string once =
      "warning: 192.0.2.1:40000 says that its host has started again: ignored, since the port is not below 1024\n";
  EXPECT_EQ(log.text(), once);
  Pass(std::chrono::minutes(1));
  Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice", .state = 5});
  EXPECT_EQ(log.text(), once + once);
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
  ~RestartNoticesTest() override { Spawn(notices.Stop()); }

  static v4::RememberedHost Host(std::string_view address, std::string_view name = "host",
                                 std::string_view ours = "192.0.2.100") {
    return {.name = {asio::ip::make_address(address), std::string(name)}, .ours = asio::ip::make_address(ours)};
  }
  // The address and the name of each call.
  std::vector<std::string> Calls() const {
    std::vector<std::string> all;
    for (const SentCall& call : hosts.calls) all.push_back(call.to.host.to_string() + " " + call.name);
    return all;
  }
  rdma::sim::World world{1};
  TestHosts hosts;
  RestartNotices notices{hosts, world, {.name = "server", .state = 7, .at_once = 4, .again_at_once = 2}};
};

TEST_F(RestartNoticesTest, AHostIsToldByNameAndByAddress) {
  notices.Send({Host("192.0.2.1")});
  ASSERT_THAT(hosts.calls, SizeIs(2));
  EXPECT_EQ(hosts.calls[0].name, "server");
  EXPECT_EQ(hosts.calls[1].name, "192.0.2.100");
  EXPECT_EQ(hosts.calls[0].state, 7);
  EXPECT_EQ(hosts.calls[0].to.host, asio::ip::make_address("192.0.2.1"));
  EXPECT_EQ(hosts.calls[0].to.ours, asio::ip::make_address("192.0.2.100"));
  EXPECT_TRUE(hosts.calls[0].to.by_udp);
  EXPECT_EQ(notices.left(), 0u);
}

TEST_F(RestartNoticesTest, HostsAtOneAddressAreToldTogether) {
  notices.Send({Host("192.0.2.1", "one"), Host("192.0.2.1", "two"), Host("192.0.2.1", "three", "192.0.2.200")});
  EXPECT_THAT(Calls(), testing::UnorderedElementsAre("192.0.2.1 server", "192.0.2.1 192.0.2.100", "192.0.2.1 server",
                                                     "192.0.2.1 192.0.2.200"));
}

TEST_F(RestartNoticesTest, AHostThatDoesNotAnswerIsToldAgain) {
  hosts.outcome = HostCalls::Outcome::kNotReached;
  notices.Send({Host("192.0.2.1")});
  EXPECT_THAT(hosts.calls, SizeIs(1));
  world.RunFor(std::chrono::seconds(7));
  EXPECT_THAT(hosts.calls, SizeIs(3));
  hosts.outcome = HostCalls::Outcome::kAnswered;
  world.RunFor(std::chrono::seconds(60));
  EXPECT_EQ(notices.left(), 0u);
  EXPECT_EQ(hosts.calls.back().name, "192.0.2.100");
}

TEST_F(RestartNoticesTest, AHostThatHasHeardOneNameIsToldTheOtherOneOnly) {
  hosts.hold = true;
  notices.Send({Host("192.0.2.1")});
  hosts.ReleaseHeld();
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  hosts.Release();
  world.RunFor(std::chrono::seconds(2));
  EXPECT_THAT(Calls(), ElementsAre("192.0.2.1 server", "192.0.2.1 192.0.2.100", "192.0.2.1 192.0.2.100"));
}

TEST_F(RestartNoticesTest, TheTimeIsLimited) {
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  notices.Send({Host("192.0.2.1")});
  world.RunFor(std::chrono::minutes(14));
  EXPECT_EQ(notices.left(), 1u);
  world.RunFor(std::chrono::minutes(3));
  EXPECT_EQ(notices.left(), 0u);
}

TEST_F(RestartNoticesTest, ManyHostsAreToldAFewAtATime) {
  std::vector<v4::RememberedHost> all;
  for (int i = 1; i <= 100; ++i) all.push_back(Host("192.0.2." + std::to_string(i)));
  hosts.hold = true;
  notices.Send(all);
  EXPECT_EQ(hosts.held(), 4u);
  EXPECT_EQ(notices.left(), 100u);
  hosts.Release();
  EXPECT_EQ(notices.left(), 0u);
  EXPECT_THAT(hosts.calls, SizeIs(200));
}

// With a host that has many addresses or names, too.
TEST_F(RestartNoticesTest, HostsAreToldInTurn) {
  notices.Send({Host("2001:db8::1"), Host("2001:db8::2"), Host("2001:db8::3"), Host("192.0.2.1", "one"),
                Host("192.0.2.1", "two"), Host("192.0.2.2"), Host("2001:db8:0:1::1")});
  std::vector<std::string> order;
  for (const SentCall& call : hosts.calls) {
    if (call.name == "server") order.push_back(call.to.host.to_string());
  }
  EXPECT_THAT(order,
              ElementsAre("2001:db8::1", "192.0.2.1", "192.0.2.2", "2001:db8:0:1::1", "2001:db8::2", "2001:db8::3"));
}

// Each host is called once before any is called again.
TEST_F(RestartNoticesTest, AnUncalledHostComesBeforeSilentOnes) {
  std::vector<v4::RememberedHost> all;
  for (int i = 1; i <= 20; ++i) all.push_back(Host("192.0.2." + std::to_string(i)));
  hosts.outcome = HostCalls::Outcome::kNotReached;
  hosts.hold = true;
  notices.Send(all);
  // A call takes five seconds to fail, so the first hosts are due again before the last ones are called.
  for (size_t called = 4; called <= 20; called += 4) {
    EXPECT_THAT(hosts.calls, SizeIs(called));
    world.RunFor(std::chrono::seconds(5));
    hosts.ReleaseHeld();
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(hosts.calls[i].to.host, all[i].name.address);
  EXPECT_THAT(hosts.calls, SizeIs(22)) << "not all places are for silent hosts";
  EXPECT_EQ(hosts.calls[20].to.host, all[0].name.address);
  EXPECT_EQ(hosts.calls[21].to.host, all[1].name.address);
}

TEST_F(RestartNoticesTest, NothingHappensBetweenTheCalls) {
  hosts.outcome = HostCalls::Outcome::kNotReached;
  std::vector<v4::RememberedHost> all;
  for (int i = 1; i <= 100; ++i) all.push_back(Host("192.0.2." + std::to_string(i)));
  notices.Send(all);
  EXPECT_THAT(hosts.calls, SizeIs(100));
  world.RunFor(std::chrono::milliseconds(1999));
  const uint64_t events = world.events_run();
  world.RunFor(std::chrono::milliseconds(2));
  EXPECT_EQ(world.events_run() - events, 1u) << "one timer for all";
  EXPECT_THAT(hosts.calls, SizeIs(200));
}

TEST_F(RestartNoticesTest, StopEndsTheCalls) {
  hosts.hold = true;
  notices.Send({Host("192.0.2.1"), Host("192.0.2.2"), Host("192.0.2.3"), Host("192.0.2.4"), Host("192.0.2.5")});
  Spawn(notices.Stop());
  EXPECT_EQ(notices.left(), 0u);
  EXPECT_THAT(hosts.calls, SizeIs(4));
}

}  // namespace
}  // namespace penstock::nfs::nlm
