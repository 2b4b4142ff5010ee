// The audit log: a file with one JSON object in each line for each operation of a client that changes something or
// opens a file.
//
// One thread of its own writes it, so that no call waits for its disk. The queue to the thread is bounded. If the disk
// is too slow or full, records are lost; the file then has a line with their number, and the process's log an error,
// once a minute.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "base/address.h"
#include "base/data.h"
#include "base/log_limit.h"
#include "base/result.h"
#include "base/timer.h"
#include "fs/file_system.h"

namespace penstock::fs::audited {

// An object, for its path: a name in a directory, or, without a name, the object of the handle.
struct Place {
  Handle at;
  std::string name{};
};

struct Record {
  std::string_view operation;  // a literal
  // The client: its address, or if that is empty, the one of its connection (AuditLog::Know).
  std::string address{};
  ClientKey client{};
  // The user as whom the operation was executed.
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::string export_path{};
  // The file system of the places, which the thread asks for their paths. Records hold no file system.
  std::weak_ptr<FileSystem> files{};
  std::optional<Place> object{};
  std::optional<Place> to{};  // of rename and link: the new name
  std::string path{};         // without `object`
  std::string access{};       // of open: "read", "write" or "read,write"
  std::string result = "ok";  // or the error
};

// Thread-safe.
class AuditLog {
 public:
  struct Limits {
    size_t queue = 8192;        // records that wait for the thread
    size_t connections = 8192;  // whose addresses are known
    size_t files = 8192;        // whose first writes are remembered
  };

  // Opens the file for appending, or makes it with mode 0600, and starts the thread. The error is for the operator.
  static SetupResult<std::unique_ptr<AuditLog>> Open(const std::string& file) { return Open(file, Limits()); }
  static SetupResult<std::unique_ptr<AuditLog>> Open(const std::string& file, const Limits& limits);
  // Writes what is left, and ends the thread.
  ~AuditLog();

  // Tells the address of a connection (ClientKey::connection). Call it before the operations of the connection.
  void Know(uint64_t connection, const IpAddress& client);
  // Adds a record with the time of now. Never waits for the disk.
  void Add(Record record);
  // Whether a write of this client to this file should have a record: the first one in each minute. `succeeded`: failed
  // writes have records of their own.
  bool IsFirstWrite(const ClientKey& client, std::string_view writer, const Handle& file, bool succeeded,
                    TimePoint now);

  // Soon opens the file again by its name, as after a rotation. If that fails, the old file stays.
  void Reopen();
  // Waits until all records are written or lost, up to `limit`. Returns false if some are left.
  bool Finish(Duration limit);
  // The number of records that were lost so far.
  uint64_t lost() const { return lost_.load(); }

 private:
  struct Queued {
    int64_t time;  // microseconds since 1970
    Record record;
  };

  AuditLog(std::string name, FileDescriptor file, const Limits& limits);
  void Run();
  void OpenAgain();
  void Write(const Queued& queued);
  // Writes one line completely or not at all. The error is an errno value.
  penstock::Result<void, int> WriteLine(const std::string& line);
  // Tells the file how many records were lost since it was told last.
  penstock::Result<void, int> TellLost();
  void Complain(std::string_view why);
  std::string AddressOf(const Record& record);

  const std::string name_;
  const Limits limits_;
  FileDescriptor file_;  // used by the thread only

  std::atomic<uint64_t> lost_ = 0;
  uint64_t told_lost_ = 0;  // of these, those that the file names; used by the thread only
  LogLimit complaints_;

  std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  bool is_writing_ = false;
  bool reopens_ = false;
  bool ends_ = false;

  std::mutex clients_mutex_;                           // guards the following
  std::map<uint64_t, IpAddress> clients_;              // by the connection; the oldest first
  std::unordered_map<std::string, TimePoint> writes_;  // when they were recorded

  std::thread thread_;
};

}  // namespace penstock::fs::audited
