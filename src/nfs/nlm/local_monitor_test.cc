// Restarts of hosts that another program of the server's host, its status monitor, passes on.
#include "nfs/nlm/local_monitor.h"

#include <set>
#include <string>
#include <vector>

#include "base/test_log.h"
#include "nfs/nlm/nlm_test.h"
#include "nfs/nlm/status_monitor.h"
#include "protocol/nsm.h"

namespace penstock::nfs::nlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

IpAddress AddressOf(std::string_view text) { return asio::ip::make_address(text); }

// The requests that the server has sent to the monitor.
std::vector<std::string> Asked(const TestHosts& hosts) {
  std::vector<std::string> asked;
  for (const SentCall& call : hosts.calls) {
    if (call.to.program != nsm::SM_PROG) continue;
    EXPECT_EQ(call.to.host, AddressOf("127.0.0.1"));
    const bool is_watch = call.to.procedure == nsm::SM_MON::kNumber;
    asked.push_back((is_watch ? "watch " : "end ") + call.name);
  }
  return asked;
}

class LocalMonitorTest : public NlmTest {
 protected:
  explicit LocalMonitorTest(bool exists = true) { local_monitor.Use(exists); }

  std::vector<std::string> Asked() const { return nlm::Asked(hosts); }
  // The private data of the last SM_MON.
  std::string Cookie() const {
    std::string cookie;
    for (const SentCall& call : hosts.calls) {
      if (call.to.procedure == nsm::SM_MON::kNumber) cookie = call.cookie;
    }
    return cookie;
  }
  // The monitor says that a host has started again.
  void Tell(std::string_view cookie, int32_t state = 5, const std::string& from = "127.0.0.1") {
    nlm4_sm_status status{.mon_name = "host", .state = state};
    CopyBytes(status.priv, AsBytes(cookie));
    Call<NLMPROC4_SM_NOTIFY>({"monitor", from}, status);
  }
};

TEST_F(LocalMonitorTest, WatchesAHostThatGetsALock) {
  Lock(alice, {});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1"));
  Lock(alice, {.offset = 100});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1"));
}

TEST_F(LocalMonitorTest, WatchesHostsThatWaitOrHaveAShare) {
  Lock(alice, {});
  Lock(bob, {}, true);
  SetShare(carol, "owner", fsa4_R, fsm4_DN);
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "watch 192.0.2.2", "watch 192.0.2.3"));
}

TEST_F(LocalMonitorTest, DoesNotWatchAHostThatGetsNothing) {
  Lock(alice, {});
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1"));
}

TEST_F(LocalMonitorTest, ARestartThatTheMonitorTellsEndsTheHostsLocks) {
  Lock(alice, {});
  const std::string cookie = Cookie();
  Lock(bob, {.offset = 100});
  Tell(cookie);
  EXPECT_EQ(Lock(carol, {}), NLM4_GRANTED);
  EXPECT_EQ(Lock(carol, {.offset = 100}), NLM4_DENIED) << "the other host has not started again";
}

TEST_F(LocalMonitorTest, OnlyTheMonitorMayTellARestart) {
  const CapturedLog log;
  Lock(alice, {});
  const std::string cookie = Cookie();
  Tell(cookie, 5, "192.0.2.2");
  port = 40000;
  Tell(cookie);
  port = 700;
  std::string guess = cookie;
  guess[15] ^= 1;
  Tell(guess);
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
  EXPECT_EQ(
      log.text(),
      "warning: 192.0.2.2:700 says that another host has started again: ignored, since it is not this host's status "
      "monitor\n");
}

TEST_F(LocalMonitorTest, ARestartCountsOnceWhoeverTellsIt) {
  StatusMonitor own(manager, 7);
  server.Serve(own);
  Lock(alice, {});
  const std::string cookie = Cookie();
  Call<nsm::SM_NOTIFY>(alice, {.mon_name = "alice", .state = 5});
  Lock(alice, {});
  Tell(cookie, 5);
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
  Tell(cookie, 7);
  EXPECT_EQ(Lock(bob, {}), NLM4_GRANTED);
}

