#include "library/early_end.h"

#include <cerrno>
#include <chrono>
#include <utility>

namespace penstock::library {

std::optional<Duration> LimitOf(int64_t milliseconds) {
  constexpr int64_t kLongest = int64_t{100} * 365 * 24 * 3600 * 1000;
  if (milliseconds < 0 || milliseconds > kLongest) return std::nullopt;
  return std::chrono::milliseconds(milliseconds);
}

EarlyEnd::EarlyEnd(const Operation::Start& start)
    : uses_(start.uses),
      recipient_(start),
      limit_(LimitOf(start.call.timeout_ms)),
      cancellations_(start.call.cancellation ? start.call.cancellation->shared : nullptr) {}

bool EarlyEnd::Arm() {
  if (cancellations_) {
    Cancellations::Place place;
    if (!cancellations_->Add(*this, place)) return false;
    in_cancellations_ = place;
  }
  if (limit_) {
    timer_ = uses_.place.loop().MakeTimer([this] { Abandon(ETIMEDOUT, "the time limit of the operation is over"); });
    timer_->ExpireAfter(*limit_);
  }
  return true;
}

void EarlyEnd::Disarm() {
  ended_ = true;
  timer_.reset();
  if (in_cancellations_) cancellations_->Remove(*in_cancellations_);
}

bool EarlyEnd::must_wait() const { return !uses_.is_final && uses_.abandoned.count >= AbandonedWorks::kMost; }

Task<void> EarlyEnd::WaitForOthers() {
  while (must_wait() && !ended_) {
    OneShot<> turn;
    waits_ = &turn;
    const auto place = uses_.abandoned.waiting.insert(uses_.abandoned.waiting.end(), &turn);
    co_await turn;
    uses_.abandoned.waiting.erase(place);
    waits_ = nullptr;
  }
}

void EarlyEnd::NoteAbandonedWorkEnded() {
  AbandonedWorks& abandoned = uses_.abandoned;
  --abandoned.count;
  while (abandoned.count < AbandonedWorks::kMost && !abandoned.waiting.empty()) abandoned.waiting.front()->Set();
  // A closing that waits for this goes on in a later turn of the loop, and so destroys nothing that is in use here.
  if (--uses_.activity.abandoned == 0) uses_.activity.quiet.Notify();
}

void EarlyEnd::Cancel() { Abandon(ECANCELED, "cancelled"); }

void EarlyEnd::PostCancel() {
  uses_.place.loop().Post([self = shared_from_this()] { self->Cancel(); });
}

void EarlyEnd::Abandon(int number, const char* text) {
  if (ended_) return;
  const std::shared_ptr<EarlyEnd> self = shared_from_this();
  if (works_) {
    ++uses_.abandoned.count;
    ++uses_.activity.abandoned;
  }
  Disarm();
  OneShot<>* const waits = waits_;
  if (uses_.place.is_starting) {
    uses_.place.loop().Post([self, number, text] { self->recipient_.Give(-number, text); });
  } else {
    recipient_.Give(-number, text);
  }
  if (waits && waits == waits_) waits->Set();
  if (const auto end = std::exchange(on_abandon_, {})) end();
}

}  // namespace penstock::library
