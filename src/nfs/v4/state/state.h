// All that NFSv4 remembers between calls, behind one mutex.
//
//   auto state = request.services.state.Lock();
//   state->clients.Renew(...);
//
// The tables are plain objects: no I/O, no clock, no randomness, no locks of their own. The lock is held for a few look-ups,
// never across co_await. What must be sent to clients is queued in the tables, and taken out by whoever let go of the lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "nfs/v4/state/clients/clients.h"
#include "nfs/v4/state/files/files.h"
#include "nfs/v4/state/offloads.h"

namespace penstock::nfs::v4 {

struct StateTables {
  Clients clients;         // clients, their leases and sessions
  Files files;             // opens, locks and delegations, by file
  Offloads offloads = {};  // copies that go on by themselves

  // How much there is that requests without a stateid may run into. Something may be as long as anything can be reclaimed.
  size_t claims() const { return files.claims() + (clients.InGrace() ? 1 : 0); }

  // What does not fit together (consistency.cc); null: all does. For tests and fuzzers.
  const char* FindInconsistency() const;

  // All that a client holds, but not the client itself.
  void ForgetHoldings(ClientId client, Ending ending, TimePoint now) {
    files.ForgetClient(client, ending, now);
    offloads.ForgetClient(client);
  }
};

class State {
 public:
  explicit State(StateTables tables)
      : tables_(std::move(tables)), write_held_(tables_.files.write_held()), claims_(tables_.claims()) {}

  // The tables, for as long as this lives.
  class Access {
   public:
    explicit Access(State& state) : lock_(state.mutex_), state_(state) {}
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    ~Access() { state_.PublishClaims(); }
    StateTables* operator->() const { return &state_.tables_; }
    StateTables& operator*() const { return state_.tables_; }

   private:
    const std::unique_lock<std::mutex> lock_;
    State& state_;
  };
  Access Lock() { return Access(*this); }

  // StateTables::claims() as it was when the lock was last given back, to be read without it.
  const std::atomic<size_t>& claims() const { return claims_; }
  const WriteHeldFiles& write_held() const { return write_held_; }

 private:
  // Those who read it share its cache line until it changes.
  void PublishClaims() {
    const size_t claims = tables_.claims();
    if (claims != claims_.load(std::memory_order_relaxed)) claims_.store(claims, std::memory_order_relaxed);
  }

  std::mutex mutex_;
  StateTables tables_;
  const WriteHeldFiles& write_held_;
  alignas(64) std::atomic<size_t> claims_;
};

}  // namespace penstock::nfs::v4
