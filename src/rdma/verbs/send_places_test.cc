#include "rdma/verbs/send_places.h"

#include <gmock/gmock.h>

#include <vector>

namespace penstock::rdma::verbs {
namespace {

using testing::ElementsAre;
using Signal = SendPlaces::Signal;

struct Queue : SendPlaces {
  using SendPlaces::SendPlaces;
  std::vector<uint64_t> Completed(uint64_t number) {
    std::vector<uint64_t> done;
    known = HandleCompleted(number, [&](uint64_t each) { done.push_back(each); });
    return done;
  }
  bool known = false;
};

TEST(SendPlaces, SignalsTheLastRequestOfABatchWhichCompletesTheEarlierOnes) {
  Queue queue(64);
  EXPECT_FALSE(queue.Post(Signal::kWhenDue, false).signalled);
  EXPECT_FALSE(queue.Post(Signal::kWhenDue, false).signalled);
  const auto last = queue.Post(Signal::kWhenDue, true);
  EXPECT_TRUE(last.signalled);
  EXPECT_EQ(last.number, 2u);
  EXPECT_EQ(queue.room(), 61u);
  EXPECT_THAT(queue.Completed(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(queue.room(), 64u);
  EXPECT_EQ(queue.head(), 3u);
}

TEST(SendPlaces, SignalsEverySixteenthRequestOfALongBatch) {
  Queue queue(256);
  int signalled = 0;
  for (int i = 0; i < 64; ++i) signalled += queue.Post(Signal::kWhenDue, false).signalled;
  EXPECT_EQ(signalled, 4);
}

// Without it, no completion would ever free a place.
TEST(SendPlaces, SignalsTheRequestThatTakesTheLastPlace) {
  for (uint32_t depth : {2u, 3u, 5u, 40u}) {
    Queue queue(depth);
    bool signalled = false;
    while (queue.room() > 0) signalled = queue.Post(Signal::kWhenDue, false).signalled;
    EXPECT_TRUE(signalled) << depth;
  }
}

TEST(SendPlaces, KeepsThePlaceOfAReadThatASendOvertakes) {
  Queue queue(8);
  queue.Post(Signal::kWhenDue, false);  // 0, a Send
  EXPECT_TRUE(queue.Post(Signal::kAlways, false).signalled);
  queue.Post(Signal::kWhenDue, true);  // 2, a Send
  EXPECT_THAT(queue.Completed(2), ElementsAre(0, 2)) << "only its own completion completes the Read";
  EXPECT_EQ(queue.head(), 1u);
  EXPECT_EQ(queue.room(), 6u);
  EXPECT_THAT(queue.Completed(1), ElementsAre(1));
  EXPECT_TRUE(queue.empty());
}

TEST(SendPlaces, IgnoresACompletionThatNoRequestAsksFor) {
  Queue queue(8);
  queue.Post(Signal::kWhenDue, false);
  queue.Post(Signal::kWhenDue, true);
  EXPECT_THAT(queue.Completed(0), ElementsAre());
  EXPECT_FALSE(queue.known) << "request 0 did not ask for a completion";
  EXPECT_THAT(queue.Completed(7), ElementsAre());
  EXPECT_FALSE(queue.known) << "no request has this number";
  EXPECT_THAT(queue.Completed(1), ElementsAre(0, 1));
  EXPECT_TRUE(queue.known);
  EXPECT_THAT(queue.Completed(1), ElementsAre());
  EXPECT_FALSE(queue.known) << "the request is done already";
}

TEST(SendPlaces, FlushReturnsUnfinishedRequestsInOrder) {
  Queue queue(8);
  queue.Post(Signal::kAlways, false);   // 0
  queue.Post(Signal::kWhenDue, false);  // 1
  queue.Post(Signal::kWhenDue, true);   // 2
  queue.Post(Signal::kWhenDue, false);  // 3
  EXPECT_THAT(queue.Completed(2), ElementsAre(1, 2));
  std::vector<uint64_t> flushed;
  queue.Flush([&](uint64_t number) { flushed.push_back(number); });
  EXPECT_THAT(flushed, ElementsAre(0, 3));
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace penstock::rdma::verbs
