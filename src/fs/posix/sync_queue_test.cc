// Tests of which calls a sync serves.
#include "fs/posix/sync_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <semaphore>
#include <utility>
#include <vector>

#include "base/task.h"
#include "base/test_loop.h"

namespace penstock::fs::posix {
namespace {

class SyncQueueTest : public testing::Test {
 protected:
  // Both calls wait before either is served, because the only thread is busy.
  void SyncTogether(bool first_wants_data_only, bool second_wants_data_only) {
    std::binary_semaphore go(0);
    pool_.Post([&go] { go.acquire(); });
    Spawn(Sync(first_wants_data_only));
    Spawn(Sync(second_wants_data_only));
    go.release();
    EXPECT_TRUE(TurnUntil(loop_, [this] { return served_ == 2; }));
    served_ = 0;
  }
  Task<void> Sync(bool data_only) {
    RequestContext context;
    context.loop = &loop_;
    const SharedFile file = std::make_shared<const FileDescriptor>(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    const Result<void> result = co_await queue_.Sync(context, WorkKind::kData, nullptr, file, data_only);
    EXPECT_TRUE(result);
    ++served_;
  }

  // Whether a sync on the calling thread took place at once.
  bool SyncNow() { return queue_.SyncNow(nullptr, -1, true).has_value(); }

  Loop loop_;
  std::vector<bool> data_only_;  // the argument of each sync
  std::function<void()> during_sync_ = [] {};
  int served_ = 0;
  Workers pool_{1};
  SyncQueue queue_{pool_, [this](int, bool data_only) {
                     data_only_.push_back(data_only);
                     std::exchange(during_sync_, [] {})();
                     return Result<void>();
                   }};
};

TEST_F(SyncQueueTest, SyncsMetadataIfAnyServedCallNeedsIt) {
  SyncTogether(true, false);
  SyncTogether(false, true);
  EXPECT_THAT(data_only_, testing::ElementsAre(false, false));
}

TEST_F(SyncQueueTest, SyncsDataOnlyIfNoServedCallNeedsMetadata) {
  SyncTogether(true, true);
  EXPECT_THAT(data_only_, testing::ElementsAre(true));
}

TEST_F(SyncQueueTest, SyncsNowIfNoCallSyncsTheObject) {
  EXPECT_TRUE(SyncNow());
  EXPECT_TRUE(SyncNow());
  EXPECT_THAT(data_only_, testing::ElementsAre(true, true));
}

TEST_F(SyncQueueTest, SyncsNothingNowWhileTasksWaitForAThread) {
  std::binary_semaphore go(0);
  pool_.Post([&go] { go.acquire(); });
  pool_.Post([] {});
  EXPECT_FALSE(SyncNow());
  go.release();
}

TEST_F(SyncQueueTest, SyncsNothingNowWhileCallsWaitForASync) {
  std::binary_semaphore go(0);
  pool_.Post([&go] { go.acquire(); });
  Spawn(Sync(true));
  EXPECT_FALSE(SyncNow());
  go.release();
  EXPECT_TRUE(TurnUntil(loop_, [this] { return served_ == 1; }));
  EXPECT_TRUE(SyncNow());
}

TEST_F(SyncQueueTest, ServesCallsThatComeDuringASyncNowByTheNextOne) {
  during_sync_ = [this] {
    Spawn(Sync(false));
    Spawn(Sync(true));
    EXPECT_FALSE(SyncNow());
  };
  EXPECT_TRUE(SyncNow());
  EXPECT_TRUE(TurnUntil(loop_, [this] { return served_ == 2; }));
  EXPECT_THAT(data_only_, testing::ElementsAre(true, false));
}

}  // namespace
}  // namespace penstock::fs::posix
