#include "base/database/database.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/data.h"
#include "base/state_directory.h"

namespace penstock {
namespace {

constexpr mode_t kOthers = 077;
// The suffixes of the files that SQLite keeps beside a database.
constexpr std::array kBeside = {"-wal", "-shm", "-journal"};

// Lists the tables and their columns in a fixed order.
constexpr const char* kColumns =
    "SELECT group_concat(place) FROM (SELECT t.name || '.' || c.name AS place FROM sqlite_schema t, "
    "pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.name)";

// Removes other users' rights. SQLite would make the file readable by all users, and gives its other files the rights
// of the database.
bool KeepToOwner(const std::filesystem::path& path) {
  struct stat stat{};
  const auto keep = [&](const std::string& name) {
    if (::stat(name.c_str(), &stat) != 0) return errno == ENOENT;
    return (stat.st_mode & kOthers) == 0 || ::chmod(name.c_str(), stat.st_mode & 0700) == 0;
  };
  bool kept = keep(path);
  for (const char* const suffix : kBeside) kept = kept && keep(path.string() + suffix);
  return kept;
}

}  // namespace

std::string Database::message() const {
  if (!db_) return "out of memory";
  const int error = sqlite3_system_errno(db_.get());
  const char* const words = sqlite3_errmsg(db_.get());
  return error == 0 ? words : fmt::format("{} ({})", words, DescribeErrno(error));
}

SetupError Database::Damaged(std::string_view how) const { return DamagedStateFile(path_, how, loss_); }

SetupError Database::Failure(std::string_view what) const {
  const int code = db_ ? sqlite3_errcode(db_.get()) & 0xff : SQLITE_NOMEM;
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) return Damaged(message());
  if (code == SQLITE_READONLY) return StateFileError(what, path_, EACCES);
  if (code == SQLITE_FULL) return StateFileError(what, path_, ENOSPC);
  const int error = db_ ? sqlite3_system_errno(db_.get()) : ENOMEM;
  if (error != 0 && code != SQLITE_OK) return StateFileError(what, path_, error);
  return {fmt::format("cannot {} {}: {}; make sure that its disk works and has room", what, path_.string(), message())};
}

std::optional<std::string> Database::Ask(const char* sql) const {
  sqlite3_stmt* asked = nullptr;
  std::optional<std::string> answer;
  if (sqlite3_prepare_v2(db_.get(), sql, -1, &asked, nullptr) == SQLITE_OK && sqlite3_step(asked) == SQLITE_ROW) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(asked, 0));
    answer = text ? text : "";
  }
  sqlite3_finalize(asked);
  return answer;
}

SetupResult<void> Database::Connect(int flags) {
  sqlite3* db = nullptr;
  const int status = sqlite3_open_v2(path_.c_str(), &db, SQLITE_OPEN_READWRITE | flags, nullptr);
  db_.reset(db);
  if (status != SQLITE_OK) return std::unexpected(Failure("open"));
  return {};
}

SetupResult<std::unique_ptr<Database>> Database::Open(const std::filesystem::path& path, const DatabaseLayout& layout) {
  struct stat stat{};
  if (::stat(path.c_str(), &stat) != 0) {
    if (errno != ENOENT) return std::unexpected(StateFileError("read", path, errno));
    PENSTOCK_CHECK(Make(path, layout));
  } else if (!S_ISREG(stat.st_mode)) {
    return std::unexpected(DamagedStateFile(path, "not a regular file", layout.loss));
  } else if (stat.st_size == 0) {
    // SQLite would treat it as a new database, and the loss of its contents would go unnoticed.
    return std::unexpected(DamagedStateFile(path, "empty", layout.loss));
  }
  if (!KeepToOwner(path)) return std::unexpected(StateFileError("protect", path, errno));
  std::unique_ptr<Database> database(new Database(path, layout));
  PENSTOCK_CHECK(database->Connect(0));
  PENSTOCK_CHECK(database->Prepare(layout));
  return database;
}

// Writes under another name first, so that an existing file is always complete.
SetupResult<void> Database::Make(const std::filesystem::path& path, const DatabaseLayout& layout) {
  const std::filesystem::path fresh = path.string() + ".new";
  for (const auto& of : {fresh, path}) {
    for (const char* const suffix : kBeside) ::unlink((of.string() + suffix).c_str());
  }
  ::unlink(fresh.c_str());
  // Close it at once: closing it later would release SQLite's locks.
  if (!FileDescriptor(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600))) {
    return std::unexpected(StateFileError("make", path, errno));
  }
  {
    Database made(fresh, layout);
    PENSTOCK_CHECK(made.Connect(0));
    const std::string script =
        fmt::format("BEGIN; {} PRAGMA user_version = {}; COMMIT;", layout.schema, layout.version);
    if (!made.Execute(script.c_str())) return std::unexpected(made.Failure("write"));
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0 || !SyncDirectory(path.parent_path())) {
    return std::unexpected(StateFileError("make", path, errno));
  }
  return {};
}

SetupResult<void> Database::Prepare(const DatabaseLayout& layout) {
  // Apply the settings first: the locking mode decides how SQLite reads the file.
  if (!Execute(layout.settings)) return std::unexpected(Failure("open"));
  if (!Ask("PRAGMA user_version")) return std::unexpected(Failure("read"));
  if (sqlite3_db_readonly(db_.get(), "main") == 1) return std::unexpected(StateFileError("write", path_, EACCES));
  if (layout.checked_whole) {
    const auto found = Ask("PRAGMA quick_check(1)");
    if (!found) return std::unexpected(Failure("read"));
    if (*found != "ok") return std::unexpected(Damaged(*found));
  }
  PENSTOCK_CHECK(Upgrade(layout));

  Database model(":memory:", layout);
  PENSTOCK_CHECK(model.Connect(SQLITE_OPEN_MEMORY));
  if (!model.Execute(layout.schema)) return std::unexpected(model.Failure("make"));
  const auto columns = Ask(kColumns);
  if (!columns) return std::unexpected(Failure("read"));
  if (columns != model.Ask(kColumns)) return std::unexpected(Damaged("its tables are not those of penstock"));
  return {};
}

SetupResult<void> Database::Upgrade(const DatabaseLayout& layout) {
  for (;;) {
    const auto asked = Ask("PRAGMA user_version");
    if (!asked) return std::unexpected(Failure("read"));
    const int64_t version = std::strtoll(asked->c_str(), nullptr, 10);
    if (version == layout.version) return {};
    if (version < 0 || version > layout.version) {
      return std::unexpected(SetupError{
          fmt::format("{} was made by another version of penstock ({}; this one knows {}): start that one, or move it "
                      "away and start again; {}",
                      path_.string(), version, layout.version, loss_)});
    }
    const std::string script = fmt::format("BEGIN; {} PRAGMA user_version = {}; COMMIT;",
                                           layout.upgrades[static_cast<size_t>(version)], version + 1);
    if (Execute(script.c_str())) continue;
    // Our earlier versions accept every upgrade, so these tables belong to another program.
    if ((sqlite3_errcode(db_.get()) & 0xff) == SQLITE_ERROR) {
      return std::unexpected(Damaged("its tables are not those of penstock"));
    }
    return std::unexpected(Failure("write"));
  }
}

}  // namespace penstock
