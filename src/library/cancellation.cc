#include "library/cancellation.h"

#include <new>

#include "library/early_end.h"
#include "library/error_text.h"
#include "penstock/penstock.h"

namespace penstock::library {

bool Cancellations::Add(EarlyEnd& operation, Place& place) {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return false;
  place = operations_.insert(operations_.end(), &operation);
  return true;
}

void Cancellations::Remove(Place place) {
  const std::lock_guard lock(mutex_);
  operations_.erase(place);
}

void Cancellations::Cancel() {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return;
  cancelled_ = true;
  // None of them is destroyed before it has removed itself.
  for (EarlyEnd* each : operations_) each->PostCancel();
}

}  // namespace penstock::library

using namespace penstock::library;  // NOLINT: the functions of the C API are in no namespace

int penstock_cancellation_new(penstock_cancellation** cancellation) {
  return Guarded([&] {
    if (!cancellation) return Fail(EINVAL, "there is no room for the result");
    *cancellation = new penstock_cancellation;
    return 0;
  });
}

void penstock_cancel(penstock_cancellation* cancellation) {
  Guarded([&] {
    if (!cancellation) return 0;
    // The first operation that ends may free the handle.
    const std::shared_ptr<Cancellations> shared = cancellation->shared;
    shared->Cancel();
    return 0;
  });
}

void penstock_cancellation_free(penstock_cancellation* cancellation) { delete cancellation; }
