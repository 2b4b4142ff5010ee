// Tests of which calls a sync serves.
#include "fs/posix/sync_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <semaphore>
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

  Loop loop_;
  std::vector<bool> data_only_;  // the argument of each sync
  int served_ = 0;
  Workers pool_{1};
  SyncQueue queue_{pool_, [this](int, bool data_only) {
                     data_only_.push_back(data_only);
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

}  // namespace
}  // namespace penstock::fs::posix
