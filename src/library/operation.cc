#include "library/operation.h"

#include <optional>

#include "base/log.h"
#include "library/early_end.h"
#include "library/error_text.h"

namespace penstock::library {

std::shared_ptr<EarlyEnd> Operation::MakeEarlyEnd(const Start& start) { return std::make_shared<EarlyEnd>(start); }

bool Operation::abandoned() const { return early_ && early_->ended(); }

void Operation::OnAbandon(std::function<void()> function) {
  if (early_) early_->OnAbandon(std::move(function));
}

void Operation::SetOutcome(Outcome outcome) {
  if (outcome) {
    result_ = *outcome;
    return;
  }
  client::Error error = std::move(outcome).error();
  if (uses_.explains && !abandoned()) error = client::WithTrouble(std::move(error), uses_.explains->trouble());
  result_ = -error.number;
  text_ = std::move(error).message;
}

void Work::Begin() && {
  const Handle handle = std::exchange(handle_, nullptr);
  const Operation& operation = handle.promise();
  Place& place = operation.uses_.place;
  DrivenLoop* const driven = place.driven();
  const bool wakes = driven && !driven->running();
  operation.recipient_.Count();
  if (!place.IsHere()) {
    try {
      place.loop().Post([handle] { BeginHere(handle); });
    } catch (...) {
      operation.recipient_.Uncount();
      handle.destroy();
      throw;
    }
    return;
  }
  std::optional<log::ThreadLoggerScope> scope;
  if (wakes) scope.emplace(place.logger());
  place.is_starting = true;
  if (operation.early_) {
    BeginHere(handle);
  } else {
    handle.resume();
  }
  place.is_starting = false;
  // For what was begun here.
  if (wakes) driven->Wake();
}

void Work::BeginHere(Handle handle) noexcept {
  const Operation& operation = handle.promise();
  if (!operation.early_) {
    handle.resume();
    return;
  }
  const std::shared_ptr<EarlyEnd> early = operation.early_;
  const bool is_cancelled = !early->Arm();
  if (is_cancelled && !operation.uses_.is_final) {
    handle.destroy();
  } else if (early->must_wait()) {
    Spawn(RunAfterOthers(handle));
  } else {
    early->NoteWorkBegun();
    handle.resume();
  }
  // The work comes first: when the host is told, it does not have the object any more.
  if (is_cancelled) early->Cancel();
}

Task<void> Work::RunAfterOthers(Handle handle) {
  const std::shared_ptr<EarlyEnd> early = handle.promise().early_;
  co_await early->WaitForOthers();
  if (early->ended()) {
    handle.destroy();
    co_return;
  }
  early->NoteWorkBegun();
  handle.resume();
}

void Work::NoteOtherEnd(Handle handle) noexcept {
  const Operation& operation = handle.promise();
  if (operation.early_) {
    if (operation.abandoned()) {
      const std::shared_ptr<EarlyEnd> early = operation.early_;
      handle.destroy();
      early->NoteAbandonedWorkEnded();
      return;
    }
    operation.early_->Disarm();
  }
  if (operation.uses_.place.is_starting) {
    operation.uses_.place.loop().Post([handle] { Finish(handle); });
  } else {
    Finish(handle);
  }
}

void Work::Finish(Handle handle) {
  Operation& operation = handle.promise();
  const Operation::Recipient recipient = operation.recipient_;
  const int64_t result = operation.result_;
  const std::string text = std::move(operation.text_);
  handle.destroy();
  recipient.Give(result, result < 0 ? text.c_str() : nullptr);
}

Blocking::Blocking(penstock_call& call) {
  call.done = &Blocking::Done;
  call.context = this;
}

void Blocking::Done(void* context, int64_t result, const char* error) {
  auto& self = *static_cast<Blocking*>(context);
  // The waiting thread frees all of this when it has the lock.
  const std::lock_guard lock(self.mutex_);
  self.result_ = result;
  if (error) self.text_ = error;
  self.ended_ = true;
  self.changed_.notify_one();
}

int64_t Blocking::Wait(Place& place) {
  if (DrivenLoop* const driven = place.driven()) {
    const log::ThreadLoggerScope scope(place.logger());
    while (!ended_) driven->RunNext(std::nullopt);
  } else {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
  }
  if (result_ < 0) SetErrorText(text_);
  return result_;
}

}  // namespace penstock::library
