// The stores of a cluster do what those of one server do.
#include <gtest/gtest.h>

#include "base/test_log.h"
#include "cluster/cluster.h"
#include "cluster/reply_objects.h"
#include "nfs/v4/state/stable/recovery_suite.h"
#include "nfs/v4/state/stable/reply_store_suite.h"
#include "objects/memory_store.h"

namespace penstock::nfs::v4::suite {
namespace {

// One server, alone in its cluster, which is killed again and again.
class ClusterRecoveryHome : public RecoveryHome {
 public:
  std::shared_ptr<RecoveryStore> Open() override {
    struct Opened {
      explicit Opened(std::shared_ptr<objects::Store> objects)
          : cluster(std::move(objects), {.name = "c",
                                         .node = "a",
                                         .server = "one",
                                         .wait = [](Duration) { return true; },
                                         .has_threads = false}),
            store(cluster.MakeRecoveryStore()) {}
      cluster::Cluster cluster;
      std::unique_ptr<RecoveryStore> store;
    };
    const auto opened = std::make_shared<Opened>(store_);
    return {opened, opened->store.get()};
  }

 private:
  const std::shared_ptr<objects::Store> store_ = std::make_shared<objects::MemoryStore>();
};

class ObjectsReplyHome : public ReplyHome {
 public:
  std::shared_ptr<ReplyStore> Open() override {
    std::vector<uint32_t> ended;
    for (uint32_t run = 1; run <= runs_; ++run) ended.push_back(run);
    auto opened = cluster::OpenReplyObjects(store_, ++runs_, ended);
    EXPECT_TRUE(opened);
    return *std::move(opened);
  }

 private:
  const std::shared_ptr<objects::Store> store_ = std::make_shared<objects::MemoryStore>();
  uint32_t runs_ = 0;
};

TEST(ReplyObjectsTest, ADamagedObjectIsLeftOut) {
  const auto store = std::make_shared<objects::MemoryStore>();
  const CapturedLog log;
  for (const char* name : {"replies-1-00000000000000000000000000000000", "replies-1-0", "replies-1-x"}) {
    ASSERT_EQ(store->Replace(name, 0, "something else, of 40 octets and more....."), 0);
    const auto opened = cluster::OpenReplyObjects(store, 2, {1});
    ASSERT_TRUE(opened);
    EXPECT_THAT((*opened)->Load(), IsEmpty());
    EXPECT_THAT(log.text(), testing::HasSubstr(name));
    store->Remove(name);
  }
}

// A request may end after its session.
TEST(ReplyObjectsTest, AReplyOfARemovedSessionIsNotKept) {
  const auto store = std::make_shared<objects::MemoryStore>();
  auto replies = cluster::OpenReplyObjects(store, 1, {});
  const auto session = (*replies)->Create(Session(1), kRoom);
  session->Remove();
  EXPECT_FALSE(session->Keep(SlotId(0), {}, true));
  EXPECT_THAT((*cluster::OpenReplyObjects(store, 2, {1}))->Load(), IsEmpty());
}

TEST(ReplyObjectsTest, TheSessionsOfOtherRunsAreNotLoaded) {
  const auto store = std::make_shared<objects::MemoryStore>();
  auto first = cluster::OpenReplyObjects(store, 1, {});
  ASSERT_TRUE((*first)->Create(Session(1), kRoom));
  EXPECT_THAT((*cluster::OpenReplyObjects(store, 11, {}))->Load(), IsEmpty());
  EXPECT_THAT((*cluster::OpenReplyObjects(store, 2, {11}))->Load(), IsEmpty());
  EXPECT_THAT((*cluster::OpenReplyObjects(store, 2, {1}))->Load(), SizeIs(1));
}

TEST(ReplyObjectsTest, AStoreThatFailsGivesNoPersistentSession) {
  const auto store = std::make_shared<objects::MemoryStore>();
  auto replies = cluster::OpenReplyObjects(store, 1, {});
  const auto session = (*replies)->Create(Session(1), kRoom);
  store->Fail(-ETIMEDOUT);
  EXPECT_FALSE((*replies)->Create(Session(2), kRoom));
  EXPECT_FALSE(session->Keep(SlotId(0), {}, true));
  EXPECT_FALSE(cluster::OpenReplyObjects(store, 2, {1}));
}

}  // namespace

PENSTOCK_RECOVERY_STORE_SUITE(Cluster, testing::Values(RecoveryParameter{
                                           "cluster", [] { return std::make_unique<ClusterRecoveryHome>(); }}));
PENSTOCK_REPLY_STORE_SUITE(Cluster, testing::Values(ReplyParameter{
                                        "objects", [] { return std::make_unique<ObjectsReplyHome>(); }}));

}  // namespace penstock::nfs::v4::suite
