// The mounts of the users of a mounted tree: the server sees each request under the user who makes it.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"
#include "base/timer.h"
#include "client/mount.h"

namespace penstock::fuse {

struct User {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;
  auto operator<=>(const User&) const = default;
};

// Belongs to the loop.
class Users {
 public:
  using Open = std::function<Task<client::Result<std::unique_ptr<client::Mount>>>(User)>;
  using MountPointer = std::shared_ptr<client::Mount>;
  // A mount that nobody has held for this time is unmounted.
  static constexpr Duration kIdle = std::chrono::minutes(10);

  // `first` is the mount of the user who has mounted the tree, and outlives this object. `open` opens the mount of
  // another one; empty: all requests go over `first`. `loop` outlives this object.
  Users(Loop& loop, client::Mount& first, User owner, Open open, Duration idle = kIdle);

  bool is_single() const { return !open_; }
  const MountPointer& first() const { return first_; }
  // The mount of this user, which is opened if there is none. The caller holds it as long as it uses it.
  Task<client::Result<MountPointer>> MountOf(User user);
  // Unmounts all but the first. Call it last, when nobody holds a mount any more.
  Task<void> Unmount();
  void Abort();

 private:
  struct Entry {
    MountPointer mount;
    TimePoint held{};  // when somebody held it last, as far as CloseIdle() has seen
    bool opening = false;
    client::Error failure;
    Signal changed;
  };

  void CloseIdle();
  Task<void> Close(MountPointer mount);

  Loop& loop_;
  const MountPointer first_;
  const User owner_;
  const Open open_;
  const Duration idle_;
  std::map<User, Entry> entries_;
  std::vector<MountPointer> closing_;
  Signal closed_;
  const std::unique_ptr<Timer> look_;
  bool looks_ = false;  // look_ runs
};

}  // namespace penstock::fuse
