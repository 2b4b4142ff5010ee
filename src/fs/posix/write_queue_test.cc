// Tests of the order and the threads of writes.
#include "fs/posix/write_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "base/test_loop.h"
#include "fs/posix/open_objects.h"

namespace penstock::fs::posix {
namespace {

class WriteQueueTest : public testing::Test {
 protected:
  // The objects have no files, because the queue only compares them.
  const ObjectRef file_ = Another(), other_file_ = Another();
  static ObjectRef Another() {
    return std::make_shared<Object>(Handle(), FileDescriptor(-1), FileType::kRegular, std::make_shared<OpenObjects>(1),
                                    nullptr);
  }

  template <class Write>
  void Start(WriteQueue& queue, uint64_t client, const ObjectRef& file, Write write) {
    Spawn(Run(queue, client, file, std::move(write)));
  }
  template <class Write>
  Task<void> Run(WriteQueue& queue, uint64_t client, ObjectRef file, Write write) {
    RequestContext context;
    context.loop = &loop_;
    context.client = {client, client};
    const int given = co_await queue.Run(context, file, write);
    EXPECT_TRUE(loop_.IsCurrent());
    answers_.push_back(given);
  }
  bool HasAnswers(size_t count) {
    return TurnUntil(loop_, [&] { return answers_.size() >= count; });
  }

  Loop loop_;
  std::vector<int> answers_;
};

TEST_F(WriteQueueTest, KeepsTheOrderOfWritesOfAClientToAFile) {
  Workers pool(8);
  WriteQueue queue(pool);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    Start(queue, 1, file_, [&order, i, loop = &loop_] {
      EXPECT_FALSE(loop->IsCurrent());
      order.push_back(i);
      return i;
    });
  }
  ASSERT_TRUE(HasAnswers(100));
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(answers_, order);
}

TEST_F(WriteQueueTest, YieldsTheThreadToOtherClients) {
  Workers pool(1);
  WriteQueue queue(pool);
  std::latch begun(1), may_end(1);
  std::string order;
  Start(queue, 1, file_, [&] {
    begun.count_down();
    may_end.wait();
    return 0;
  });
  begun.wait();
  for (int i = 0; i < 50; ++i) Start(queue, 1, file_, [&order] { return static_cast<int>((order += 'a').size()); });
  pool.Post([&order] { order += 'b'; }, {.host = 2, .connection = 2});
  may_end.count_down();
  ASSERT_TRUE(HasAnswers(51));
  EXPECT_EQ(order.size(), 51u);
  EXPECT_LT(order.find('b'), 10u);
}

TEST_F(WriteQueueTest, HangingWriteDelaysNeitherOtherFilesNorOtherClients) {
  Workers pool(8);
  WriteQueue queue(pool);
  std::latch begun(1), may_end(1);
  Start(queue, 1, file_, [&] {
    begun.count_down();
    may_end.wait();
    return 1;
  });
  begun.wait();
  Start(queue, 1, file_, [] { return 2; });
  Start(queue, 1, other_file_, [] { return 3; });
  Start(queue, 2, file_, [] { return 4; });
  EXPECT_TRUE(HasAnswers(2));
  EXPECT_THAT(answers_, testing::UnorderedElementsAre(3, 4));
  may_end.count_down();
  EXPECT_TRUE(HasAnswers(4));
  EXPECT_THAT(answers_, testing::UnorderedElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace penstock::fs::posix
