// Releases more locks than one visit to the tables may release (Locks::kMostAtOnce).
#pragma once

#include <utility>

#include "base/loop.h"
#include "base/loop_turn.h"
#include "base/signal.h"
#include "base/task.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

// Between two visits to the tables that follow each other. The state's lock goes to any thread that asks for it, and
// the one that has just released it asks first: other loops get the lock only if this one does something else for a
// while.
inline Task<void> PauseBetweenParts(Loop* loop) {
  if (loop) co_await Sleep(*loop, LoopTurn::kLimit);
}

// Waits for a file that is changing (Locks::IsChanging). The first wait is one turn of the loop, since most changes are
// short; later ones take as long as the pauses of whoever changes it.
class ChangeWait {
 public:
  explicit ChangeWait(Loop* loop) : loop_(loop) {}

  Task<void> Once() {
    if (std::exchange(has_waited_, true)) {
      co_await PauseBetweenParts(loop_);
    } else if (loop_) {
      co_await NextTurn(*loop_);
    }
  }

 private:
  Loop* const loop_;
  bool has_waited_ = false;
};

// The release of many locks of the current file by one request. Between its parts, other work of the loop goes on, and
// other requests get the state's lock. The file is changing meanwhile: see Locks::BeginChange().
class ManyLocks {
 public:
  explicit ManyLocks(const Compound& compound) : compound_(compound) {}

  // Calls part(tables) in visits to the tables, with pauses in between, until it returns false. It releases a
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
    while (compound_.services.state.Run(run)) co_await PauseBetweenParts(loop);
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
