// The state that NFSv4 keeps between calls: clients, sessions, opens, locks, delegations and asynchronous copies.
//
//   const bool in_grace = services.state.Run([](StateTables& state) { return state.clients.InGrace(); });
//
// State::Run() and State::RunInShard() are the only ways to the tables. The tables do no I/O, read no clock, draw no
// random numbers and have no locks of their own. A function that is passed to one of the two does a few look-ups. It
// never suspends (co_await) and never calls either of them.
//
// Run() has all tables for itself. RunInShard() has one shard for itself, and shares the rest with visits to other
// shards: the function gets ShardTables, which has only what may run then. SEQUENCE, READ and WRITE need no more, so
// that the loops that serve different clients do not wait for each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/sharded_lock.h"
#include "nfs/v4/state/owed.h"
#include "nfs/v4/state/shard_tables.h"
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

class State {
 public:
  // `loops`: how many threads use the state at once. One thread needs no shards, and each shard makes Run() longer.
  explicit State(StateTables::Beginning beginning, size_t loops = 1);

  // From now on, `notices` sends the callbacks that are owed. It outlives all calls of Run(). Call this before any
  // other thread uses the state. Without it, notices stay queued in the tables.
  void SendBy(Notices& notices) { notices_ = &notices; }

  // Locks the tables, calls `function(tables)`, unlocks them, and sends the notices that the tables owe. Returns the
  // value that the function returns; that value must not refer into the tables. Any thread; not from within another
  // visit.
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

  // Locks one shard, calls `function(tables)` with ShardTables&, and unlocks the shard. The same holds for the value
  // and for the thread.
  template <class Function>
  auto RunInShard(Shard shard, Function&& function) -> std::invoke_result_t<Function, ShardTables&> {
    using Returned = std::invoke_result_t<Function, ShardTables&>;
    static_assert(!std::is_reference_v<Returned> && !std::is_pointer_v<Returned>,
                  "what refers into the tables is invalid once the lock is released");
    const ShardVisit visit(*this, shard);
    ShardTables tables(tables_, shard);
    return std::invoke(std::forward<Function>(function), tables);
  }

  // StateTables::claims() as of the last Run(). Readers need not lock the tables.
  const std::atomic<size_t>& claims() const { return claims_; }
  const WriteHeldFiles& write_held() const { return write_held_; }
  // The visits so far, and those that had to wait: `one` of RunInShard(), `all` of Run(). Any thread; locks nothing.
  ShardedLock::Counts visits() const { return lock_.counts(); }

 private:
  // Marks that the thread is within a visit.
  class Within {
   public:
    explicit Within(const State& state);
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
    ~Within();

   private:
    const State* const outer_;  // another State that this thread visits, or null
  };
  // Holds the lock of all tables. Before its destructor releases the lock, it checks the tables (debug builds only) and
  // takes the callbacks that are owed.
  class Visit {
   public:
    Visit(State& state, std::optional<Owed>& owed);
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit();

   private:
    const Within within_;
    State& state_;
    std::optional<Owed>& owed_;
  };
  // Holds the lock of one shard.
  class ShardVisit {
   public:
    ShardVisit(State& state, Shard shard);
    ShardVisit(const ShardVisit&) = delete;
    ShardVisit& operator=(const ShardVisit&) = delete;
    ~ShardVisit() { lock_.Unlock(part_); }

   private:
    const Within within_;
    ShardedLock& lock_;
    const size_t part_;
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

  ShardedLock lock_;  // several shards may have one part
  StateTables tables_;
  Notices* notices_ = nullptr;
  size_t runs_unchecked_ = 0;  // runs since FindInconsistency() was last called
  const WriteHeldFiles& write_held_;
  alignas(64) std::atomic<size_t> claims_;
};

}  // namespace penstock::nfs::v4
