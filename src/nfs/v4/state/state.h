// All that NFSv4 remembers between calls, behind one mutex.
//
//   auto state = request.services.state.Lock();
//   state->clients.Renew(...);
//
// The tables are plain objects: no I/O, no clock, no randomness, no locks of their own. The lock is held for a few look-ups,
// never across co_await. What must be sent to clients is queued in the tables, and taken out by whoever let go of the lock.
#pragma once

#include <mutex>

#include "nfs/v4/state/clients.h"
#include "nfs/v4/state/files.h"
#include "nfs/v4/state/offloads.h"

namespace penstock::nfs::v4 {

struct StateTables {
  Clients clients;         // clients, their leases and sessions
  Files files;             // opens, locks and delegations, by file
  Offloads offloads = {};  // copies that go on by themselves

  // All that a client holds, but not the client itself.
  void ForgetHoldings(ClientId client, Ending ending, TimePoint now) {
    files.ForgetClient(client, ending, now);
    offloads.ForgetClient(client);
  }
};

class State {
 public:
  explicit State(StateTables tables) : tables_(std::move(tables)) {}

  // The tables, for as long as this lives.
  class Access {
   public:
    explicit Access(State& state) : lock_(state.mutex_), tables_(state.tables_) {}
    StateTables* operator->() const { return &tables_; }
    StateTables& operator*() const { return tables_; }

   private:
    std::unique_lock<std::mutex> lock_;
    StateTables& tables_;
  };
  Access Lock() { return Access(*this); }

 private:
  std::mutex mutex_;
  StateTables tables_;
};

}  // namespace penstock::nfs::v4
