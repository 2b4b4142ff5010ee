// A World is the virtual time of a simulation and its queue of events. Events run one by one, in the order of their
// time; events of the same time run in the order in which they were scheduled. The program never waits: time jumps to
// the next event.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/timer.h"
#include "rdma/sim/random.h"

namespace penstock::rdma::sim {

class World : public TimerService {
 public:
  explicit World(uint64_t seed) : seed_(seed), random_(seed) {}
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  uint64_t seed() const { return seed_; }
  Random& random() { return random_; }

  TimePoint Now() const override { return now_; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()> on_expiry) override;

  // Names an event that has not run yet.
  struct EventId {
    TimePoint time;
    uint64_t sequence = 0;
    auto operator<=>(const EventId&) const = default;
  };
  EventId Schedule(Duration delay, std::function<void()> event);
  // Has no effect if the event has run or was cancelled.
  void Cancel(EventId id) { events_.erase(id); }

  // The event that runs now takes this time. Events that were due meanwhile run late, in their order.
  void Spend(Duration time) { now_ += time; }

  // Runs the next event. Returns false if no event is left.
  bool Step();
  // Runs until no event is left. Returns false if `max_events` events have run before that.
  bool Run(uint64_t max_events = kManyEvents);
  // Runs until `done` returns true. Returns false if no event is left, or `max_events` events have run, before that.
  bool RunUntil(const std::function<bool()>& done, uint64_t max_events = kManyEvents);
  // Runs the events of the next `duration` and advances the time by it.
  void RunFor(Duration duration);

  uint64_t events_run() const { return events_run_; }
  size_t events_pending() const { return events_.size(); }

  // Appends a line with the current time to the trace. The trace explains a seed that fails and serves to compare runs.
  template <class... Args>
  void Trace(fmt::format_string<Args...> format, Args&&... args) {
    if (tracing_) AddTrace(fmt::format(format, std::forward<Args>(args)...));
  }
  void set_tracing(bool on) { tracing_ = on; }
  const std::vector<std::string>& trace() const { return trace_; }
  std::string TraceText() const;

  static constexpr uint64_t kManyEvents = 20'000'000;

 private:
  class SimTimer;
  void AddTrace(std::string line);

  const uint64_t seed_;
  Random random_;
  // The start is not zero, so that a default TimePoint differs from every time of the simulation.
  TimePoint now_{std::chrono::hours(1)};
  std::map<EventId, std::function<void()>> events_;
  uint64_t next_sequence_ = 1;
  uint64_t events_run_ = 0;
  bool tracing_ = true;
  std::vector<std::string> trace_;
};

}  // namespace penstock::rdma::sim
