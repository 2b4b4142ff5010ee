#include "nfs/v4/state/state.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "base/log.h"

namespace penstock::nfs::v4 {
namespace {

// The State that this thread visits.
thread_local const State* visited_here = nullptr;

// The number of parts of the lock: a power of two. More parts make visits to shards meet less often, but each makes
// Run() longer: it takes them all. A quarter of the number of loops is a compromise: see bench/visits.
size_t PartsFor(size_t loops) {
  if (loops <= 1) return 1;
  return std::clamp(std::bit_ceil(loops / 4), size_t{2}, Shard::kCount);
}

}  // namespace

State::State(StateTables::Beginning beginning, size_t loops)
    : lock_(PartsFor(loops)),
      tables_(std::move(beginning)),
      write_held_(tables_.files.delegations.write_held()),
      claims_(tables_.claims()) {}

State::Within::Within(const State& state) : outer_(std::exchange(visited_here, &state)) {
  assert(outer_ != &state && "Run() or RunInShard() within one of them would wait for itself");
}

State::Within::~Within() { visited_here = outer_; }

State::Visit::Visit(State& state, std::optional<Owed>& owed) : within_(state), state_(state), owed_(owed) {
  state_.lock_.LockAll();
}

State::Visit::~Visit() {
  state_.CheckNowAndThen();
  if (state_.notices_ && state_.tables_.owes()) owed_ = state_.tables_.TakeOwed();
  state_.PublishClaims();
  state_.lock_.UnlockAll();
}

// The number of parts divides the number of shards, so each shard has one part.
State::ShardVisit::ShardVisit(State& state, Shard shard)
    : within_(state), lock_(state.lock_), part_(shard.index() & (state.lock_.parts() - 1)) {
  lock_.Lock(part_);
}

// The time of a check grows with the size of the tables, and faster if many clients share a file. So small tables are
// checked after each run, and large tables only after many runs.
void State::CheckNowAndThen() {
#ifdef PENSTOCK_CHECK_STATE
  constexpr size_t kSmall = 32;
  const size_t size = (tables_.files.size() + tables_.clients.client_count()) / kSmall;
  if (++runs_unchecked_ <= size * size) return;
  runs_unchecked_ = 0;
  const char* const wrong = tables_.FindInconsistency();
  if (wrong) log::error("the tables of NFSv4 are inconsistent: {}", wrong);
  assert(!wrong);
#endif
}

// Writes claims_ only if it has changed: until then, readers on other threads keep its cache line.
void State::PublishClaims() {
  const size_t claims = tables_.claims();
  if (claims != claims_.load(std::memory_order_relaxed)) claims_.store(claims, std::memory_order_relaxed);
}

}  // namespace penstock::nfs::v4
