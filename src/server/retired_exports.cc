#include "server/retired_exports.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::server {
namespace {

constexpr Duration kInterval = std::chrono::milliseconds(200);

}  // namespace

RetiredExports::RetiredExports(const nfs::Exports& current, Loop& home, Workers& pool,
                               std::function<void(const std::function<bool(const nfs::FileHandle&)>&)> revoke)
    : current_(current),
      home_(home),
      pool_(pool),
      revoke_(std::move(revoke)),
      timer_(home.MakeTimer([this] { Look(); })) {}

void RetiredExports::Add(std::shared_ptr<const nfs::ExportTable> table) {
  home_.Post([this, last = std::move(table)]() mutable {
    if (!timer_) return;
    tables_.push_back(std::move(last));
    Look();
  });
}

// Whether the handle was one of the old table, and is none any more: its export has ended or is a referral now, or its
// directory is served by another file system, which does not know the handle.
bool RetiredExports::IsGone(const nfs::ExportTable& old, const nfs::FileHandle& handle) const {
  const nfs::Export* const then = old.Find(handle.export_id);
  if (!then) return false;
  const auto table = current_.Get();
  const nfs::Export* const now = table->Find(handle.export_id);
  if (!now) return true;
  if (now->shared_file_system() == then->shared_file_system()) return false;
  return now->is_referral() || !now->file_system().Identify(handle.object);
}

// Whether an export of the old table has ended, or is served by another file system.
bool RetiredExports::HasEnded(const nfs::ExportTable& old) const {
  const auto table = current_.Get();
  return std::ranges::any_of(old.all(), [&](const auto& then) {
    const nfs::Export* const now = table->Find(then->id());
    return !now || now->shared_file_system() != then->shared_file_system();
  });
}

void RetiredExports::Look() {
  std::erase_if(tables_, [this](std::shared_ptr<const nfs::ExportTable>& each) {
    if (each.use_count() > 1) return false;
    if (HasEnded(*each)) revoke_([this, &each](const nfs::FileHandle& handle) { return IsGone(*each, handle); });
    // Closing files may wait for a disk.
    pool_.Post([last = std::move(each)]() mutable { last.reset(); });
    return true;
  });
  if (!tables_.empty()) timer_->ExpireAfter(kInterval);
}

}  // namespace penstock::server
