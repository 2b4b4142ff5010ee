// The change attribute (RFC 8881 §5.8.1.4) of files whose file system offers none to user space. It is the ctime in
// nanoseconds. Where the kernel's clock is too coarse to distinguish two changes, a counter is added to it.
//
// Only a file that the server changed twice within one tick of that clock has an entry here. The entry lives until
// other entries push it out, or until the file's ctime moves on: a ctime of a later tick is greater than all counts
// of an earlier one. So the value after a change is greater than every value before it. Two changes by local programs
// within one tick, with no change by the server between them, cannot be distinguished.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

#include "fs/types.h"

namespace penstock::fs::posix {

// One instance serves all file systems of the process, because two of them may reach the same file. Any thread.
class ChangeCounters {
 public:
  // A file on this machine, independent of the export that reaches it.
  struct File {
    uint64_t fsid = 0;
    uint64_t fileid = 0;
    bool operator==(const File&) const = default;
  };
  static constexpr size_t kMaxFiles = 64 << 10;

  // Returns the change attribute of a file with this ctime.
  uint64_t Look(const File& file, const Timestamp& ctime);

  // Records that the server changed the file. `before` are the attributes that the server reported before the change,
  // `ctime` and `now` are the file's ctime and the time after it. The caller ensures that no other change by the server
  // to this file lies between. If a call came long after the ctime and did not move it, the call has changed nothing.
  void NoteChange(const File& file, const PreAttributes& before, const Timestamp& ctime, const Timestamp& now);

 private:
  struct Entry {
    File file;
    Timestamp ctime{};
    uint64_t change = 0;
  };
  struct Hash {
    size_t operator()(const File& file) const { return (file.fsid ^ file.fileid) * 0x9e37'79b9'7f4a'7c15; }
  };
  struct Shard {
    std::mutex mutex;
    std::list<Entry> by_age;  // the youngest first
    std::unordered_map<File, std::list<Entry>::iterator, Hash> by_file;
    std::atomic<size_t> size = 0;  // lets callers skip the lock of an empty shard
  };
  static constexpr size_t kShards = 16;
  Shard& ShardOf(const File& file) { return shards_[Hash{}(file) >> 60]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace penstock::fs::posix
