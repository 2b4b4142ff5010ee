#include "rpcrdma/pending_calls.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/task.h"
#include "rpcrdma/wait_queue.h"

namespace penstock::rpcrdma {
namespace {

using rpc::Xid;

TEST(PendingCalls, BehavesLikeAMap) {
  std::minstd_rand random(7);
  PendingCalls<int> pending;
  std::map<uint32_t, int*> model;
  std::vector<int> calls(1000);
  for (int step = 0; step < 20000; ++step) {
    // Use few different XIDs, and let many of them collide in the table.
    const uint32_t xid = (random() % 64) * (random() % 2 ? 1 : 4096);
    ASSERT_EQ(pending.Contains(Xid(xid)), model.contains(xid));
    if (!model.contains(xid)) {
      int* call = &calls[random() % calls.size()];
      pending.Insert(Xid(xid), call);
      model[xid] = call;
    } else if (random() % 4 == 0) {
      pending.GiveUp(Xid(xid));
      model[xid] = nullptr;
      EXPECT_EQ(pending.Get(Xid(xid)), nullptr);
    } else {
      EXPECT_EQ(pending.Get(Xid(xid)), model[xid]);
      EXPECT_EQ(pending.Remove(Xid(xid)), model[xid]);
      model.erase(xid);
    }
    ASSERT_EQ(pending.size(), model.size());
  }
  size_t seen = 0;
  pending.ForEach([&](Xid xid, int* call) {
    EXPECT_EQ(model.at(xid.value()), call);
    ++seen;
  });
  EXPECT_EQ(seen, model.size());
  pending.Clear();
  EXPECT_TRUE(pending.empty());
}

Task<void> WaitFor(WaitQueue<int>& queue, int request, std::vector<std::pair<int, bool>>& log) {
  const bool turn = co_await queue.Wait(request);
  log.emplace_back(request, turn);
}

TEST(WaitQueue, ServesWaitersInTheirOrder) {
  WaitQueue<int> queue;
  std::vector<std::pair<int, bool>> log;
  for (int request = 1; request <= 4; ++request) Spawn(WaitFor(queue, request, log));
  EXPECT_EQ(queue.front(), 1);
  queue.WakeFront();
  EXPECT_EQ(queue.front(), 2);
  queue.WakeFront();
  queue.Close();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(log, (std::vector<std::pair<int, bool>>{{1, true}, {2, true}, {3, false}, {4, false}}));
}

}  // namespace
}  // namespace penstock::rpcrdma
