// Who takes the next peer of a listening socket that several loops listen on: each in its turn, so that all have the same
// number of connections, whichever happens to be awake first. One at a time waits for a peer; the others are not woken for it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/loop.h"

namespace penstock {

// Shared by those who listen on one address. Any thread; a Member belongs to its loop.
class AcceptTurns : public std::enable_shared_from_this<AcceptTurns> {
 public:
  class Member {
   public:
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // Whether it may accept a peer, and should wait for one.
    bool HasTurn() const;
    // After accept() has given a peer: the turn goes to the next member, who is told.
    void EndTurn();

   private:
    friend class AcceptTurns;
    // Lives until no loop holds a call of it any more.
    struct Call {
      std::function<void()> on_turn;  // empty once the member has gone
      bool posted = false;            // guarded by the mutex
    };
    Member(std::shared_ptr<AcceptTurns> all, Loop& loop, std::function<void()> on_turn);

    const std::shared_ptr<AcceptTurns> all_;
    Loop& loop_;
    const std::shared_ptr<Call> call_;
  };

  // The first one has its turn at once. `on_turn` is called on `loop` where it becomes the member's turn, and may be called at
  // other times. The loop outlives all members.
  std::unique_ptr<Member> Join(Loop& loop, std::function<void()> on_turn);

 private:
  // Requires the mutex.
  void TellNext();

  mutable std::mutex mutex_;
  std::vector<Member*> members_;
  size_t turn_ = 0;  // of members_
};

}  // namespace penstock
