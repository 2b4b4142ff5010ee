// Several servers of one process share a store in memory, and a clock that the test sets.
#include "cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/test_log.h"
#include "cluster/client_entry.h"
#include "objects/memory_store.h"

namespace penstock::cluster {
namespace {

using nfs::v4::RecoveryRecord;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr Duration kLease = seconds(90);
const std::chrono::sys_seconds kNow{seconds(1'700'000'000)};
const RecoveryRecord kOne{"1one", {rpc::AuthFlavor::AUTH_SYS, 7}}, kTwo{std::string("0t\0wo", 5), {}};

class ClusterTest : public testing::Test {
 protected:
  struct Server {
    std::unique_ptr<Cluster> cluster;
    SetupResult<nfs::v4::RecoveryStore::Restart> restart;
    bool holds = true;
    std::string expelled;  // why
  };
  using ServerRef = std::shared_ptr<Server>;

  ServerRef Begin(const std::string& node, const std::string& directory = "") {
    auto server = std::make_shared<Server>();
    const auto wait = [this](Duration time) {
      Pass(time);
      return true;
    };
    server->cluster = std::make_unique<Cluster>(store_, Cluster::Options{.name = "c",
                                                                         .node = node,
                                                                         .server = directory,
                                                                         .wait = wait,
                                                                         .now = [this] { return now_; },
                                                                         .has_threads = false});
    server->restart = server->cluster->Begin(kLease, kNow);
    return server;
  }
  void Serve(const ServerRef& server) {
    ASSERT_TRUE(server->restart) << server->restart.error().message;
    Server* const it = server.get();
    server->cluster->Start({.hold = [it] { it->holds = true; },
                            .release = [it] { it->holds = false; },
                            .expelled = [it](const std::string& why) { it->expelled = why; }});
    server->cluster->Look();
    servers_.push_back(server);
  }
  ServerRef Serve(const std::string& node, const std::string& directory = "") {
    ServerRef server = Begin(node, directory);
    Serve(server);
    return server;
  }
  // The server is killed.
  void Kill(ServerRef& server) {
    std::erase(servers_, server);
    server.reset();
  }
  // Every living server looks every two seconds. Meanwhile, a server may begin.
  void Pass(Duration time) {
    for (Duration passed{}; passed < time; passed += seconds(2)) {
      now_ += seconds(2);
      const std::vector<ServerRef> servers = servers_;
      for (const ServerRef& server : servers) {
        server->cluster->Watch();
        server->cluster->Look();
        server->cluster->Tidy();
      }
      if (const auto meanwhile = std::exchange(meanwhile_, {})) meanwhile();
    }
  }
  // Killed, and started again and again, by a service manager.
  void CrashAndRestart(const std::string& node, Duration time) {
    for (const TimePoint end = now_ + time; now_ < end; Pass(seconds(4))) {
      ServerRef server = Begin(node, "one");
      server->cluster->Leave();
    }
  }
  Members State() {
    objects::Store::Object object;
    EXPECT_EQ(store_->Read("members", object), 0);
    return ParseMembers(object.content).value();
  }
  std::vector<std::string> Names(std::string_view prefix) {
    std::vector<std::string> names;
    store_->ListNames(prefix, names);
    return names;
  }

  const std::shared_ptr<objects::MemoryStore> store_ = std::make_shared<objects::MemoryStore>();
  TimePoint now_{std::chrono::hours(1000)};
  std::vector<ServerRef> servers_;
  std::function<void()> meanwhile_;
};

TEST_F(ClusterTest, AllServersHaveOneScopeAndEachRunANumberOfItsOwn) {
  const auto a = Serve("a"), b = Serve("b");
  EXPECT_EQ(a->cluster->scope(), b->cluster->scope());
  EXPECT_NE(a->cluster->instance(), b->cluster->instance());
  EXPECT_GE(a->cluster->instance(), 1'700'000'000u);
  EXPECT_FALSE(a->holds || b->holds);
}

TEST_F(ClusterTest, TwoServersThatBeginAtTheSameTimeBothBecomeMembers) {
  ServerRef b;
  store_->BeforeReplace([&] { b = Begin("b"); });
  const auto a = Begin("a");
  ASSERT_TRUE(a->restart && b->restart);
  EXPECT_EQ(State().nodes.size(), 2u);
  EXPECT_EQ(a->cluster->scope(), b->cluster->scope());
  EXPECT_NE(a->cluster->instance(), b->cluster->instance());
}

TEST_F(ClusterTest, ASecondServerWithTheNameOfALivingOneIsRefused) {
  const auto a = Serve("a", "one");
  for (const char* directory : {"", "other"}) {
    const auto twin = Begin("a", directory);
    ASSERT_FALSE(twin->restart);
    EXPECT_THAT(twin->restart.error().message, HasSubstr("node="));
  }
  Pass(seconds(60));
  EXPECT_EQ(a->expelled, "");
  EXPECT_EQ(State().nodes.size(), 1u);
}

TEST_F(ClusterTest, AServerWithTheSameStateDirectoryStartsAtOnce) {
  auto a = Serve("a", "one");
  Kill(a);
  const TimePoint before = now_;
  a = Serve("a", "one");
  EXPECT_EQ(now_, before);
}

TEST_F(ClusterTest, TheClientsOfAKilledServerReclaimAfterItsRestart) {
  auto a = Serve("a");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  a = Serve("a");
  EXPECT_THAT(a->restart->clients, ElementsAre(kOne));
  EXPECT_EQ(a->restart->last_lease, kLease);
  EXPECT_TRUE(a->holds);
  EXPECT_TRUE(a->cluster->EndGrace());
  EXPECT_FALSE(State().in_grace());
  Pass(seconds(2));
  EXPECT_FALSE(a->holds);
  Pass(seconds(600));
  EXPECT_THAT(Names("clients-"), ElementsAre("clients-" + std::to_string(a->cluster->instance())));
}

TEST_F(ClusterTest, TheClientsOfTheLastServerThatLeavesReclaimAfterItsRestart) {
  auto a = Serve("a");
  ASSERT_TRUE(a->cluster->Record(kOne));
  a->cluster->Leave();
  Kill(a);
  a = Serve("a");
  EXPECT_THAT(a->restart->clients, ElementsAre(kOne));
}

TEST_F(ClusterTest, AServerThatLeftWithoutClientsDisturbsNobody) {
  auto a = Serve("a");
  const auto b = Serve("b");
  a->cluster->Leave();
  Kill(a);
  Pass(seconds(60));
  EXPECT_FALSE(b->holds);
  EXPECT_THAT(State().nodes, ElementsAre(testing::Key("b")));
}

// Another server must not give away what a client may reclaim.
TEST_F(ClusterTest, AServerThatStartsWaitsUntilTheOthersEnforceTheGracePeriod) {
  auto a = Serve("a");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  EXPECT_FALSE(b->holds);
  a = Begin("a");
  ASSERT_TRUE(a->restart);
  EXPECT_TRUE(b->holds);
  Serve(a);
  EXPECT_TRUE(a->cluster->EndGrace());
  Pass(seconds(2));
  EXPECT_FALSE(b->holds || a->holds);
}

TEST_F(ClusterTest, TheClientsOfALostServerMayReclaimAtItsRestartForTheTimeOfItsLease) {
  for (const bool comes_back : {true, false}) {
    auto a = Serve("a", "one");
    const auto b = Serve("b");
    ASSERT_TRUE(a->cluster->Record(kOne));
    Kill(a);
    const CapturedLog log;
    Pass(seconds(16));
    EXPECT_FALSE(b->holds) << "it may still live";
    Pass(seconds(8));
    EXPECT_THAT(log.text(), HasSubstr("member a has been silent"));
    EXPECT_TRUE(b->holds);
    Pass(seconds(comes_back ? 80 : 100));
    EXPECT_EQ(b->holds, comes_back);
    a = Serve("a", "one");
    EXPECT_EQ(a->restart->clients.size(), comes_back ? 1u : 0u);
    EXPECT_TRUE(a->cluster->EndGrace());
    Pass(seconds(600));
    EXPECT_FALSE(b->holds || a->holds);
    a->cluster->Leave();
    b->cluster->Leave();
    servers_.clear();
  }
}

TEST_F(ClusterTest, OneOfTwoServersThatWereKilledStartsAlone) {
  auto a = Serve("a"), b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  ASSERT_TRUE(b->cluster->Record(kTwo));
  Kill(a);
  Kill(b);
  const CapturedLog log;
  a = Serve("a");
  EXPECT_THAT(a->restart->clients, ElementsAre(kOne));
  EXPECT_TRUE(a->cluster->EndGrace());
  Pass(seconds(80));
  EXPECT_TRUE(a->holds);
  Pass(seconds(40));
  EXPECT_FALSE(a->holds);
}

TEST_F(ClusterTest, ALossWhileAServerStartsIsEnforcedByIt) {
  auto a = Serve("a", "one"), c = Serve("c");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  ASSERT_TRUE(c->cluster->Record(kTwo));
  Kill(a);
  meanwhile_ = [&] {
    c->cluster->Leave();
    Kill(c);
  };
  a = Serve("a", "one");
  EXPECT_FALSE(meanwhile_);
  EXPECT_THAT(a->restart->clients, ElementsAre(kOne));
  EXPECT_TRUE(State().AllEnforce());
}

TEST_F(ClusterTest, AServerThatOthersTookForLostIsExpelled) {
  const auto a = Serve("a"), b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  std::erase(servers_, a);  // it stalls
  const CapturedLog log;
  Pass(seconds(30));
  a->cluster->Look();
  EXPECT_THAT(a->expelled, HasSubstr("taken this one for lost"));
}

TEST_F(ClusterTest, AServerThatStallsHoldsBeforeItLooks) {
  const auto a = Serve("a");
  std::erase(servers_, a);
  Pass(seconds(10));
  EXPECT_FALSE(a->holds);
  a->cluster->Watch();
  EXPECT_TRUE(a->holds);
  Pass(seconds(60));
  a->cluster->Watch();
  EXPECT_THAT(a->expelled, HasSubstr("cannot show"));
}

// Nobody is lost because nobody could write.
TEST_F(ClusterTest, AStoreThatFailsExpelsNobodyForAWhile) {
  const auto a = Serve("a"), b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  const CapturedLog log;
  store_->Fail(-ETIMEDOUT);
  Pass(seconds(8));
  EXPECT_FALSE(a->holds);
  EXPECT_FALSE(a->cluster->Record(kTwo));
  Pass(seconds(30));
  EXPECT_TRUE(a->holds) << "others might take it for lost";
  store_->Fail(0);
  b->cluster->Look();
  Pass(seconds(4));
  EXPECT_EQ(State().nodes.size(), 2u);
  EXPECT_FALSE(State().in_grace());
  EXPECT_FALSE(a->holds || b->holds);
  EXPECT_EQ(a->expelled + b->expelled, "");
}

// RFC 8881 §8.4.3.
TEST_F(ClusterTest, AClientWhoseStateWasGivenAwayMayNotReclaim) {
  auto a = Serve("a");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  a = Serve("a");
  EXPECT_TRUE(a->cluster->EndGrace());
  Kill(a);
  a = Serve("a");
  EXPECT_THAT(a->restart->clients, IsEmpty());
}

// The period of the others is over, although the server does not know.
TEST_F(ClusterTest, AnEndOfTheGracePeriodWhoseAnswerIsLostIsTriedAgain) {
  auto a = Serve("a", "one");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  a = Serve("a", "one");
  const CapturedLog log;
  store_->BeforeReplace([&] { store_->Fail(-ETIMEDOUT, true, "members"); });
  EXPECT_FALSE(a->cluster->EndGrace());
  store_->Fail(0);
  EXPECT_FALSE(State().in_grace());
  EXPECT_TRUE(a->cluster->EndGrace());
}

TEST_F(ClusterTest, AClientWhoseRemovalFailedIsRecordedAgain) {
  auto a = Serve("a");
  ASSERT_TRUE(a->cluster->Record(kOne));
  const CapturedLog log;
  store_->Fail(-ETIMEDOUT, true);
  EXPECT_FALSE(a->cluster->Remove(kOne.owner)) << "it keeps its state";
  store_->Fail(0);
  Pass(seconds(2));
  Kill(a);
  EXPECT_THAT(Serve("a")->restart->clients, ElementsAre(kOne));
}

TEST_F(ClusterTest, AServerIsExpelledAlsoIfOthersTookItForLostBeforeItStarted) {
  const auto a = Begin("a"), b = Serve("b");
  ASSERT_TRUE(a->restart);
  const CapturedLog log;
  Pass(seconds(30));
  a->cluster->Look();
  Serve(a);
  EXPECT_THAT(a->expelled, HasSubstr("taken this one for lost"));
}

// Others may read its clients at any time.
TEST_F(ClusterTest, AServerThatCannotShowThatItLivesRecordsNoClient) {
  const auto a = Serve("a");
  std::erase(servers_, a);
  Pass(seconds(8));
  EXPECT_TRUE(a->cluster->Record(kOne));
  Pass(seconds(4));
  const CapturedLog log;
  EXPECT_FALSE(a->cluster->Record(kTwo));
}

// It may have got a client at the last moment.
TEST_F(ClusterTest, ASilentServerWithoutClientsIsLostWithAGracePeriod) {
  const auto a = Serve("a"), b = Serve("b");
  std::erase(servers_, a);
  const CapturedLog log;
  Pass(seconds(24));
  EXPECT_TRUE(b->holds);
  EXPECT_TRUE(State().Knows(a->cluster->instance()));
}

TEST_F(ClusterTest, TheClientsOfAnUnreadableObjectDoNotKeepTheClusterFromLosingTheirServer) {
  auto a = Serve("a");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  const std::string object = Names("clients-").front();
  Kill(a);
  const CapturedLog log;
  store_->Fail(-EIO, false, object);
  Pass(seconds(24));
  EXPECT_TRUE(b->holds);
  Pass(seconds(100));
  EXPECT_FALSE(b->holds);
}

// Its clients could reclaim what others get meanwhile.
TEST_F(ClusterTest, AServerWhoseClientsCannotBeReadDoesNotStart) {
  auto a = Serve("a", "one");
  ASSERT_TRUE(a->cluster->Record(kOne));
  const std::string object = Names("clients-").front();
  Kill(a);
  const CapturedLog log;
  store_->Fail(-EIO, false, object);
  a = Begin("a", "one");
  ASSERT_FALSE(a->restart);
  EXPECT_THAT(a->restart.error().message, testing::AllOf(HasSubstr(object), HasSubstr("Input/output error")));
  store_->Fail(0);
  a = Serve("a", "one");
  EXPECT_THAT(a->restart->clients, ElementsAre(kOne));
}

TEST_F(ClusterTest, AServerThatStartsAgainAndAgainHoldsTheOthersForALimitedTime) {
  auto a = Serve("a", "one");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  const CapturedLog log;
  CrashAndRestart("a", seconds(60));
  EXPECT_TRUE(b->holds) << "the client may still come back";
  CrashAndRestart("a", seconds(140));
  EXPECT_FALSE(b->holds);
  EXPECT_THAT(Serve("a", "one")->restart->clients, IsEmpty());
}

TEST_F(ClusterTest, AServerThatIsKilledWheneverItHasStartedTakesTheClientsOfItsFirstRunForALimitedTime) {
  auto a = Serve("a", "one");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  const CapturedLog log;
  for (int i = 0; i < 20; ++i) {
    Kill(a);
    a = Serve("a", "one");
    EXPECT_EQ(a->restart->clients.size(), i < 18 ? 1u : 0u) << i;
    if (i >= 18) break;
    Pass(seconds(10));
  }
  Pass(seconds(4));
  EXPECT_FALSE(b->holds);
}

TEST_F(ClusterTest, AnOutageOfTheStoreTakesNoTimeFromClientsThatMayReclaim) {
  auto a = Serve("a", "one");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  a->cluster->Leave();
  Kill(a);
  Pass(seconds(60));
  const CapturedLog log;
  store_->Fail(-ETIMEDOUT);
  Pass(seconds(40));
  store_->Fail(0);
  Pass(seconds(20));
  EXPECT_THAT(Serve("a", "one")->restart->clients, ElementsAre(kOne));
}

TEST_F(ClusterTest, AnOutageOfTheStoreDuringAStartLosesNobody) {
  auto a = Serve("a", "one");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  std::erase(servers_, b);  // it enforces nothing yet
  const CapturedLog log;
  meanwhile_ = [&] {
    store_->Fail(-ETIMEDOUT);
    Pass(seconds(30));
    store_->Fail(0);
    servers_.push_back(b);
  };
  a = Begin("a", "one");
  ASSERT_TRUE(a->restart) << a->restart.error().message;
  EXPECT_TRUE(State().nodes.contains("b"));
}

// Each of them sees that the others have been silent.
TEST_F(ClusterTest, ServersThatWereSuspendedTogetherLoseNobody) {
  const auto a = Serve("a"), b = Serve("b");
  const CapturedLog log;
  now_ += seconds(3600);
  Pass(seconds(10));
  EXPECT_EQ(State().nodes.size(), 2u);
}

TEST_F(ClusterTest, AServerStartsWhenTheStoreWorksAgain) {
  const CapturedLog log;
  store_->Fail(-ETIMEDOUT, true);
  meanwhile_ = [&] { store_->Fail(0); };
  const auto a = Begin("a");
  ASSERT_TRUE(a->restart) << a->restart.error().message;
  EXPECT_EQ(State().nodes.size(), 1u);
}

// The write may have been made.
TEST_F(ClusterTest, AServerBecomesAMemberOnceIfItsFirstAttemptTimesOut) {
  const CapturedLog log;
  store_->BeforeReplace([&] { store_->Fail(-ETIMEDOUT, true, "members"); });
  meanwhile_ = [&] { store_->Fail(0); };
  const auto a = Begin("a");
  ASSERT_TRUE(a->restart) << a->restart.error().message;
  EXPECT_THAT(State().lost, IsEmpty());
  EXPECT_EQ(State().last_instance, a->cluster->instance());
}

TEST_F(ClusterTest, AServerThatCannotBeginLeaves) {
  const auto b = Serve("b");
  std::erase(servers_, b);  // it shows that it lives, but enforces nothing
  auto a = Serve("a", "one");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  const CapturedLog log;
  const std::string run = std::to_string(b->cluster->instance());
  std::function<void()> show = [&] {
    EXPECT_EQ(store_->SetEntry("beats", run, std::to_string(now_.time_since_epoch().count())), 0);
    meanwhile_ = show;
  };
  show();
  a = Begin("a", "one");
  ASSERT_FALSE(a->restart);
  EXPECT_THAT(a->restart.error().message, HasSubstr("do not enforce the grace period: b"));
  EXPECT_THAT(State().nodes, ElementsAre(testing::Key("b")));
  EXPECT_EQ(State().lost.size(), 1u) << "the client of the first run may reclaim later";
}

TEST_F(ClusterTest, AServerThatIsNoMemberEndsNoGracePeriod) {
  auto a = Serve("a", "one");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  a = Serve("a", "one");
  std::erase(servers_, a);
  const CapturedLog log;
  Pass(seconds(30));
  EXPECT_FALSE(a->cluster->EndGrace());
  EXPECT_TRUE(State().in_grace());
}

TEST_F(ClusterTest, AClientWhoseRecordFailedMayNotReclaim) {
  auto a = Serve("a", "one");
  const CapturedLog log;
  store_->Fail(-ETIMEDOUT, true);
  EXPECT_FALSE(a->cluster->Record(kOne));
  store_->Fail(0);
  Pass(seconds(2));
  ASSERT_TRUE(a->cluster->Record(kTwo));
  Kill(a);
  EXPECT_THAT(Serve("a", "one")->restart->clients, ElementsAre(kTwo));
}

TEST_F(ClusterTest, AClientOfAnEarlierRunWhoseRemovalFailedMayReclaimAgain) {
  auto a = Serve("a", "one");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  a = Serve("a", "one");
  const CapturedLog log;
  store_->Fail(-ETIMEDOUT, true);
  EXPECT_FALSE(a->cluster->Remove(kOne.owner)) << "it keeps the state that it has reclaimed";
  store_->Fail(0);
  Pass(seconds(2));
  Kill(a);
  EXPECT_THAT(Serve("a", "one")->restart->clients, ElementsAre(kOne));
}

// RFC 8881 §8.4.3. Whether the removal is repaired before the end of the period or after it.
TEST_F(ClusterTest, AClientOfAnEarlierRunWhoseRemovalFailedMayNotReclaimAfterTheGracePeriod) {
  for (const bool is_repaired_before : {true, false}) {
    auto a = Serve("a", "one");
    ASSERT_TRUE(a->cluster->Record(kOne));
    Kill(a);
    a = Serve("a", "one");
    const CapturedLog log;
    store_->Fail(-ETIMEDOUT, true);
    EXPECT_FALSE(a->cluster->Remove(kOne.owner));
    store_->Fail(0);
    if (is_repaired_before) a->cluster->Tidy();
    EXPECT_TRUE(a->cluster->EndGrace());
    Pass(seconds(2));
    Kill(a);
    a = Serve("a", "one");
    EXPECT_THAT(a->restart->clients, IsEmpty());
    Kill(a);
  }
}

// Each call of the store takes 2 s. That is no reason to take nobody for lost, or to end no period.
TEST_F(ClusterTest, ASlowStoreStopsNothing) {
  auto a = Serve("a", "one");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  Kill(a);
  const CapturedLog log;
  store_->BeforeEach([this] { now_ += seconds(2); });
  Pass(seconds(20));
  EXPECT_TRUE(b->holds);
  EXPECT_FALSE(State().nodes.contains("a"));
  Pass(seconds(60));
  EXPECT_FALSE(b->holds);
  EXPECT_EQ(b->expelled, "");
}

TEST_F(ClusterTest, ASecondRestartInTheGracePeriodTakesNoRightsFromClients) {
  auto a = Serve("a", "one");
  const auto b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  a->cluster->Leave();
  Kill(a);
  Pass(seconds(60));
  a = Serve("a", "one");
  Pass(seconds(40));
  a->cluster->Leave();
  Kill(a);
  Pass(seconds(10));
  EXPECT_THAT(Serve("a", "one")->restart->clients, ElementsAre(kOne));
  EXPECT_TRUE(b->holds);
}

// It gives no state, and removes no entry that its next run would read.
TEST_F(ClusterTest, AServerThatStalledChangesNoClients) {
  const auto a = Serve("a", "one"), b = Serve("b");
  ASSERT_TRUE(a->cluster->Record(kOne));
  std::erase(servers_, a);
  const CapturedLog log;
  Pass(seconds(30));
  EXPECT_FALSE(a->cluster->Remove(kOne.owner));
  EXPECT_FALSE(a->cluster->Record(kTwo));
  EXPECT_FALSE(a->holds) << "no thread has run yet";
  a->cluster->Look();
  EXPECT_TRUE(a->holds && !a->expelled.empty());
}

// The clock of a virtual machine may stand still with it.
TEST_F(ClusterTest, ARunThatOthersHaveEndedRecordsNoClient) {
  const auto a = Serve("a", "one"), b = Serve("b");
  std::erase(servers_, a);
  const CapturedLog log;
  const TimePoint before = now_;
  Pass(seconds(200));
  EXPECT_FALSE(b->holds);
  now_ = before;
  EXPECT_FALSE(a->cluster->Record(kOne));
}

TEST_F(ClusterTest, AStartThatWaitsCanBeStopped) {
  const auto b = Serve("b");
  auto a = Serve("a", "one");
  Kill(a);
  Cluster again(store_,
                {.name = "c", .node = "a", .server = "", .wait = [](Duration) { return false; }, .has_threads = false});
  const auto restart = again.Begin(kLease, kNow);
  ASSERT_FALSE(restart);
  EXPECT_EQ(restart.error().number, ECANCELED);
}

TEST_F(ClusterTest, AFailingStoreIsLoggedOnceAndItsReturnOnce) {
  const auto a = Serve("a");
  const CapturedLog log;
  store_->Fail(-EIO, false, "beats");
  for (int i = 0; i < 4; ++i) {
    a->cluster->Record(kOne);
    a->cluster->Look();
  }
  store_->Fail(0);
  for (int i = 0; i < 4; ++i) a->cluster->Look();
  const std::string text = log.text();
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_THAT(text, testing::AllOf(HasSubstr("cannot be used"), HasSubstr("can be used again")));
}

TEST_F(ClusterTest, APoolWithoutEntriesIsRefusedWithTheReason) {
  store_->Fail(-EOPNOTSUPP, false, "beats");
  const auto a = Begin("a");
  ASSERT_FALSE(a->restart);
  EXPECT_THAT(a->restart.error().message, HasSubstr("replicated pool"));
}

TEST_F(ClusterTest, WhatAKilledServerLeftIsRemoved) {
  const auto a = Serve("a");
  ASSERT_TRUE(a->cluster->Record(kOne));
  for (int i = 0; i < 120; ++i) ASSERT_EQ(store_->Replace("replies-5-" + std::to_string(i), 0, ""), 0);
  ASSERT_EQ(store_->Replace("clients-5", 0, ""), 0);
  ASSERT_EQ(store_->SetEntry("clients-5", "key", ""), 0);
  ASSERT_EQ(store_->SetEntry("beats", "5", "7"), 0);
  Pass(seconds(600));
  EXPECT_EQ(Names("clients-").size(), 1u);
  EXPECT_THAT(Names("replies-"), IsEmpty());
  std::map<std::string, std::string> beats;
  ASSERT_EQ(store_->ListEntries("beats", beats), 0);
  EXPECT_EQ(beats.size(), 1u);
}

TEST_F(ClusterTest, ADamagedRecordLosesOneClient) {
  auto a = Serve("a");
  ASSERT_TRUE(a->cluster->Record(kOne));
  ASSERT_EQ(store_->SetEntry(Names("clients-").front(), "damaged", "x"), 0);
  Kill(a);
  const CapturedLog log;
  EXPECT_THAT(Serve("a")->restart->clients, ElementsAre(kOne));
  EXPECT_THAT(log.text(), HasSubstr("the entry damaged"));
}

// With the threads and the clock of a server, which also shows a sanitizer the locks.
class ClusterThreadsTest : public testing::Test {
 protected:
  struct Server {
    explicit Server(std::shared_ptr<objects::Store> store, const char* node)
        : cluster(std::move(store), {.name = "c",
                                     .node = node,
                                     .server = node,
                                     .interval = std::chrono::milliseconds(10),
                                     .patience = seconds(30)}) {}
    ~Server() { cluster.Stop(); }

    void Start() {
      restart = cluster.Begin(kLease, kNow);
      if (!restart) return;
      const auto set = [this](bool should_hold) {
        const std::lock_guard lock(mutex);
        holds = should_hold;
        changed.notify_all();
      };
      cluster.Start({.hold = [=] { set(true); },
                     .release = [=] { set(false); },
                     .expelled = [](const std::string& why) { ADD_FAILURE() << why; }});
    }
    bool WaitUntil(bool should_hold) {
      std::unique_lock lock(mutex);
      return changed.wait_for(lock, seconds(60), [&] { return holds == should_hold; });
    }

    Cluster cluster;
    SetupResult<nfs::v4::RecoveryStore::Restart> restart;
    std::mutex mutex;  // guards the following
    std::condition_variable changed;
    bool holds = true;
  };

  const std::shared_ptr<objects::MemoryStore> store_ = std::make_shared<objects::MemoryStore>();
  const CapturedLog log_;
};

TEST_F(ClusterThreadsTest, ServersSeeEachOtherBeginAndEnd) {
  Server b(store_, "b");
  b.Start();
  ASSERT_TRUE(b.restart);
  {
    Server a(store_, "a");
    a.Start();
    ASSERT_TRUE(a.WaitUntil(false));
    ASSERT_TRUE(b.WaitUntil(false));
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(a.cluster.Record({"1" + std::to_string(i), {}}));
    ASSERT_TRUE(a.cluster.Remove("117"));
  }
  Server next(store_, "a");
  next.Start();
  ASSERT_TRUE(next.restart);
  EXPECT_EQ(next.restart->clients.size(), 99u);
  EXPECT_TRUE(b.WaitUntil(true));
  ASSERT_TRUE(next.cluster.EndGrace());
  EXPECT_TRUE(b.WaitUntil(false));
  EXPECT_TRUE(next.WaitUntil(false));
  next.cluster.Leave();
  b.cluster.Leave();
}

TEST_F(ClusterThreadsTest, TwoServersThatWereKilledStartTogether) {
  {
    Server a(store_, "a"), b(store_, "b");
    a.Start();
    b.Start();
    ASSERT_TRUE(a.cluster.Record(kOne));
    ASSERT_TRUE(b.cluster.Record(kTwo));
  }
  Server a(store_, "a"), b(store_, "b");
  std::thread first([&] { a.Start(); });
  b.Start();
  first.join();
  ASSERT_TRUE(a.restart && b.restart);
  EXPECT_THAT(a.restart->clients, ElementsAre(kOne));
  EXPECT_THAT(b.restart->clients, ElementsAre(kTwo));
  EXPECT_TRUE(a.cluster.EndGrace());
  a.cluster.Look();
  EXPECT_TRUE(a.holds) << "the clients of the other one still reclaim";
  EXPECT_TRUE(b.cluster.EndGrace());
  EXPECT_TRUE(a.WaitUntil(false));
  EXPECT_TRUE(b.WaitUntil(false));
}

TEST_F(ClusterTest, DamagedMembersAreAnError) {
  ASSERT_EQ(store_->Replace("members", 0, "{}"), 0);
  const auto a = Begin("a");
  ASSERT_FALSE(a->restart);
  EXPECT_THAT(a->restart.error().message, HasSubstr("the cluster c: its object members is damaged"));
}

TEST(ClusterClientEntry, EveryClientIsTheSameAfterItWasWritten) {
  const RecoveryRecord machine{"1machine", {.flavor = rpc::AuthFlavor::RPCSEC_GSS, .name = std::string("\0n\xff", 3)}};
  for (const RecoveryRecord& each : {kOne, kTwo, machine, RecoveryRecord{}}) {
    const std::string value = ValueOf(each);
    EXPECT_EQ(ParseClient(value), each);
    EXPECT_FALSE(ParseClient(std::string_view(value).substr(0, 11)));
  }
  EXPECT_FALSE(ParseClient(std::string(11, '\xff')));
  EXPECT_FALSE(ParseClient(std::string(20, '\xff'))) << "the owner would be longer than the value";
}

}  // namespace
}  // namespace penstock::cluster
