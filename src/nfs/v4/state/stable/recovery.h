// The recovery store: after a restart, it tells the server which clients held state that they may reclaim (RFC 8881
// §8.4.2.1, §8.4.3; RFC 7530 §9.6.2, §9.6.3).
//
// A client is recorded before it gets any state: when it sends RECLAIM_COMPLETE or, in minor version 0, with its first
// open. The record is removed with the client, and also before the state of a client whose lease is over is given to
// another client. So a record that is found after a restart proves that no state of the client was given away. At the
// end of the grace period, the store forgets the clients that earlier runs recorded and that did not come back in this
// run. Only then does the server give new state.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/timer.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/clients/principal.h"

namespace penstock::nfs::v4 {

struct RecoveryRecord {
  // The client's owner string, with a prefix for the kind of its minor version: see OwnerKey().
  std::string owner;
  Principal principal;

  bool operator==(const RecoveryRecord&) const = default;
};

// Returns the key of a client owner. The key distinguishes nfs_client_id4.id of minor version 0 from co_ownerid of
// later versions.
std::string OwnerKey(const Dialect& dialect, std::string_view owner);

// Calls block. If a call returns true, its change is on stable storage; if it returns false, nothing has changed. Calls
// must come one at a time.
class RecoveryStore {
 public:
  struct Restart {
    // The number of this run, greater than that of each earlier run. It is the high half of this run's client IDs.
    uint32_t instance = 0;
    // The lease that the last run told its clients.
    Duration last_lease{};
    // The clients that may reclaim.
    std::vector<RecoveryRecord> clients;
  };

  virtual ~RecoveryStore() = default;

  // Begins a run of the server. Call it once, before all other methods. `wall_clock` makes instances differ even if the
  // store was lost.
  virtual SetupResult<Restart> Begin(Duration lease, std::chrono::sys_seconds wall_clock) = 0;
  // Records a client in place of its last record.
  virtual bool Record(const RecoveryRecord& client) = 0;
  virtual bool Remove(const std::string& owner) = 0;
  // Forgets the clients that this run has not recorded.
  virtual bool EndGrace() = 0;
};

// Keeps the records in memory: after a restart of the process no client may reclaim. Tests restart servers with it.
class MemoryRecoveryStore : public RecoveryStore {
 public:
  SetupResult<Restart> Begin(Duration lease, std::chrono::sys_seconds wall_clock) override;
  bool Record(const RecoveryRecord& client) override;
  bool Remove(const std::string& owner) override;
  bool EndGrace() override;

 private:
  struct Entry {
    RecoveryRecord client;
    uint32_t instance;
  };
  std::vector<Entry> entries_;
  uint32_t instance_ = 0;
  Duration lease_{};
};

// Opens the store in an SQLite database in the server's state directory.
SetupResult<std::unique_ptr<RecoveryStore>> OpenRecoveryStore(const std::string& path);

}  // namespace penstock::nfs::v4
