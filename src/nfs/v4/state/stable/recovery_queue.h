// Makes the recovery store usable by callers that must not block: one thread writes, in the order of the calls.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"
#include "base/task.h"
#include "base/workers.h"
#include "nfs/v4/state/stable/recovery.h"

namespace penstock::nfs::v4 {

// Any thread. The calls wait for a disk, so they are not for use within State::Run(), except RemoveLater().
class RecoveryQueue {
 public:
  explicit RecoveryQueue(std::unique_ptr<RecoveryStore> store) : store_(std::move(store)) {}
  // Waits until everything is written.
  ~RecoveryQueue();

  // These resume on `loop` when the change is on stable storage. Without a loop (in a simulation) the change is made at
  // once. They return false if the change could not be written.
  Task<bool> Record(Loop* loop, const RecoveryRecord& client);
  Task<bool> Remove(Loop* loop, const std::string& owner);
  Task<bool> EndGrace(Loop* loop);

  // Removes a record without waiting for it. A record that stays does little harm: a grace period may wait for a client
  // that does not come.
  void RemoveLater(Loop* loop, const std::string& owner);

 private:
  Task<bool> Run(Loop* loop, std::function<bool(RecoveryStore&)> change);

  std::unique_ptr<RecoveryStore> store_;  // used by the one thread of pool_
  Workers pool_{1, Workers::AtEnd::kWait, {.name = "penstock-state"}};
};

}  // namespace penstock::nfs::v4
