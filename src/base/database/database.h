// As much of SQLite as we need for what must outlive the program.
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

// What a database of ours looks like.
struct DatabaseLayout {
  // Pragmas of each connection.
  const char* settings;
  // Makes the tables of `version`, which is SQLite's user_version.
  const char* schema;
  int64_t version;
  // upgrades[i] leads from version i to version i + 1.
  std::span<const char* const> upgrades{};
  // Whether every page is looked at when it is opened: for small ones.
  bool checked_whole = false;
  // What is lost without the file, for the operator.
  const char* loss;
};

class Database {
 public:
  // Makes the file where it is not there, whole or not at all, and changes it to the layout's version where it is older.
  // The error says which file, what is wrong with it (damaged, another program's, a later version's, not to be written),
  // and what to do.
  static SetupResult<std::unique_ptr<Database>> Open(const std::filesystem::path& path, const DatabaseLayout& layout);

  // False, with message(), where a statement fails.
  bool Execute(const char* sql) { return sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK; }
  // Of what failed last.
  std::string message() const;
  // "cannot DO FILE: message()", or that it is damaged, with what to do.
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
  // Nothing where it fails.
  std::optional<std::string> Ask(const char* sql) const;

  const std::filesystem::path path_;
  const char* const loss_;
  std::unique_ptr<sqlite3, Close> db_;
};

// One prepared statement, run again and again: Bind the parameters, then Step; its scope ends with Reset.
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
  // True where there is a row. Errors (a damaged file) end the rows too: failed() tells.
  bool Step() {
    status_ = sqlite3_step(statement_);
    return status_ == SQLITE_ROW;
  }
  // Whether the last Step() met an error.
  bool failed() const { return status_ != SQLITE_ROW && status_ != SQLITE_DONE; }
  // For statements without rows: whether it was done.
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
