#include "client/nfs4/moved_file_systems.h"

#include <algorithm>
#include <set>

#include "client/nfs4/attributes.h"

namespace penstock::client::v4 {

using nfs4::nfsstat4;

namespace {

// The most file systems that the client asks about.
constexpr size_t kMostFileSystems = 1024;
constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr std::string_view kWhat = "looking for moved file systems";

}  // namespace

void MovedFileSystems::HandleOpened(const Handle& file, uint64_t file_system) {
  file_systems_.insert_or_assign(file_system, file);
  if (file_systems_.size() > kMostFileSystems) file_systems_.erase(file_systems_.begin());
}

void MovedFileSystems::HandleLeaseMoved() {
  said_ = true;
  if (finding_ || caller_.ended() || caller_.timers().Now() < find_again_) return;
  finding_ = true;
  caller_.SpawnBackground(Find());
}

Task<void> MovedFileSystems::Find() {
  std::set<uint64_t> found;
  bool has_news = true;
  while (has_news && said_ && !caller_.ended()) {
    has_news = false;
    const std::map<uint64_t, Handle> all = file_systems_;
    for (const auto& [file_system, file] : all) {
      const bool has_moved = co_await HasMoved(file);
      if (!has_moved || !found.insert(file_system).second) continue;
      has_news = true;
      if (follow_) follow_(file_system);
    }
    // Another one may have moved meanwhile.
    said_ = false;
    co_await caller_.AskAboutLease();
  }
  const Duration longest = std::max(kFirstPause, caller_.lease_time() / 2);
  pause_ = said_ ? std::clamp(2 * pause_, kFirstPause, longest) : Duration::zero();
  find_again_ = caller_.timers().Now() + pause_;
  finding_ = false;
}

Task<bool> MovedFileSystems::HasMoved(Handle file) {
  const auto ask = [&] { return std::tuple(nfs4::PUTFH4args{file}, GetHandle()); };
  auto answer = co_await caller_.TryCall(ask, kWhat);
  if (!answer || answer->status != nfsstat4::NFS4ERR_MOVED) co_return false;
  const nfs4::GETATTR4args locations{LocationsAttribute()};
  if (caller_.dialect().has_sessions()) {
    const auto build = [&] { return std::tuple(nfs4::PUTFH4args{file}, locations); };
    (void)co_await caller_.TryCall(build, kWhat);
    co_return true;
  }
  // RFC 7530 §9.14.3: RENEW tells the server which client has asked.
  const auto build = [&] { return std::tuple(nfs4::PUTFH4args{file}, locations, nfs4::RENEW4args{caller_.client()}); };
  (void)co_await caller_.TryCall(build, kWhat);
  co_return true;
}

}  // namespace penstock::client::v4
