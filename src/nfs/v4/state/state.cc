#include "nfs/v4/state/state.h"

#include <cassert>

#include "base/log.h"

namespace penstock::nfs::v4 {
namespace {

// The State whose tables this thread has locked.
thread_local const State* locked_here = nullptr;

}  // namespace

State::State(StateTables::Beginning beginning)
    : tables_(std::move(beginning)), write_held_(tables_.files.delegations.write_held()), claims_(tables_.claims()) {}

State::Visit::Visit(State& state, std::optional<Owed>& owed)
    : state_(state),
      owed_(owed),
      lock_([&]() -> std::mutex& {
        assert(locked_here != &state && "Run() within Run() would wait for itself");
        return state.mutex_;
      }()),
      outer_(std::exchange(locked_here, &state)) {}

State::Visit::~Visit() {
  state_.CheckNowAndThen();
  if (state_.notices_ && state_.tables_.owes()) owed_ = state_.tables_.TakeOwed();
  state_.PublishClaims();
  locked_here = outer_;
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
