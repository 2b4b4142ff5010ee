#include "fuse/users.h"

#include <algorithm>
#include <utility>

namespace penstock::fuse {

using client::Result;

Users::Users(Loop& loop, client::Mount& first, User owner, Open open, Duration idle)
    : loop_(loop),
      first_(MountPointer(), &first),
      owner_(std::move(owner)),
      open_(std::move(open)),
      idle_(idle),
      look_(loop.MakeTimer([this] { CloseIdle(); })) {}

Task<Result<Users::MountPointer>> Users::MountOf(User user) {
  if (!open_ || user == owner_) co_return first_;
  Entry& entry = entries_[user];
  if (entry.opening) {
    co_await entry.changed;
  } else if (!entry.mount) {
    entry.opening = true;
    auto opened = co_await open_(user);
    if (opened) {
      entry.mount = *std::move(opened);
      if (!std::exchange(looks_, true)) look_->ExpireAfter(idle_);
    } else {
      entry.failure = std::move(opened).error();
    }
    entry.opening = false;
    entry.changed.Notify();
  }
  if (!entry.mount) co_return std::unexpected(entry.failure);
  entry.held = loop_.Now();
  co_return entry.mount;
}

void Users::CloseIdle() {
  const TimePoint now = loop_.Now();
  looks_ = false;
  for (auto& [user, entry] : entries_) {
    if (!entry.mount) continue;
    if (entry.mount.use_count() > 1) entry.held = now;
    if (now - entry.held >= idle_) {
      Spawn(Close(std::exchange(entry.mount, nullptr)));
    } else {
      looks_ = true;
    }
  }
  if (looks_) look_->ExpireAfter(idle_ / 2);
}

Task<void> Users::Close(MountPointer mount) {
  closing_.push_back(mount);
  co_await mount->Unmount();
  // Connections that close need one more turn of the loop, in which none of their own code runs.
  co_await Sleep(loop_, Duration::zero());
  std::erase(closing_, mount);
  closed_.Notify();
}

Task<void> Users::Unmount() {
  look_->Cancel();
  for (auto& [user, entry] : entries_) {
    if (entry.mount) Spawn(Close(std::exchange(entry.mount, nullptr)));
  }
  while (!closing_.empty()) co_await closed_;
}

void Users::Abort() {
  for (auto& [user, entry] : entries_) {
    if (entry.mount) entry.mount->Abort();
  }
  for (const MountPointer& each : closing_) each->Abort();
}

}  // namespace penstock::fuse
