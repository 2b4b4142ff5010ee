#include "base/database/database.h"

#include <fcntl.h>

#include "base/data.h"

namespace penstock {

std::unique_ptr<Database> Database::Open(const std::string& path, std::string& message) {
  // SQLite would let everybody read what we keep secret. Closed at once: closing it later would drop SQLite's locks.
  FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));  // NOLINT(bugprone-unused-raii)
  auto database = std::make_unique<Database>();
  sqlite3* db = nullptr;
  const int status = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  database->db_.reset(db);
  if (status == SQLITE_OK) return database;
  message = db ? sqlite3_errmsg(db) : "out of memory";
  return nullptr;
}

}  // namespace penstock
