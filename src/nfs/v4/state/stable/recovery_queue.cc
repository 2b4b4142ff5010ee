#include "nfs/v4/state/stable/recovery_queue.h"

namespace penstock::nfs::v4 {

RecoveryQueue::~RecoveryQueue() { pool_.Join(); }

Task<bool> RecoveryQueue::Run(Loop* loop, std::function<bool(RecoveryStore&)> change) {
  co_return co_await Offload(loop, &pool_, [this, &change] { return change(*store_); });
}

Task<bool> RecoveryQueue::Record(Loop* loop, const RecoveryRecord& client) {
  return Run(loop, [client](RecoveryStore& store) { return store.Record(client); });
}

Task<bool> RecoveryQueue::Remove(Loop* loop, const std::string& owner) {
  return Run(loop, [owner](RecoveryStore& store) { return store.Remove(owner); });
}

Task<bool> RecoveryQueue::EndGrace(Loop* loop) {
  return Run(loop, [](RecoveryStore& store) { return store.EndGrace(); });
}

void RecoveryQueue::RemoveLater(Loop* loop, const std::string& owner) {
  if (!loop) {
    store_->Remove(owner);
    return;
  }
  pool_.Post([this, owner] { store_->Remove(owner); });
}

}  // namespace penstock::nfs::v4
