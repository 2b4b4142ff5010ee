#include "rdma/verbs/work_queue.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace penstock::rdma::verbs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr size_t kBatch = 64;

class WorkQueueTest : public testing::Test {
 protected:
  void AddSend(Context context) { Add(context, Operation::kSend); }
  void AddRead(Context context) { Add(context, Operation::kRead); }

  // Gives the adapter one batch and returns the contexts of its requests.
  std::vector<Context> PostBatch(size_t most = kBatch) {
    std::vector<Context> contexts;
    std::vector<WorkRequest> batch = queue_.TakeBatch(most);
    for (size_t i = 0; i < batch.size(); ++i) {
      contexts.push_back(batch[i].context);
      last_ticket_ = queue_.Post(std::move(batch[i]), i + 1 == batch.size());
    }
    return contexts;
  }
  std::vector<Context> Complete(uint64_t number) {
    std::vector<Context> done;
    queue_.HandleCompleted(number, [&](WorkRequest& request) { done.push_back(request.context); });
    return done;
  }
  std::vector<std::pair<Context, Status>> Flush() {
    std::vector<std::pair<Context, Status>> flushed;
    queue_.Flush([&](WorkRequest& request, Status status) { flushed.emplace_back(request.context, status); });
    return flushed;
  }

  WorkQueue queue_{8};
  SendPlaces::Ticket last_ticket_;

 private:
  void Add(Context context, Operation operation) {
    WorkRequest request;
    request.context = context;
    request.operation = operation;
    queue_.Add(std::move(request));
  }
};

TEST_F(WorkQueueTest, BatchHoldsRequestsInTheOrderOfPosting) {
  for (Context context = 1; context <= 3; ++context) AddSend(context);
  EXPECT_THAT(PostBatch(), ElementsAre(1, 2, 3));
  EXPECT_EQ(last_ticket_.number, 2u);
  EXPECT_TRUE(last_ticket_.signalled);
  EXPECT_THAT(PostBatch(), IsEmpty());
}

TEST_F(WorkQueueTest, BatchIsNoLongerThanTheCallerAsks) {
  for (Context context = 1; context <= 3; ++context) AddSend(context);
  EXPECT_THAT(PostBatch(2), ElementsAre(1, 2));
  EXPECT_THAT(PostBatch(2), ElementsAre(3));
}

TEST_F(WorkQueueTest, RequestsBeyondTheDepthWaitForACompletion) {
  for (Context context = 1; context <= 10; ++context) AddSend(context);
  EXPECT_EQ(PostBatch().size(), 8u);
  EXPECT_THAT(PostBatch(), IsEmpty());
  EXPECT_THAT(Complete(3), ElementsAre(1, 2, 3, 4)) << "every fourth request of this queue asks for a completion";
  EXPECT_THAT(PostBatch(), ElementsAre(9, 10));
}

TEST_F(WorkQueueTest, CompletionCompletesEarlierUnsignalledRequestsInOrder) {
  for (Context context = 1; context <= 3; ++context) AddSend(context);
  PostBatch();
  EXPECT_FALSE(queue_.empty());
  EXPECT_THAT(Complete(2), ElementsAre(1, 2, 3));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(WorkQueueTest, IgnoresACompletionThatNoRequestAsksFor) {
  AddSend(1);
  AddSend(2);
  PostBatch();
  EXPECT_THAT(Complete(0), IsEmpty());
  EXPECT_THAT(Complete(9), IsEmpty());
  EXPECT_THAT(Complete(1), ElementsAre(1, 2));
}

TEST_F(WorkQueueTest, ReadBeyondOrdWaitsAndLaterSendsPassIt) {
  queue_.set_ord(1);
  AddRead(1);
  AddRead(2);
  AddSend(3);
  AddRead(4);
  EXPECT_THAT(PostBatch(), ElementsAre(1, 3));
  EXPECT_FALSE(queue_.empty());
  EXPECT_THAT(PostBatch(), IsEmpty());
  EXPECT_THAT(Complete(0), ElementsAre(1));
  AddSend(5);
  EXPECT_THAT(PostBatch(), ElementsAre(2, 5)) << "the delayed Read goes first";
  EXPECT_THAT(Complete(2), ElementsAre(2));
  EXPECT_THAT(PostBatch(), ElementsAre(4));
}

TEST_F(WorkQueueTest, SendThatPassesAReadDoesNotCompleteIt) {
  queue_.set_ord(1);
  AddRead(1);
  AddSend(2);
  PostBatch();
  EXPECT_THAT(Complete(1), ElementsAre(2));
  EXPECT_THAT(Complete(0), ElementsAre(1));
}

TEST_F(WorkQueueTest, FlushReturnsPostedThenDelayedThenWaitingRequests) {
  queue_.set_ord(1);
  AddRead(1);
  AddRead(2);
  AddSend(3);
  PostBatch();
  AddSend(4);
  EXPECT_THAT(Flush(), ElementsAre(Pair(1, Status::kFlushed), Pair(3, Status::kFlushed), Pair(2, Status::kFlushed),
                                   Pair(4, Status::kFlushed)));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(WorkQueueTest, FlushGivesTheBlamedRequestItsStatus) {
  for (Context context = 1; context <= 3; ++context) AddSend(context);
  PostBatch();
  queue_.Blame(1, Status::kRemoteAccess);
  EXPECT_THAT(Flush(),
              ElementsAre(Pair(1, Status::kFlushed), Pair(2, Status::kRemoteAccess), Pair(3, Status::kFlushed)));
}

}  // namespace
}  // namespace penstock::rdma::verbs
