// As much of SQLite as we need for what must outlive the program.
#pragma once

#include <sqlite3.h>

#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace penstock {

class Database {
 public:
  // Null where the file cannot be opened or made; `message` says why.
  static std::unique_ptr<Database> Open(const std::string& path, std::string& message);

  // False, with message(), where a statement fails.
  bool Execute(const char* sql) { return sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK; }
  const char* message() const { return sqlite3_errmsg(db_.get()); }
  sqlite3* get() const { return db_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
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
  // True where there is a row. Errors (a full disk) end the rows too: status() tells.
  bool Step() {
    status_ = sqlite3_step(statement_);
    return status_ == SQLITE_ROW;
  }
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
  int status_ = SQLITE_OK;
};

}  // namespace penstock
