// The database:
//
//   run      one row: the instance of the last run, and its lease in nanoseconds
//   clients  owner, principal (flavor, uid, name), and the instance of the run that recorded the client last
#include <algorithm>

#include "base/database/database.h"
#include "base/log.h"
#include "base/state_directory.h"
#include "nfs/v4/state/stable/recovery.h"

namespace penstock::nfs::v4 {
namespace {

// Layout version 0 had no names of principals.
constexpr const char* kUpgrades[] = {"ALTER TABLE clients ADD COLUMN name BLOB NOT NULL DEFAULT x'';"};

constexpr DatabaseLayout kLayout{
    // EXTRA: a change that the store has reported as done must survive a power failure. No write-ahead log: SQLite
    // drops the contents of a damaged log silently, and the log's shared-memory file ends the process if the disk is
    // full.
    .settings = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;",
    .schema = R"(
CREATE TABLE run (id INTEGER PRIMARY KEY CHECK (id = 1), instance INTEGER NOT NULL, lease INTEGER NOT NULL);
CREATE TABLE clients (owner BLOB PRIMARY KEY, flavor INTEGER NOT NULL, uid INTEGER NOT NULL,
                      instance INTEGER NOT NULL, name BLOB NOT NULL DEFAULT x'') WITHOUT ROWID;
)",
    .version = 1,
    .upgrades = kUpgrades,
    .checked_whole = true,
    .loss = "without it, NFSv4 clients cannot reclaim their opens and locks after this start",
};

// No operator can set a longer lease (--lease), so this server did not write a longer one.
constexpr Duration kLongestLease = std::chrono::hours(24);

class SqliteRecoveryStore : public RecoveryStore {
 public:
  SqliteRecoveryStore(std::string path, std::unique_ptr<Database> database)
      : path_(std::move(path)),
        database_(std::move(database)),
        last_run_(*database_, "SELECT instance, lease FROM run"),
        set_run_(*database_, "INSERT OR REPLACE INTO run (id, instance, lease) VALUES (1, ?, ?)"),
        clients_(*database_, "SELECT owner, flavor, uid, name FROM clients"),
        record_(*database_,
                "INSERT OR REPLACE INTO clients (owner, flavor, uid, name, instance) VALUES (?, ?, ?, ?, ?)"),
        remove_(*database_, "DELETE FROM clients WHERE owner = ?"),
        end_grace_(*database_, "DELETE FROM clients WHERE instance != ?") {}

  SetupResult<Restart> Begin(Duration lease, std::chrono::sys_seconds wall_clock) override {
    Restart restart;
    int64_t last_instance = 0;
    if (last_run_.Bind().Step()) {
      last_instance = last_run_.Integer(0);
      restart.last_lease = Duration(last_run_.Integer(1));
    }
    if (last_run_.failed()) return std::unexpected(database_->Failure("read"));
    last_run_.Reset();
    // The grace period is at least as long as the last lease, so a damaged lease could mean a grace period of years.
    if (last_instance < 0 || last_instance >= UINT32_MAX || restart.last_lease < Duration::zero() ||
        restart.last_lease > kLongestLease) {
      return std::unexpected(DamagedStateFile(path_, "the record of its last run is impossible", kLayout.loss));
    }
    for (clients_.Bind(); clients_.Step();) {
      const Principal principal{static_cast<rpc::AuthFlavor>(clients_.Integer(1)),
                                static_cast<uint32_t>(clients_.Integer(2)), clients_.Text(3)};
      restart.clients.push_back({clients_.Text(0), principal});
    }
    if (clients_.failed()) return std::unexpected(database_->Failure("read"));
    clients_.Reset();
    const auto now = static_cast<uint32_t>(wall_clock.time_since_epoch().count());
    instance_ = std::max(now, static_cast<uint32_t>(last_instance + 1));
    restart.instance = instance_;
    if (!set_run_.Bind(int64_t{instance_}, int64_t{lease.count()}).Run()) {
      return std::unexpected(database_->Failure("write"));
    }
    return restart;
  }

  bool Record(const RecoveryRecord& client) override {
    return Report(record_
                      .Bind(std::string_view(client.owner), static_cast<int64_t>(client.principal.flavor),
                            int64_t{client.principal.uid}, std::string_view(client.principal.name), int64_t{instance_})
                      .Run());
  }
  bool Remove(const std::string& owner) override { return Report(remove_.Bind(std::string_view(owner)).Run()); }
  bool EndGrace() override { return Report(end_grace_.Bind(int64_t{instance_}).Run()); }

 private:
  // Logs once that writing fails, and once that it works again. Returns `done`.
  bool Report(bool done) {
    if (done == failing_) {
      failing_ = !done;
      if (failing_) {
        log::error(
            "{}; until then NFSv4 clients without state get no opens (NFS4ERR_SERVERFAULT), silent clients keep their "
            "state, and a grace period does not end",
            database_->Failure("write").message);
      } else {
        log::warn("{} can be written again", path_);
      }
    }
    return done;
  }

  const std::string path_;
  std::unique_ptr<Database> database_;
  Statement last_run_, set_run_, clients_, record_, remove_, end_grace_;
  uint32_t instance_ = 0;
  bool failing_ = false;
};

}  // namespace

SetupResult<std::unique_ptr<RecoveryStore>> OpenRecoveryStore(const std::string& path) {
  PENSTOCK_TRY(std::unique_ptr<Database> database, Database::Open(path, kLayout));
  return std::make_unique<SqliteRecoveryStore>(path, std::move(database));
}

}  // namespace penstock::nfs::v4
