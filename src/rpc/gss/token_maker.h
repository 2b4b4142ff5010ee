// Makes one token of an initiator without waiting for the KDC.
#pragma once

#include <memory>
#include <vector>

#include "base/client_key.h"
#include "base/loop.h"
#include "base/task.h"
#include "base/timer.h"
#include "base/workers.h"
#include "rpc/gss/mechanism.h"

namespace penstock::rpc::gss {

// The mechanism may ask a KDC, which may not answer for minutes, and cannot be interrupted. So each token is made on
// another thread, and whoever wants the token may stop waiting for it. Belongs to its loop, and ends before it.
class TokenMaker {
 public:
  struct Place {
    TimerService& timers;  // any thread may call Now()
    Loop* loop = nullptr;  // of the waiter; null in a simulation
    // A thread that hangs outlives the maker: see Workers::AtEnd::kLeave. Null: the token is made at once.
    std::shared_ptr<Workers> threads{};
    ClientKey client{};  // whose turn on the threads it is
  };

  // Begins to process the acceptor's last token, which is empty for the first one.
  TokenMaker(std::shared_ptr<InitiatingMechanism> mechanism, std::unique_ptr<InitiatingContext> context,
             std::vector<std::byte> from_acceptor, const Place& place);
  // A token that no thread has begun is not made.
  ~TokenMaker();
  TokenMaker(const TokenMaker&) = delete;
  TokenMaker& operator=(const TokenMaker&) = delete;

  // Whether the token has been made, or could not be made.
  bool is_done() const;
  // When that was. Requires is_done().
  TimePoint done_at() const;
  // Waits until is_done(), but no longer than until `until`, and not after Cancel(). Only one caller may wait. The
  // maker outlives the task.
  Task<> Wait(TimePoint until);
  void Cancel();

  struct Made {
    std::unique_ptr<InitiatingContext> context;
    Result<InitiatingContext::Step> step;
  };
  // Requires is_done(). Once.
  Made Take();

 private:
  struct State;
  TimerService& timers_;
  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace penstock::rpc::gss
