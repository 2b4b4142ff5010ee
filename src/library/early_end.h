// Ends an operation for the host before its work has ended: when it is cancelled, or when its time is over.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/task.h"
#include "base/timer.h"
#include "library/cancellation.h"
#include "library/operation.h"

namespace penstock::library {

// The limit of a call. There is none if the time is negative, or longer than anybody waits.
std::optional<Duration> LimitOf(int64_t milliseconds);

// Shared by the work and by what ends the operation. All methods but PostCancel() run on the loop.
class EarlyEnd : public std::enable_shared_from_this<EarlyEnd> {
 public:
  explicit EarlyEnd(const Operation::Start& start);
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;

  // From now on the operation may end early. Returns false if it is cancelled already: then call Cancel().
  bool Arm();

  // Whether the work must wait until fewer abandoned works of the mount are under way.
  bool must_wait() const;
  // Ends when the work may begin, or when the operation has ended.
  Task<void> WaitForOthers();

  void NoteWorkBegun() { works_ = true; }
  // The work has a result for the host, and the operation does not end early any more.
  void Disarm();
  // The work has ended after the operation, and its frame is gone.
  void NoteAbandonedWorkEnded();

  // Whether the operation has ended for the host, or is about to.
  bool ended() const { return ended_; }

  void OnAbandon(std::function<void()> function) { on_abandon_ = std::move(function); }

  // Ends the operation for the host, with -ECANCELED, unless it has ended.
  void Cancel();
  // The same from any thread, while the operation is in a Cancellations.
  void PostCancel();

 private:
  void Abandon(int number, const char* text);

  const Operation::Uses uses_;
  const Operation::Recipient recipient_;
  const std::optional<Duration> limit_;
  const std::shared_ptr<Cancellations> cancellations_;  // null if nothing cancels the operation

  std::optional<Cancellations::Place> in_cancellations_;
  std::unique_ptr<Timer> timer_;
  std::function<void()> on_abandon_;
  OneShot<>* waits_ = nullptr;  // for other works
  bool works_ = false;          // the work has begun
  bool ended_ = false;
};

}  // namespace penstock::library
