// What a server must know of its clients after it has started again: which of them held something that they may reclaim
// (RFC 8881 §8.4.2.1, §8.4.3; RFC 7530 §9.6.2, §9.6.3).
//
// A client is recorded before it is given anything: when it says that it is done with reclaiming, or, in minor version 0,
// with its first open. Its record goes with the client, and before what it held is given to another although its lease is
// over. So a record that is found after a restart says: nothing
// of this client was given away. The grace period ends by forgetting those that were recorded by earlier runs of the
// server and did not come back in this one; only then is anything new given.
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
  // The client's name for itself, with the minor version's kind of name before it: see OwnerKey().
  std::string owner;
  Principal principal;

  bool operator==(const RecoveryRecord&) const = default;
};

// nfs_client_id4.id of minor version 0 and co_ownerid of the later ones are told apart.
std::string OwnerKey(const Dialect& dialect, std::string_view owner);

// Calls block, and what they change is on stable storage when they return true. False where that failed: nothing has
// changed then. Calls come one at a time.
class RecoveryStore {
 public:
  struct Restart {
    // Greater than that of every run before; the high half of this run's client IDs.
    uint32_t instance = 0;
    // The lease that clients of the run before were told.
    Duration last_lease{};
    // Who may reclaim.
    std::vector<RecoveryRecord> clients;
  };

  virtual ~RecoveryStore() = default;

  // Begins a run of the server; once, before everything else. `wall_clock` makes instances differ even where the store
  // was lost.
  virtual SetupResult<Restart> Begin(Duration lease, std::chrono::sys_seconds wall_clock) = 0;
  virtual bool Record(const RecoveryRecord& client) = 0;
  virtual bool Remove(const std::string& owner) = 0;
  // Forgets the clients that no Record() of this run has named.
  virtual bool EndGrace() = 0;
};

// Forgets everything with the process: after a restart nobody may reclaim. Also what tests restart a server with.
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

// In an SQLite database in the server's state directory.
SetupResult<std::unique_ptr<RecoveryStore>> OpenRecoveryStore(const std::string& path);

}  // namespace penstock::nfs::v4
