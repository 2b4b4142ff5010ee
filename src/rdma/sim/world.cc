#include "rdma/sim/world.h"

#include <algorithm>
#include <cassert>

namespace penstock::rdma::sim {

class World::SimTimer : public Timer {
 public:
  SimTimer(World& world, std::function<void()> on_expiry) : world_(world), on_expiry_(std::move(on_expiry)) {}
  ~SimTimer() override { Cancel(); }

  void ExpireAfter(Duration delay) override {
    Cancel();
    // The event owns a copy, because the function may set or destroy this timer.
    event_ = world_.Schedule(delay, [function = on_expiry_] { function(); });
  }
  void Cancel() final { world_.Cancel(event_); }

 private:
  World& world_;
  std::function<void()> on_expiry_;
  EventId event_;
};

std::unique_ptr<Timer> World::MakeTimer(std::function<void()> on_expiry) {
  return std::make_unique<SimTimer>(*this, std::move(on_expiry));
}

World::~World() {
  // The destruction of an event may cancel another event, so that each is removed from the map before it is destroyed.
  while (!events_.empty()) events_.extract(events_.begin());
}

World::EventId World::Schedule(Duration delay, std::function<void()> event) {
  EventId id{now_ + std::max(delay, Duration::zero()), next_sequence_++};
  events_.emplace(id, std::move(event));
  return id;
}

bool World::Step() {
  if (events_.empty()) return false;
  auto next = events_.extract(events_.begin());
  now_ = std::max(now_, next.key().time);
  ++events_run_;
  next.mapped()();
  return true;
}

bool World::Run(uint64_t max_events) {
  return RunUntil([this] { return events_.empty(); }, max_events);
}

bool World::RunUntil(const std::function<bool()>& done, uint64_t max_events) {
  for (uint64_t i = 0; i < max_events; ++i) {
    if (done()) return true;
    if (!Step()) return false;
  }
  return done();
}

void World::RunFor(Duration duration) {
  TimePoint end = now_ + duration;
  while (!events_.empty() && events_.begin()->first.time <= end) Step();
  now_ = end;
}

void World::AddTrace(std::string line) {
  trace_.push_back(fmt::format("{:>12} {}", (now_ - TimePoint(std::chrono::hours(1))).count(), line));
}

std::string World::TraceText() const {
  std::string text = fmt::format("seed {}\n", seed_);
  for (const std::string& line : trace_) {
    text += line;
    text += '\n';
  }
  return text;
}

}  // namespace penstock::rdma::sim
