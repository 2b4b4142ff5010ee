#include "fuse/users.h"

#include <utility>

namespace penstock::fuse {

using client::Result;

Task<Result<client::Mount*>> Users::MountOf(User user) {
  if (!open_ || user == owner_) co_return &first_;
  Entry& entry = entries_[user];
  if (entry.opening) {
    co_await entry.changed;
  } else if (!entry.mount) {
    entry.opening = true;
    auto opened = co_await open_(user);
    if (opened) {
      entry.mount = *std::move(opened);
    } else {
      entry.failure = std::move(opened).error();
    }
    entry.opening = false;
    entry.changed.Notify();
  }
  if (!entry.mount) co_return std::unexpected(entry.failure);
  co_return entry.mount.get();
}

Task<void> Users::Unmount() {
  for (auto& [user, entry] : entries_) {
    if (entry.mount) co_await entry.mount->Unmount();
  }
}

void Users::Abort() {
  for (auto& [user, entry] : entries_) {
    if (entry.mount) entry.mount->Abort();
  }
}

}  // namespace penstock::fuse
