#include "base/loop.h"

#include <malloc.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <optional>
#include <utility>

#include "base/thread.h"

namespace penstock {
namespace {

// After a peak above this the heap is asked to return the memory that buffers and their users have freed.
constexpr size_t kPeak = 1 << 20;

class LoopTimer : public Timer {
 public:
  LoopTimer(asio::io_context& context, std::function<void()> on_expiry)
      : state_(std::make_shared<State>(context, std::move(on_expiry))) {}
  ~LoopTimer() override { Cancel(); }

  void ExpireAfter(Duration delay) override {
    state_->timer.expires_after(delay);
    state_->timer.async_wait([state = state_, setting = ++state_->setting](const asio::error_code& error) {
      // Ignore a setting that was replaced or cancelled after it had expired.
      if (!error && setting == state->setting) state->on_expiry();
    });
  }
  void Cancel() final {
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

struct Loop::State {
  asio::io_context context{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>>
      work;  // set while Run() waits for more work
};

Loop::Loop() : state_(std::make_unique<State>()), trim_(MakeTimer([this] { Trim(); })) {
  buffers_.set_on_idle([this] {
    Post([this] {
      if (!finishing_) trim_->ExpireAfter(kTrimInterval);
    });
  });
}
Loop::~Loop() = default;

asio::io_context& Loop::context() { return state_->context; }

void Loop::Run() {
  const WritesWithoutSignals without_signals;
  finishing_ = false;
  state_->work.emplace(asio::make_work_guard(state_->context));
  state_->context.run();
  state_->work.reset();
}

void Loop::Finish() {
  finishing_ = true;
  trim_->Cancel();
  state_->work.reset();
}
void Loop::Stop() { state_->context.stop(); }

void Loop::Post(std::move_only_function<void()> function) {
  asio::post(state_->context, std::move(function));
  if (on_post_) on_post_();
}
bool Loop::IsCurrent() const { return state_->context.get_executor().running_in_this_thread(); }

// Runs only while idle memory is left, so that it does not wake an idle loop.
void Loop::Trim() {
  const BufferPool::Trimmed trimmed = buffers_.Trim();
  if (trimmed.left > 0) trim_->ExpireAfter(kTrimInterval);
  if (trimmed.given_back >= kPeak) ::malloc_trim(0);
}

std::unique_ptr<Timer> Loop::MakeTimer(std::function<void()> on_expiry) {
  return std::make_unique<LoopTimer>(state_->context, std::move(on_expiry));
}

}  // namespace penstock