// Several hosts behind one translated address.
TEST_F(LocalMonitorTest, ARestartOfOneOfSeveralHostsAtAnAddressEndsNoLocks) {
  const CapturedLog log;
  const Host neighbour{"neighbour", alice.address};
  Lock(alice, {});
  Lock(neighbour, {.offset = 100});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1"));
  Tell(Cookie());
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED);
  EXPECT_THAT(log.text(), HasSubstr("a host at 192.0.2.1 has started again, but 2 hosts have locked files from there"));
}

TEST_F(LocalMonitorTest, ARestartEndsTheLocksUnderAllFormsOfTheHostsName) {
  Lock(alice, {});
  Lock({"alice.example.org", alice.address}, {.offset = 100});
  Tell(Cookie());
  EXPECT_EQ(Lock(bob, {.offset = 0, .length = 1000}), NLM4_GRANTED);
}

TEST_F(LocalMonitorTest, EndsTheWatchOfAHostWithoutLocks) {
  Lock(alice, {});
  const std::string cookie = Cookie();
  local_monitor.Keep({AddressOf("192.0.2.2")});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "watch 192.0.2.2", "end 192.0.2.1"));
  EXPECT_FALSE(local_monitor.Find(AsBytes(cookie)));
  local_monitor.Keep({AddressOf("192.0.2.2")});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "watch 192.0.2.2", "end 192.0.2.1"));
}

TEST_F(LocalMonitorTest, WatchesAgainWhatGetsALockWhileItsEndIsAsked) {
  Lock(alice, {});
  hosts.hold = true;
  local_monitor.Keep({});
  Lock(alice, {.offset = 100});
  hosts.Release();
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "end 192.0.2.1", "watch 192.0.2.1"));
  EXPECT_EQ(local_monitor.Find(AsBytes(Cookie())), AddressOf(alice.address));
}

TEST_F(LocalMonitorTest, EndsAWatchThatWasNotNeededAnyMoreWhenTheMonitorAgreed) {
  hosts.hold = true;
  Lock(alice, {});
  local_monitor.Keep({});
  hosts.Release();
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "end 192.0.2.1"));
}

// The monitor may have got the call.
TEST_F(LocalMonitorTest, WatchesAgainIfTheEndWasNotAnswered) {
  Lock(alice, {});
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  local_monitor.Keep({});
  hosts.outcome = HostCalls::Outcome::kAnswered;
  Lock(alice, {.offset = 100});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "end 192.0.2.1", "watch 192.0.2.1"));
}

TEST_F(LocalMonitorTest, EndsTheWatchesOfAnEarlierRun) {
  Lock(alice, {});
  local_monitor.EndEarlier({AddressOf(alice.address), AddressOf(bob.address), AddressOf(carol.address)});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "end 192.0.2.2", "end 192.0.2.3"));
  Lock(bob, {.offset = 100});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "end 192.0.2.2", "end 192.0.2.3", "watch 192.0.2.2"));
}

// Else a host with many addresses would make all others wait.
TEST_F(LocalMonitorTest, HostsTakeTurns) {
  local_monitor.Keep(
      {AddressOf("2001:db8::1"), AddressOf("2001:db8::2"), AddressOf("2001:db8::3"), AddressOf("2001:db8:0:1::1")});
  EXPECT_THAT(Asked(),
              ElementsAre("watch 2001:db8::1", "watch 2001:db8:0:1::1", "watch 2001:db8::2", "watch 2001:db8::3"));
}

TEST_F(LocalMonitorTest, AsksAgainIfTheMonitorRefuses) {
  const CapturedLog log;
  hosts.monitoring = nsm::STAT_FAIL;
  EXPECT_EQ(Lock(alice, {}), NLM4_GRANTED);
  EXPECT_THAT(log.text(), HasSubstr("warning: this host's status monitor (rpc.statd) refuses to watch 192.0.2.1"));
  hosts.monitoring = nsm::STAT_SUCC;
  manager.Sweep();
  manager.Sweep();
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "watch 192.0.2.1"));
}

