#include "base/loop.h"

#include <asio/steady_timer.hpp>

namespace penstock {
namespace {

class LoopTimer : public Timer {
 public:
  LoopTimer(asio::io_context& context, std::function<void()> on_expiry)
      : state_(std::make_shared<State>(context, std::move(on_expiry))) {}
  ~LoopTimer() override { Cancel(); }

  void ExpireAfter(Duration delay) override {
    state_->timer.expires_after(delay);
    state_->timer.async_wait([state = state_, setting = ++state_->setting](const asio::error_code& error) {
      // A setting that was replaced or cancelled after it had come due is not ours to announce any more.
      if (!error && setting == state->setting) state->on_expiry();
    });
  }
  void Cancel() override {
    ++state_->setting;
    state_->timer.cancel();
  }

 private:
  // Outlives the LoopTimer while a handler is queued.
  struct State {
    State(asio::io_context& context, std::function<void()> f) : timer(context), on_expiry(std::move(f)) {}
    asio::steady_timer timer;
    std::function<void()> on_expiry;
    uint64_t setting = 0;
  };
  std::shared_ptr<State> state_;
};

}  // namespace

void Loop::Run() {
  work_.emplace(asio::make_work_guard(context_));
  context_.run();
  work_.reset();
}

std::unique_ptr<Timer> Loop::MakeTimer(std::function<void()> on_expiry) {
  return std::make_unique<LoopTimer>(context_, std::move(on_expiry));
}

}  // namespace penstock
