// A thin interface to SQLite, for data that must outlive the program.
#pragma once

#include <sqlite3.h>

#include <cassert>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace penstock {

// The layout of one of our databases.
struct DatabaseLayout {
  // The pragmas of each connection.
  const char* settings;
  // The statements that make the tables of `version`, which is stored as SQLite's user_version.
  const char* schema;
  int64_t version;
  // upgrades[i] converts version i to version i + 1.
  std::span<const char* const> upgrades{};
  // Open() checks every page; for small databases.
  bool checked_whole = false;
  // A message to the operator: what is lost without the file.
  const char* loss;
};

class Database {
 public:
  // Opens the file. Makes it if it does not exist, completely or not at all, and upgrades it if its version is older.
  // The error names the file, its problem (damaged, of another program, of a later version, not writable) and the
  // remedy.
  static SetupResult<std::unique_ptr<Database>> Open(const std::filesystem::path& path, const DatabaseLayout& layout);

  // Returns false if a statement fails; message() then says why.
  bool Execute(const char* sql) { return sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK; }
  // Describes the last failure.
  std::string message() const;
  // Returns the error "cannot DO FILE: message()", or the one for a damaged file, with the remedy.
  SetupError Failure(std::string_view what) const;
  sqlite3* get() const { return db_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };

  Database(std::filesystem::path path, const DatabaseLayout& layout) : path_(std::move(path)), loss_(layout.loss) {}
  SetupResult<void> Connect(int flags);
  static SetupResult<void> Make(const std::filesystem::path& path, const DatabaseLayout& layout);
  SetupResult<void> Prepare(const DatabaseLayout& layout);
  SetupResult<void> Upgrade(const DatabaseLayout& layout);
  SetupError Damaged(std::string_view how) const;
  // Returns nullopt on failure.
  std::optional<std::string> Ask(const char* sql) const;

  const std::filesystem::path path_;
  const char* const loss_;
  std::unique_ptr<sqlite3, Close> db_;
};

// A prepared statement that can run repeatedly. Bind() its parameters, Step() through its rows, and Reset() it.
class Statement {
 public:
  Statement(const Database& database, const char* sql) {
    [[maybe_unused]] const int status =
        sqlite3_prepare_v3(database.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
    assert(status == SQLITE_OK);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <class... Values>
  Statement& Bind(Values... values) {
    sqlite3_reset(statement_);
    int index = 0;
    (BindOne(++index, values), ...);
    return *this;
  }
  // Returns true if there is a row. An error, such as a damaged file, also ends the rows: check failed().
  bool Step() {
    status_ = sqlite3_step(statement_);
    return status_ == SQLITE_ROW;
  }
  // Returns true if the last Step() failed.
  bool failed() const { return status_ != SQLITE_ROW && status_ != SQLITE_DONE; }
  // Runs a statement without rows. Returns false on failure.
  bool Run() {
    Step();
    sqlite3_reset(statement_);
    return status_ == SQLITE_DONE;
  }
  int64_t Integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string Text(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : std::string();
  }
  void Reset() { sqlite3_reset(statement_); }

 private:
  void BindOne(int index, int64_t value) { sqlite3_bind_int64(statement_, index, value); }
  // Names are octets, not text.
  void BindOne(int index, std::string_view value) {
    sqlite3_bind_blob(statement_, index, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
  }

  sqlite3_stmt* statement_ = nullptr;
  int status_ = SQLITE_DONE;
};

}  // namespace penstock
