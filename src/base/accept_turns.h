// Shares the peers of one listening socket between several loops. The loops accept in turn, so that all get the same
// number of connections. Only the loop whose turn it is waits for a peer, so a new peer wakes no other loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/loop.h"

namespace penstock {

// Shared by the listeners of one address. Thread-safe; a Member belongs to its loop.
class AcceptTurns : public std::enable_shared_from_this<AcceptTurns> {
 public:
  class Member {
   public:
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // Returns true if this member may accept a peer now; it should wait for one.
    bool HasTurn() const;
    // Call after accept() has returned a peer. Passes the turn to the next member and notifies it.
    void EndTurn();

   private:
    friend class AcceptTurns;
    // Lives until no loop has a call to it queued.
    struct Call {
      std::function<void()> on_turn;  // empty once the member has gone
      bool posted = false;            // guarded by the mutex
    };
    Member(std::shared_ptr<AcceptTurns> all, Loop& loop, std::function<void()> on_turn);

    const std::shared_ptr<AcceptTurns> all_;
    Loop& loop_;
    const std::shared_ptr<Call> call_;
  };

  // The first member has its turn at once. `on_turn` runs on `loop` when the member's turn begins; it may also run at
  // other times. The loop must outlive all members.
  std::unique_ptr<Member> Join(Loop& loop, std::function<void()> on_turn);

 private:
  // Requires the mutex.
  void TellNext();

  mutable std::mutex mutex_;
  std::vector<Member*> members_;
  size_t turn_ = 0;  // an index into members_
};

}  // namespace penstock
