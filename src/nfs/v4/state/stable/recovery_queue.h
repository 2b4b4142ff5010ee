// The recovery store, for those who must not block: one thread writes, in the order in which it was asked to.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "nfs/v4/state/stable/recovery.h"

namespace penstock::nfs::v4 {

// Any thread. What is awaited here is a disk: not while State is locked, but for RemoveLater().
class RecoveryQueue {
 public:
  explicit RecoveryQueue(std::unique_ptr<RecoveryStore> store) : store_(std::move(store)) {}
  // Waits until all is written.
  ~RecoveryQueue();

  // co_await: resumes on `loop` when it is on stable storage; where there is no loop (a simulation), everything happens
  // at once. False where it could not be written.
  Task<bool> Record(Loop* loop, const RecoveryRecord& client);
  Task<bool> Remove(Loop* loop, const std::string& owner);
  Task<bool> EndGrace(Loop* loop);

  // Without waiting; for records that may stay without harm: at worst a grace period waits for a client that will not
  // come.
  void RemoveLater(Loop* loop, const std::string& owner);

 private:
  Task<bool> Run(Loop* loop, std::function<bool(RecoveryStore&)> change);

  std::unique_ptr<RecoveryStore> store_;  // of the one thread of pool_
  Workers pool_{1};
};

}  // namespace penstock::nfs::v4
