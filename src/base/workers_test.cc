#include "base/workers.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/loop.h"
#include "base/task.h"

namespace penstock {
namespace {

TEST(Workers, ThreadsHaveTheirSettingsAndTheLoggerOfTheirMaker) {
  std::string logged;
  const auto logger =
      std::make_shared<log::Logger>([&](const log::Record& record) { logged += record.message; }, log::Level::kInfo);
  std::atomic<int> begun = 0;
  std::optional<Workers> workers;
  {
    const log::ThreadLoggerScope scope(logger);
    workers.emplace(4, Workers::AtEnd::kWait,
                    Workers::ThreadSettings{.name = "penstock-test", .begin = [&] { ++begun; }});
  }
  std::array<char, 16> name{};
  // Threads that another thread's Post() starts belong to the pool all the same.
  std::latch both(2);
  for (size_t i = 0; i < 2; ++i) {
    const auto run = [&, i] {
      both.arrive_and_wait();
      if (i == 0) return;
      log::info("from the pool");
      ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    };
    workers->Post(run, ClientKey{.host = i + 1});
  }
  workers->Join();
  EXPECT_STREQ(name.data(), "penstock-test");
  EXPECT_EQ(logged, "from the pool");
  EXPECT_GE(begun, 2);
}

TEST(Workers, JoinWaitsForPostedFunctions) {
  Workers workers(1);
  std::thread::id ran_on;
  auto owned = std::make_unique<int>(7);
  int seen = 0;
  workers.Post([&] { ran_on = std::this_thread::get_id(); });
  workers.Post([&seen, owned = std::move(owned)] { seen = *owned; });
  workers.Join();
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_EQ(seen, 7);
}

TEST(Workers, JoinWaitsForFunctionsPostedMeanwhile) {
  for (const size_t threads : {1, 2, 8}) {
    Workers workers(threads);
    std::atomic<int> ran = 0;
    for (int i = 0; i < 100; ++i) {
      workers.Post([&] {
        ++ran;
        workers.Post([&] { ++ran; });
      });
    }
    workers.Join();
    EXPECT_EQ(ran, 200) << threads;
  }
}

TEST(Workers, DestructorDestroysFunctionsThatHaveNotStarted) {
  const auto owned = std::make_shared<int>(7);
  bool ran = false;
  {
    std::latch begun(1), may_end(1);
    std::thread releases;
    {
      Workers workers(1);
      workers.Post([&] {
        begun.count_down();
        may_end.wait();
      });
      begun.wait();
      workers.Post([&ran, owned] { ran = true; });
      EXPECT_EQ(owned.use_count(), 2);
      releases = std::thread([&] {
        while (owned.use_count() > 1) std::this_thread::yield();  // the pool destroys it before its threads end
        may_end.count_down();
      });
    }
    releases.join();
  }
  EXPECT_FALSE(ran);
}

TEST(Workers, WaitsForIdleThreadsWhenItLeavesTheBusyOnes) {
  const bool before = Workers::have_left_threads();
  {
    Workers workers(2, Workers::AtEnd::kLeave);
    workers.Post([] {});
    while (workers.statistics().busy + workers.statistics().waiting_metadata > 0) std::this_thread::yield();
  }
  EXPECT_EQ(Workers::have_left_threads(), before);
}

TEST(Workers, LeavesRunningFunctionsToThemselves) {
  struct Shared {
    std::latch begun{1}, may_end{1}, ended{1};
  };
  const auto shared = std::make_shared<Shared>();
  const auto owned = std::make_shared<int>(7);
  {
    Workers workers(1, Workers::AtEnd::kLeave);
    workers.Post([shared] {
      shared->begun.count_down();
      shared->may_end.wait();
      shared->ended.count_down();
    });
    shared->begun.wait();
    workers.Post([owned] {});
  }
  EXPECT_EQ(owned.use_count(), 1);  // the pool has destroyed the function that had not started
  EXPECT_TRUE(Workers::have_left_threads());
  shared->may_end.count_down();
  shared->ended.wait();
}

TEST(Workers, DestroysFunctionsPostedAfterJoin) {
  Workers workers(2);
  workers.Join();
  const auto owned = std::make_shared<int>(7);
  workers.Post([owned] {});
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(Workers, WantsItsThreadsBackWhileOtherFunctionsWait) {
  Workers workers(1);
  EXPECT_FALSE(workers.is_wanted());
  std::latch begun(1), may_end(1);
  workers.Post([&] {
    begun.count_down();
    may_end.wait();
  });
  begun.wait();
  EXPECT_FALSE(workers.is_wanted());
  workers.Post([] {});
  EXPECT_TRUE(workers.is_wanted());
  may_end.count_down();
  workers.Join();
  EXPECT_FALSE(workers.is_wanted());
}

TEST(Workers, WantsItsThreadsBackWhileThePoolEnds) {
  std::latch begun(1);
  std::optional<Workers> workers(std::in_place, 1);
  workers->Post([&begun, &pool = *workers] {
    begun.count_down();
    while (!pool.is_wanted()) std::this_thread::yield();
  });
  begun.wait();
  workers.reset();  // would hang if is_wanted() stayed false
}

// --- Clients

// Functions that block until End().
class Hanging {
 public:
  ~Hanging() { End(); }
  // Posts a function, and waits until it has started.
  void Post(Workers& workers, const ClientKey& client, WorkKind work) {
    const size_t before = begun();
    PostOnly(workers, client, work);
    for (size_t now = before; now == before; now = begun()) begun_.wait(now);
  }
  void PostOnly(Workers& workers, const ClientKey& client, WorkKind work) {
    workers.Post(
        [this] {
          ++begun_;
          begun_.notify_all();
          end_.wait(false);
        },
        client, work);
  }
  size_t begun() const { return begun_; }
  void End() {
    end_ = true;
    end_.notify_all();
  }

 private:
  std::atomic<size_t> begun_ = 0;
  std::atomic<bool> end_ = false;
};

constexpr ClientKey HostOf(uint64_t number) { return {.host = number, .connection = number}; }

// Returns true if a function of the client runs within a minute.
bool Runs(Workers& workers, const ClientKey& client, WorkKind work) {
  const auto ran = std::make_shared<std::promise<void>>();
  workers.Post([ran] { ran->set_value(); }, client, work);
  return ran->get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready;
}

TEST(Workers, ReservesAQuarterOfTheThreadsForMetadata) {
  const std::pair<size_t, size_t> kForData[] = {{1, 1}, {2, 1}, {4, 3}, {8, 6}, {16, 12}};
  for (const auto& [threads, for_data] : kForData) {
    const Workers workers(threads);
    EXPECT_EQ(workers.threads_for(WorkKind::kMetadata), threads);
    EXPECT_EQ(workers.threads_for(WorkKind::kData), for_data) << threads;
  }
}

TEST(Workers, RunsMetadataWhileDataHangs) {
  Workers workers(8);
  Hanging data;
  const size_t threads = workers.threads_for(WorkKind::kData);
  for (uint64_t host = 1; host <= threads; ++host) data.Post(workers, HostOf(host), WorkKind::kData);
  for (int i = 0; i < 100; ++i) data.PostOnly(workers, HostOf(1), WorkKind::kData);
  EXPECT_TRUE(Runs(workers, HostOf(1), WorkKind::kMetadata)) << "of a client with waiting data functions";
  EXPECT_TRUE(Runs(workers, HostOf(99), WorkKind::kMetadata));
  EXPECT_EQ(data.begun(), threads);
  data.End();
  workers.Join();
  EXPECT_EQ(data.begun(), threads + 100);
}

TEST(Workers, ServesOthersWhileClientsHang) {
  for (const WorkKind work : {WorkKind::kMetadata, WorkKind::kData}) {
    Workers workers(32);
    Hanging hanging;
    for (uint64_t client = 1; client <= 4; ++client) {
      hanging.Post(workers, HostOf(client), work);
      for (int i = 0; i < 100; ++i) hanging.PostOnly(workers, HostOf(client), work);
    }
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(Runs(workers, HostOf(99), work));
    hanging.End();
    workers.Join();
    EXPECT_EQ(hanging.begun(), 404u);
  }
}

TEST(Workers, IdleThreadsWakeOneAnotherUntilEachFunctionOfABurstRuns) {
  Workers workers(8);
  for (int round = 0; round < 2; ++round) {  // in the second round, all threads are there and idle
    Hanging hanging;
    for (uint64_t host = 1; host <= 7; ++host) hanging.PostOnly(workers, HostOf(host), WorkKind::kMetadata);
    EXPECT_TRUE(Runs(workers, HostOf(8), WorkKind::kMetadata));
    hanging.End();
    while (workers.statistics().busy > 0) std::this_thread::yield();
    EXPECT_EQ(hanging.begun(), 7u);
  }
}

TEST(Workers, AlternatesBetweenClients) {
  Workers workers(1);
  std::latch begun(1), may_end(1);
  std::string order;
  workers.Post([&] {
    begun.count_down();
    may_end.wait();
  });
  begun.wait();
  for (const auto& [name, host] : {std::pair('a', 1u), std::pair('a', 1u), std::pair('a', 1u), std::pair('b', 2u)}) {
    workers.Post([&order, name] { order += name; }, HostOf(host));
  }
  may_end.count_down();
  workers.Join();
  EXPECT_EQ(order, "abaa");
}

TEST(Offload, RunsOnAWorkerAndResumesOnTheLoop) {
  Loop loop;
  Workers workers(1);
  std::thread::id worked_on;
  std::thread::id resumed_on;
  Spawn([](auto& l, auto& w, auto& worked, auto& resumed) -> Task<void> {
    worked = co_await Offload(l, w, [] { return std::this_thread::get_id(); });
    resumed = std::this_thread::get_id();
    l.Stop();
  }(loop, workers, worked_on, resumed_on));
  loop.Run();
  EXPECT_NE(worked_on, std::this_thread::get_id());
  EXPECT_EQ(resumed_on, std::this_thread::get_id());
}

TEST(Offload, RunsAtOnceWithoutALoopOrWorkers) {
  Loop loop;
  Workers workers(1);
  const auto here = [] { return std::this_thread::get_id(); };
  std::thread::id without_loop, without_workers;
  Spawn([](auto& l, auto& w, auto work, auto& first, auto& second) -> Task<void> {
    first = co_await Offload(nullptr, &w, work);
    second = co_await Offload(&l, nullptr, work);
  }(loop, workers, here, without_loop, without_workers));
  EXPECT_EQ(without_loop, std::this_thread::get_id());
  EXPECT_EQ(without_workers, std::this_thread::get_id());
}

}  // namespace
}  // namespace penstock
