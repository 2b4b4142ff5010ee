#include "rpc/gss/token_maker.h"

#include <cassert>
#include <mutex>
#include <optional>
#include <utility>

#include "base/signal.h"

namespace penstock::rpc::gss {

struct TokenMaker::State {
  const std::shared_ptr<InitiatingMechanism> mechanism;  // outlives the context
  std::unique_ptr<InitiatingContext> context;
  const std::vector<std::byte> from_acceptor;
  Signal changed{};  // on the loop
  bool is_cancelled = false;

  std::mutex mutex{};
  // The members below have the mutex. The maker and its loop exist while `timers` is not null.
  TimerService* timers = nullptr;
  Loop* loop = nullptr;
  std::optional<Result<InitiatingContext::Step>> step{};
  TimePoint done_at{};
};

TokenMaker::TokenMaker(std::shared_ptr<InitiatingMechanism> mechanism, std::unique_ptr<InitiatingContext> context,
                       std::vector<std::byte> from_acceptor, const Place& place)
    : timers_(place.timers),
      state_(new State{.mechanism = std::move(mechanism),
                       .context = std::move(context),
                       .from_acceptor = std::move(from_acceptor),
                       .timers = &place.timers,
                       .loop = place.loop}) {
  if (!place.loop || !place.threads) {
    state_->step = state_->context->Initiate(state_->from_acceptor);
    state_->done_at = place.timers.Now();
    return;
  }
  auto make = [state = state_]() mutable {
    const auto is_wanted = [&state] {
      const std::lock_guard lock(state->mutex);
      return state->timers != nullptr;
    };
    if (!is_wanted()) return;
    auto step = state->context->Initiate(state->from_acceptor);
    const std::lock_guard lock(state->mutex);
    if (!state->timers) return;
    state->step = std::move(step);
    state->done_at = state->timers->Now();
    // The loop gets the thread's reference: what the mechanism's library has to free is not freed beside the end of the
    // process. The state outlives the lock, since the maker's end needs it.
    Loop* const loop = state->loop;
    loop->Post([state = std::move(state)] { state->changed.Notify(); });
  };
  place.threads->Post(std::move(make), place.client);
}

TokenMaker::~TokenMaker() {
  const std::lock_guard lock(state_->mutex);
  state_->timers = nullptr;
}

bool TokenMaker::is_done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->step.has_value();
}

TimePoint TokenMaker::done_at() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done_at;
}

Task<> TokenMaker::Wait(TimePoint until) {
  bool is_late = false;
  const auto timer = timers_.MakeTimer([&] {
    is_late = true;
    state_->changed.Notify();
  });
  if (is_done()) co_return;
  timer->ExpireAfter(until - timers_.Now());
  while (!is_done() && !is_late && !state_->is_cancelled) co_await state_->changed;
}

void TokenMaker::Cancel() {
  state_->is_cancelled = true;
  state_->changed.Notify();
}

TokenMaker::Made TokenMaker::Take() {
  assert(is_done());
  return {.context = std::move(state_->context), .step = *std::move(state_->step)};
}

}  // namespace penstock::rpc::gss
