// The change attribute (RFC 8881 §5.8.1.4) of files on a file system that gives none to user space: their ctime, in nanoseconds,
// and where the kernel's clock is too coarse to tell two changes apart, a count on top of it.
//
// Only files that were changed twice by us in one tick of that clock have an entry here, until it is pushed out by others or
// the file's ctime moves on: a ctime of a later tick is greater than all that was counted in an earlier one. So the value
// of a change is greater than every value before it. What local programs change twice within a tick, between two looks of ours,
// cannot be told apart.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

#include "fs/types.h"

namespace penstock::fs::posix {

// For all file systems that are served by one process: a file may be reached by two of them. Any thread.
class ChangeCounters {
 public:
  // A file on this machine, whichever export it is reached by.
  struct File {
    uint64_t fsid = 0;
    uint64_t fileid = 0;
    bool operator==(const File&) const = default;
  };
  static constexpr size_t kMaxFiles = 64 << 10;

  // The change attribute of a file with that ctime.
  uint64_t Look(const File& file, const Timestamp& ctime);

  // The file was changed by us: what it was told of it before, its ctime now, and the time. Whoever calls makes sure that no
  // other change of ours to this file lies between. What was done long after the ctime and has not moved it has changed nothing.
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
    std::atomic<size_t> size = 0;  // so that an empty one is not locked
  };
  static constexpr size_t kShards = 16;
  Shard& ShardOf(const File& file) { return shards_[Hash{}(file) >> 60]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace penstock::fs::posix
