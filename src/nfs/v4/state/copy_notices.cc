#include "nfs/v4/state/copy_notices.h"

#include <algorithm>

#include "nfs/v4/state/copy_state_ids.h"

namespace penstock::nfs::v4 {
namespace {

bool HasExpired(const CopyNotices::Notice& notice, TimePoint now) { return !notice.begun && now >= notice.until; }

bool Agree(const CopyNotices::Notice& one, const CopyNotices::Notice& other) {
  const auto& user = one.user.context().credentials;
  const auto& other_user = other.user.context().credentials;
  return one.client == other.client && one.file == other.file && one.source == other.source &&
         one.destination == other.destination && user.uid == other_user.uid && user.gid == other_user.gid &&
         std::ranges::equal(user.groups, other_user.groups);
}

}  // namespace

std::optional<nfs4::stateid4> CopyNotices::Give(Notice notice, uint64_t random, TimePoint now,
                                                const std::function<bool(const Notice&)>& lasts) {
  std::erase_if(notices_, [&](const auto& each) { return HasExpired(each.second, now); });
  for (auto& [number, each] : notices_) {
    if (!Agree(each, notice)) continue;
    each.until = notice.until;
    return MakeCopyStateId(CopyStateKind::kNotice, number);
  }
  const auto is_full = [&] {
    const auto of_client =
        std::ranges::count_if(notices_, [&](const auto& each) { return each.second.client == notice.client; });
    return notices_.size() >= limits_.of_all || static_cast<size_t>(of_client) >= limits_.per_client;
  };
  if (is_full()) std::erase_if(notices_, [&](const auto& each) { return !lasts(each.second); });
  if (is_full() || !notices_.try_emplace(random, std::move(notice)).second) return std::nullopt;
  return MakeCopyStateId(CopyStateKind::kNotice, random);
}

bool CopyNotices::IsOne(const nfs4::stateid4& stateid) { return NumberOf(CopyStateKind::kNotice, stateid).has_value(); }

CopyNotices::Table::iterator CopyNotices::Find(const nfs4::stateid4& stateid, const FileHandle& file) {
  const auto number = NumberOf(CopyStateKind::kNotice, stateid);
  const auto found = number ? notices_.find(*number) : notices_.end();
  return found == notices_.end() || found->second.file != file ? notices_.end() : found;
}

const CopyNotices::Notice* CopyNotices::Use(const nfs4::stateid4& stateid, const FileHandle& file, TimePoint now) {
  const auto found = Find(stateid, file);
  if (found == notices_.end() || HasExpired(found->second, now)) return nullptr;
  found->second.begun = true;
  return &found->second;
}

bool CopyNotices::Cancel(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid) {
  const auto found = Find(stateid, file);
  if (found == notices_.end() || found->second.client != client) return false;
  notices_.erase(found);
  return true;
}

void CopyNotices::ForgetClient(ClientId client) {
  std::erase_if(notices_, [&](const auto& each) { return each.second.client == client; });
}

}  // namespace penstock::nfs::v4
