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
  Loop* const loop;
  Signal changed;  // on the loop

  std::mutex mutex;
  std::optional<Result<InitiatingContext::Step>> step;
  bool is_waited_for = false;  // the loop exists while this is true
};

TokenMaker::TokenMaker(std::shared_ptr<InitiatingMechanism> mechanism, std::unique_ptr<InitiatingContext> context,
                       std::vector<std::byte> from_acceptor, const Threads& threads)
    : state_(new State{.mechanism = std::move(mechanism),
                       .context = std::move(context),
                       .from_acceptor = std::move(from_acceptor),
                       .loop = threads.loop,
                       .changed = {},
                       .mutex = {},
                       .step = {}}) {
  if (!threads.loop || !threads.workers) {
    state_->step = state_->context->Initiate(state_->from_acceptor);
    return;
  }
  threads.workers->Post(
      [state = state_] {
        auto step = state->context->Initiate(state->from_acceptor);
        const std::lock_guard lock(state->mutex);
        state->step = std::move(step);
        if (state->is_waited_for) state->loop->Post([state] { state->changed.Notify(); });
      },
      threads.client);
}

TokenMaker::~TokenMaker() = default;

bool TokenMaker::is_done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->step.has_value();
}

Task<> TokenMaker::Wait(TimerService& timers, TimePoint until) {
  // Also if this task is destroyed while it waits.
  struct Expectation {
    explicit Expectation(State& of) : state(of) { Set(true); }
    ~Expectation() { Set(false); }
    void Set(bool is_waited_for) {
      const std::lock_guard lock(state.mutex);
      state.is_waited_for = is_waited_for;
    }
    State& state;
  };
  bool is_late = false;
  const auto timer = timers.MakeTimer([&] {
    is_late = true;
    state_->changed.Notify();
  });
  const Expectation expectation(*state_);
  if (is_done()) co_return;
  timer->ExpireAfter(until - timers.Now());
  while (!is_done() && !is_late) co_await state_->changed;
}

TokenMaker::Made TokenMaker::Take() {
  assert(is_done());
  return {.context = std::move(state_->context), .step = *std::move(state_->step)};
}

}  // namespace penstock::rpc::gss
