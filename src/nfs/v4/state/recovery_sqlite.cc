// The database:
//
//   run      one row: the instance of the last run, and its lease in nanoseconds
//   clients  owner, principal (its flavor, its uid, its name), and the run that recorded the client last
//
// `user_version` is that of this layout. In version 0 nobody had a name.
#include <fmt/core.h>

#include "base/database/database.h"
#include "nfs/v4/state/recovery.h"

namespace penstock::nfs::v4 {
namespace {

// FULL: what a client was told must hold after the power has failed.
constexpr const char* kSchema = R"(
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS run (id INTEGER PRIMARY KEY CHECK (id = 1), instance INTEGER NOT NULL,
                                lease INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS clients (owner BLOB PRIMARY KEY, flavor INTEGER NOT NULL, uid INTEGER NOT NULL,
                                    instance INTEGER NOT NULL) WITHOUT ROWID;
)";
constexpr int64_t kVersion = 1;
// From version 0, which a database without any table has as well.
constexpr const char* kAddNames = R"(
BEGIN;
ALTER TABLE clients ADD COLUMN name BLOB NOT NULL DEFAULT x'';
PRAGMA user_version = 1;
COMMIT;
)";

// False, with a message, where there is something that we do not understand, or cannot write.
bool Prepare(Database& database, std::string& message) {
  const auto version = [&] {
    Statement asked(database, "PRAGMA user_version");
    return asked.Bind().Step() ? asked.Integer(0) : 0;
  };
  bool done = database.Execute(kSchema);
  if (done && version() == 0) done = database.Execute(kAddNames);
  if (!done) {
    message = database.message();
  } else if (version() != kVersion) {
    message = "it was made by another version of Penstock";
    done = false;
  }
  return done;
}

class SqliteRecoveryStore : public RecoveryStore {
 public:
  explicit SqliteRecoveryStore(std::unique_ptr<Database> database)
      : database_(std::move(database)),
        last_run_(*database_, "SELECT instance, lease FROM run"),
        set_run_(*database_, "INSERT OR REPLACE INTO run (id, instance, lease) VALUES (1, ?, ?)"),
        clients_(*database_, "SELECT owner, flavor, uid, name FROM clients"),
        record_(*database_,
                "INSERT OR REPLACE INTO clients (owner, flavor, uid, name, instance) VALUES (?, ?, ?, ?, ?)"),
        remove_(*database_, "DELETE FROM clients WHERE owner = ?"),
        end_grace_(*database_, "DELETE FROM clients WHERE instance != ?") {}

  SetupResult<Restart> Begin(Duration lease, std::chrono::sys_seconds wall_clock) override {
    int64_t instance = wall_clock.time_since_epoch().count();
    Restart restart;
    if (last_run_.Bind().Step()) {
      instance = std::max(instance, last_run_.Integer(0) + 1);
      restart.last_lease = Duration(last_run_.Integer(1));
    }
    last_run_.Reset();
    for (clients_.Bind(); clients_.Step();) {
      const Principal principal{static_cast<rpc::AuthFlavor>(clients_.Integer(1)),
                                static_cast<uint32_t>(clients_.Integer(2)), clients_.Text(3)};
      restart.clients.push_back({clients_.Text(0), principal});
    }
    clients_.Reset();
    instance_ = static_cast<uint32_t>(instance);
    restart.instance = instance_;
    if (!set_run_.Bind(int64_t{instance_}, int64_t{lease.count()}).Run()) {
      return std::unexpected(SetupError{fmt::format("cannot write the table of clients: {}", database_->message())});
    }
    return restart;
  }

  bool Record(const RecoveryRecord& client) override {
    return record_
        .Bind(std::string_view(client.owner), static_cast<int64_t>(client.principal.flavor),
              int64_t{client.principal.uid}, std::string_view(client.principal.name), int64_t{instance_})
        .Run();
  }
  bool Remove(const std::string& owner) override { return remove_.Bind(std::string_view(owner)).Run(); }
  bool EndGrace() override { return end_grace_.Bind(int64_t{instance_}).Run(); }

 private:
  std::unique_ptr<Database> database_;
  Statement last_run_, set_run_, clients_, record_, remove_, end_grace_;
  uint32_t instance_ = 0;
};

}  // namespace

SetupResult<std::unique_ptr<RecoveryStore>> OpenRecoveryStore(const std::string& path) {
  std::string message;
  std::unique_ptr<Database> database = Database::Open(path, message);
  if (database && !Prepare(*database, message)) database.reset();
  if (!database) return std::unexpected(SetupError{fmt::format("cannot use {}: {}", path, message)});
  return std::make_unique<SqliteRecoveryStore>(std::move(database));
}

}  // namespace penstock::nfs::v4
