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

  // `first` is the mount of the user who has mounted the tree, and outlives this object. `open` opens the mount of
  // another one; empty: all requests go over `first`.
  Users(client::Mount& first, User owner, Open open)
      : first_(first), owner_(std::move(owner)), open_(std::move(open)) {}

  bool is_single() const { return !open_; }
  client::Mount& first() const { return first_; }
  // The mount of this user, which is opened if there is none.
  Task<client::Result<client::Mount*>> MountOf(User user);
  // Unmounts all but the first.
  Task<void> Unmount();
  void Abort();

 private:
  struct Entry {
    std::unique_ptr<client::Mount> mount;
    bool opening = false;
    client::Error failure;
    Signal changed;
  };

  client::Mount& first_;
  const User owner_;
  const Open open_;
  std::map<User, Entry> entries_;
};

}  // namespace penstock::fuse
