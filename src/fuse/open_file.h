// A file that a program has open, and a directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/signal.h"
#include "base/task.h"
#include "client/mount.h"
#include "fuse/inodes.h"
#include "fuse/read_ahead.h"
#include "fuse/users.h"

namespace penstock::fuse {

// What requests use. The kernel may close it while requests of a killed process still use it.
class Used {
 public:
  // Waits until no request uses it.
  Task<void> Unused() {
    while (users_ > 0) co_await left_;
  }

  // For the time of a request.
  class Use {
   public:
    explicit Use(Used& used) : used_(used) { ++used_.users_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (--used_.users_ == 0) used_.left_.Notify();
    }

   private:
    Used& used_;
  };

 private:
  size_t users_ = 0;
  Signal left_;
};

struct OpenFile : Used {
  Inode* inode = nullptr;
  Users::MountPointer mount;  // of the user who opened it
  std::shared_ptr<client::File> file;
  std::shared_ptr<ReadAhead> reader{};
  bool reads = true;
  bool writes = false;
  FailuresTold failures_told = 0;
  bool direct = false;  // O_DIRECT: nothing is read ahead or written behind
  // O_APPEND: the kernel keeps none of the data that a program writes and reads by it. It would keep them at the end of
  // the file that it knows, which may be an old one.
  bool appends = false;
  // The lock-owners that have locks.
  std::vector<std::string> lockers{};
};

// A directory that is being listed. Offsets are positions in the list, so that they mean something whatever the
// server's cookies are.
struct OpenDirectory : Used {
  Inode* inode = nullptr;
  Users::MountPointer mount;
  client::ListPosition position;    // behind the entries of `page`
  std::vector<client::Entry> page;  // entries that have been read
  Moment asked = 0;                 // when the server was asked for `page`
  uint64_t first = 0;               // the index of the first entry of `page`
  std::vector<uint64_t> cookies;    // of the entries 0, 1, ... that have been read
  std::vector<uint64_t> names;      // digests of their names
  bool ends = false;                // nothing follows `page`
  // The server has rejected a cookie, as after a move to another server, and the listing has begun again: digests of
  // the names that the program has already.
  std::unordered_set<uint64_t> told;
  static constexpr uint64_t kLost = ~uint64_t{0};  // a cookie that the server would reject

  // Begins again at the first entry, for a program that has the entries before `index`.
  void BeginAgain(uint64_t index) {
    position = {};
    cookies.assign(index, kLost);
    names.resize(index);
    told = {names.begin(), names.end()};
  }
  void Rewind() {
    page.clear();
    first = 0;
    cookies.clear();
    names.clear();
    told.clear();
    ends = false;
  }
};

}  // namespace penstock::fuse
