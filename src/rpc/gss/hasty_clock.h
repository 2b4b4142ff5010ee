// For tests and fuzzers: a clock for code that waits.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/timer.h"

namespace penstock::rpc::gss {

// Time passes as soon as a timer waits for it.
struct HastyClock : TimerService {
  struct HastyTimer : Timer {
    HastyTimer(HastyClock& owner, std::function<void()> on_expiry) : clock(owner), fire(std::move(on_expiry)) {}
    void ExpireAfter(Duration delay) override {
      clock.now += delay;
      fire();
    }
    void Cancel() override {}
    HastyClock& clock;
    std::function<void()> fire;
  };
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()> on_expiry) override {
    return std::make_unique<HastyTimer>(*this, std::move(on_expiry));
  }
  TimePoint now{};
};

}  // namespace penstock::rpc::gss