TEST_F(LocalMonitorTest, AMonitorThatHasNotAnsweredMayWatchAllTheSame) {
  Lock(alice, {});
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  hosts.calls.clear();
  Lock(bob, {.offset = 100});
  const std::string cookie = Cookie();
  hosts.outcome = HostCalls::Outcome::kAnswered;
  local_monitor.Keep({AddressOf(alice.address)});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.2", "end 192.0.2.2"));
  EXPECT_FALSE(local_monitor.Find(AsBytes(cookie)));
}

TEST_F(LocalMonitorTest, AWatchThatTheMonitorRefusedIsNotEnded) {
  hosts.monitoring = nsm::STAT_FAIL;
  Lock(alice, {});
  const std::string cookie = Cookie();
  local_monitor.Keep({});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1"));
  EXPECT_FALSE(local_monitor.Find(AsBytes(cookie)));
}

TEST_F(LocalMonitorTest, AMonitorThatDoesNotAnswerIsAskedThreeTimesAndThenLater) {
  Lock(alice, {});
  hosts.outcome = HostCalls::Outcome::kNoAnswer;
  hosts.calls.clear();
  const std::set<IpAddress> addresses{AddressOf("192.0.2.1"), AddressOf("192.0.2.2"), AddressOf("192.0.2.3"),
                                      AddressOf("192.0.2.4"), AddressOf("192.0.2.5")};
  local_monitor.Keep(addresses);
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.2", "watch 192.0.2.3", "watch 192.0.2.4"));
  hosts.outcome = HostCalls::Outcome::kAnswered;
  local_monitor.Keep(addresses);
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.2", "watch 192.0.2.3", "watch 192.0.2.4", "watch 192.0.2.5",
                                   "watch 192.0.2.2", "watch 192.0.2.3", "watch 192.0.2.4"))
      << "those that have not been asked come first";
}

class StoppedLocalMonitorTest : public LocalMonitorTest {
 protected:
  void Stop() {
    Spawn([](LocalMonitor& monitor, bool& done) -> Task<> {
      co_await monitor.Stop();
      done = true;
    }(local_monitor, stopped));
  }
  bool stopped = false;
};

TEST_F(StoppedLocalMonitorTest, TheServerEndsAllWatchesWhenItStops) {
  Lock(alice, {});
  Lock(bob, {.offset = 100});
  Stop();
  EXPECT_TRUE(stopped);
  Lock(carol, {.offset = 200});
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1", "watch 192.0.2.2", "end 192.0.2.1", "end 192.0.2.2"));
}

TEST_F(StoppedLocalMonitorTest, AMonitorThatDoesNotAnswerDelaysTheStopForASecondAtMost) {
  const CapturedLog log;
  hosts.hold = true;
  Lock(alice, {});
  Stop();
  EXPECT_FALSE(stopped);
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(stopped);
  EXPECT_EQ(hosts.held(), 0u);
  EXPECT_EQ(log.text(), "");
}

class NoLocalMonitorTest : public LocalMonitorTest {
 protected:
  NoLocalMonitorTest() : LocalMonitorTest(false) {}
};

TEST_F(NoLocalMonitorTest, TheServerSendsNoRequestWithoutAMonitor) {
  Lock(alice, {});
  manager.Sweep();
  EXPECT_THAT(Asked(), IsEmpty());
  local_monitor.Use(true);
  manager.Sweep();
  EXPECT_THAT(Asked(), ElementsAre("watch 192.0.2.1")) << "for the locks that are there already";
  const std::string cookie = Cookie();
  local_monitor.Use(false);
  Tell(cookie);
  EXPECT_EQ(Lock(bob, {}), NLM4_DENIED) << "that monitor is no more";
}

TEST_F(NoLocalMonitorTest, WatchesOfEarlierRunsEndWhenAMonitorAppears) {
  local_monitor.EndEarlier({AddressOf(bob.address)});
  EXPECT_THAT(Asked(), IsEmpty());
  local_monitor.Use(true);
  Lock(alice, {});
  EXPECT_THAT(Asked(), ElementsAre("end 192.0.2.2", "watch 192.0.2.1"));
  local_monitor.Use(false);
  local_monitor.Use(true);
  EXPECT_THAT(Asked(), ElementsAre("end 192.0.2.2", "watch 192.0.2.1", "end 192.0.2.1"));
}

}  // namespace
}  // namespace penstock::nfs::nlm
