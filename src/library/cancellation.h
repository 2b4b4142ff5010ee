// penstock_cancellation: ends the operations that were started with it.
#pragma once

#include <list>
#include <memory>
#include <mutex>

namespace penstock::library {

class EarlyEnd;

// Shared by the handle of the host and by its operations. Thread-safe.
class Cancellations {
 public:
  using Place = std::list<EarlyEnd*>::iterator;

  // Adds an operation whose work is about to begin on its loop. Returns false, and adds nothing, if it is to end.
  bool Add(EarlyEnd& operation, Place& place);
  // Call it on the operation's loop, before the operation is destroyed.
  void Remove(Place place);
  void Cancel();

 private:
  std::mutex mutex_;  // guards the following members
  bool cancelled_ = false;
  std::list<EarlyEnd*> operations_;
};

}  // namespace penstock::library

struct penstock_cancellation {
  const std::shared_ptr<penstock::library::Cancellations> shared = std::make_shared<penstock::library::Cancellations>();
};
