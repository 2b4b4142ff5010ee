#include "client/nfs4/sess01/bound_lease.h"

#include <algorithm>
#include <cassert>

namespace penstock::client::v4::sess01 {

void BoundLease::HandleCreated(const nfs4::SESSIONCREATE4resok& result) {
  assert(next_ == Step::kCreate);
  session_ = result.sessionid;
  persists_ = result.persist;
  total_requests_ = std::max(result.totalrequests, 1u);
  ++generation_;
  ++epoch_;
  instance_.reset();
  next_ = Step::kBindBack;
}

void BoundLease::HandleBackBound() {
  if (next_ == Step::kBindBack) next_ = Step::kBind;
}

void BoundLease::HandleBound() {
  if (next_ == Step::kBind) next_ = Step::kReclaim;
}

void BoundLease::HandleInstance(const std::optional<Instance>& instance, uint64_t generation) {
  if (generation != generation_ || !instance) return;
  const bool restarted = instance_ && *instance_ != *instance;
  instance_ = instance;
  if (!restarted) return;
  ++epoch_;
  if (next_ == Step::kReady) next_ = Step::kReclaim;
}

void BoundLease::HandleReclaimed(uint64_t epoch) {
  if (next_ == Step::kReclaim && epoch == epoch_) next_ = Step::kReady;
}

void BoundLease::HandleLost(uint64_t generation) {
  if (generation == generation_) next_ = Step::kCreate;
}

void BoundLease::HandleExecuted(uint64_t generation, TimePoint sent) {
  if (generation == generation_) renewed_ = std::max(renewed_, sent);
}

}  // namespace penstock::client::v4::sess01
