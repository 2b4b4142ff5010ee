// The state that NFSv4 keeps between calls: clients, sessions, opens, locks, delegations and asynchronous copies,
// behind one mutex.
//
//   const bool in_grace = services.state.Run([](StateTables& state) { return state.clients.InGrace(); });
//
// State::Run() is the only way to the tables. The tables do no I/O, read no clock, draw no random numbers and have no
// locks of their own. A function that is passed to Run() does a few look-ups. It never suspends (co_await) and never
// calls Run().
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "nfs/v4/state/owed.h"
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

class State {
 public:
  explicit State(StateTables::Beginning beginning);

  // From now on, `notices` sends the callbacks that are owed. It outlives all calls of Run(). Call this before any
  // other thread uses the state. Without it, notices stay queued in the tables.
  void SendBy(Notices& notices) { notices_ = &notices; }

  // Locks the tables, calls `function(tables)`, unlocks them, and sends the notices that the tables owe. Returns the
  // value that the function returns; that value must not refer into the tables. Any thread; not from within another
  // Run().
  template <class Function>
  auto Run(Function&& function) -> std::invoke_result_t<Function, StateTables&> {
    using Returned = std::invoke_result_t<Function, StateTables&>;
    static_assert(!std::is_reference_v<Returned>, "a reference into the tables is invalid once the lock is released");
    std::optional<Owed> owed;  // most runs owe nothing
    if constexpr (std::is_void_v<Returned>) {
      RunLocked(owed, std::forward<Function>(function));
      Send(owed);
    } else {
      Returned returned = RunLocked(owed, std::forward<Function>(function));
      Send(owed);
      return returned;
    }
  }

  // StateTables::claims() as of the last Run(). Readers need not lock the tables.
  const std::atomic<size_t>& claims() const { return claims_; }
  const WriteHeldFiles& write_held() const { return write_held_; }

 private:
  // Holds the lock. Before its destructor releases the lock, it checks the tables (debug builds only) and takes the
  // callbacks that are owed.
  class Visit {
   public:
    Visit(State& state, std::optional<Owed>& owed);
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit();

   private:
    State& state_;
    std::optional<Owed>& owed_;
    const std::unique_lock<std::mutex> lock_;
    const State* const outer_;  // another State that this thread has locked, or null
  };

  template <class Function>
  auto RunLocked(std::optional<Owed>& owed, Function&& function) -> std::invoke_result_t<Function, StateTables&> {
    const Visit visit(*this, owed);
    return std::invoke(std::forward<Function>(function), tables_);
  }
  void Send(const std::optional<Owed>& owed) {
    if (owed) notices_->Send(*owed);
  }
  void CheckNowAndThen();
  void PublishClaims();

  std::mutex mutex_;
  StateTables tables_;
  Notices* notices_ = nullptr;
  size_t runs_unchecked_ = 0;  // runs since FindInconsistency() was last called
  const WriteHeldFiles& write_held_;
  alignas(64) std::atomic<size_t> claims_;
};

}  // namespace penstock::nfs::v4
