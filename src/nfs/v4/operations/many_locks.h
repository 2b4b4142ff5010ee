// Releases more locks than one visit to the tables may release (Locks::kMostAtOnce).
#pragma once

#include <utility>

#include "base/loop.h"
#include "base/task.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// The release of many locks of the current file by one request. Between its parts, other work of the loop goes on, and
// other requests get the state's lock. The file is changing meanwhile: see Locks::BeginChange().
class ManyLocks {
 public:
  explicit ManyLocks(const Compound& compound) : compound_(compound) {}

  // Calls part(tables) in visits to the tables, one in each turn of the loop, until it returns false. It releases a
  // part of the locks and returns true, or does nothing and returns false. If it has ever returned true, the caller
  // must call End() in the visit that releases the rest, whatever becomes of that.
  template <class Part>
  Task<void> Release(Part part) {
    Loop* const loop = compound_.call.peer.loop;
    const auto run = [&](StateTables& state) {
      const bool more = part(state);
      if (more && !std::exchange(begun_, true)) state.files.locks.BeginChange(compound_.current->name());
      return more;
    };
    while (compound_.services.state.Run(run)) {
      if (loop) co_await NextTurn(*loop);
    }
  }
  // Returns true if Release() has released anything.
  bool End(StateTables& state) {
    if (begun_) state.files.locks.EndChange(compound_.current->name());
    return std::exchange(begun_, false);
  }

 private:
  const Compound& compound_;
  bool begun_ = false;
};

}  // namespace penstock::nfs::v4
