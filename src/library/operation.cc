#include "library/operation.h"

#include <cerrno>
#include <chrono>

namespace penstock::library {
namespace {

// So many abandoned works of a mount may hold an RPC, or memory, before further operations wait.
constexpr size_t kMostAbandoned = 256;

}  // namespace

std::optional<Duration> LimitOf(int64_t milliseconds) {
  constexpr int64_t kLongest = int64_t{100} * 365 * 24 * 3600 * 1000;
  if (milliseconds < 0 || milliseconds > kLongest) return std::nullopt;
  return std::chrono::milliseconds(milliseconds);
}

Operation::Operation(const Uses& uses, const penstock_call& call)
    : uses_(uses),
      done_(call.done),
      context_(call.context),
      limit_(LimitOf(call.timeout_ms)),
      cancellations_(call.cancellation ? call.cancellation->shared : nullptr) {}

int64_t Operation::Perform(const std::shared_ptr<Operation>& operation) {
  Place& place = operation->uses_.place;
  const bool blocks = !operation->done_;
  if (blocks && place.RunsHere()) return Fail(EDEADLK, "a penstock_done function must not wait for an operation");
  operation->Count();
  std::optional<log::ThreadLoggerScope> scope;
  if (place.driven() && !place.driven()->running()) scope.emplace(place.logger());
  if (place.IsHere()) {
    operation->starting_ = true;
    operation->Begin();
    operation->starting_ = false;
  } else {
    try {
      place.loop().Post([operation] { operation->Begin(); });
    } catch (...) {
      operation->Uncount();
      throw;
    }
  }
  if (DrivenLoop* const driven = place.driven()) {
    if (blocks) {
      while (!operation->handed_over_) driven->RunNext(std::nullopt);
    }
    // What was begun here, or by another function before.
    if (!driven->running()) driven->Wake();
  } else if (blocks) {
    std::unique_lock lock(operation->mutex_);
    operation->changed_.wait(lock, [&] { return operation->handed_over_; });
  }
  return blocks ? operation->Result() : 0;
}

int64_t Operation::Result() const {
  if (result_ < 0) SetErrorText(text_);
  return result_;
}

void Operation::Count() {
  ++uses_.place.operations;
  ++uses_.whole.operations;
  if (uses_.part) ++uses_.part->operations;
}

void Operation::Uncount() {
  --uses_.place.operations;
  --uses_.whole.operations;
  if (uses_.part) --uses_.part->operations;
}

void Operation::Begin() {
  if (cancellations_) {
    Cancellations::Place place;
    if (cancellations_->Add(*this, place)) {
      in_cancellations_ = place;
    } else {
      Abandon(ECANCELED, "cancelled");
      if (!uses_.is_final) return;
    }
  }
  if (limit_ && !delivered_) {
    timer_ = uses_.place.loop().MakeTimer([this] { Abandon(ETIMEDOUT, "the time limit of the operation is over"); });
    timer_->ExpireAfter(*limit_);
  }
  Spawn(Work(shared_from_this()));
}

Task<void> Operation::Work(std::shared_ptr<Operation> self) {
  const Uses& uses = self->uses_;
  ++uses.whole.works;
  if (uses.part) ++uses.part->works;
  if (self->may_be_abandoned() && !uses.is_final) co_await self->WaitForOthers();
  Outcome outcome = 0;
  if (uses.is_final || !self->abandoned()) {
    self->works_ = true;
    if (self->abandoned()) ++uses.whole.abandoned;
    outcome = co_await self->Run();
  }
  // Those who wait for the end of works go on in a later turn of the loop, so that nothing is destroyed here.
  if (self->works_ && self->abandoned()) {
    --uses.whole.abandoned;
    if (!uses.whole.waiting.empty()) uses.whole.waiting.front()->Set();
  }
  self->works_ = false;
  --uses.whole.works;
  if (uses.part) {
    --uses.part->works;
    uses.part->changed.Notify();
  }
  uses.whole.changed.Notify();
  if (self->abandoned()) co_return;
  if (outcome) {
    self->Deliver(*outcome, {});
  } else {
    client::Error error = std::move(outcome).error();
    if (uses.explains) error = client::WithTrouble(std::move(error), uses.explains->trouble());
    self->Deliver(-error.number, std::move(error).message);
  }
}

Task<void> Operation::WaitForOthers() {
  while (uses_.whole.abandoned >= kMostAbandoned && !abandoned()) {
    OneShot<> turn;
    waits_ = &turn;
    in_waiting_ = uses_.whole.waiting.insert(uses_.whole.waiting.end(), &turn);
    co_await turn;
    uses_.whole.waiting.erase(*in_waiting_);
    waits_ = nullptr;
  }
}

void Operation::PostCancel() {
  uses_.place.loop().Post([self = shared_from_this()] { self->Abandon(ECANCELED, "cancelled"); });
}

void Operation::Abandon(int number, const char* text) {
  if (delivered_) return;
  const std::shared_ptr<Operation> self = shared_from_this();
  if (works_) ++uses_.whole.abandoned;
  OneShot<>* const waits = waits_;
  Deliver(-number, text);
  if (waits && waits == waits_) waits->Set();
  if (const auto end = std::exchange(on_abandon_, {})) end();
}

void Operation::Deliver(int64_t result, std::string text) {
  result_ = result;
  text_ = std::move(text);
  delivered_ = true;
  timer_.reset();
  if (in_cancellations_) cancellations_->Remove(*in_cancellations_);
  if (done_ && starting_) {
    uses_.place.loop().Post([self = shared_from_this()] { self->HandOver(); });
  } else {
    HandOver();
  }
}

void Operation::HandOver() {
  Uncount();
  ++uses_.place.ended;
  if (done_) {
    done_(context_, result_, result_ < 0 ? text_.c_str() : nullptr);
    return;
  }
  const std::lock_guard lock(mutex_);
  handed_over_ = true;
  changed_.notify_one();
}

}  // namespace penstock::library
