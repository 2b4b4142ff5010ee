#include "nfs/v4/state/copy_notices.h"

#include <algorithm>
#include <utility>
#include <vector>

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
  const ClientId client = notice.client;
  EraseOf(client, [&](const Notice& each) { return HasExpired(each, now); });
  if (const auto of_client = by_client_.find(client); of_client != by_client_.end()) {
    for (auto& [number, each] : of_client->second) {
      if (!Agree(each, notice)) continue;
      each.until = notice.until;
      return MakeCopyStateId(CopyStateKind::kNotice, number);
    }
  }
  const auto is_full = [&] {
    const auto of_client = by_client_.find(client);
    return size() >= limits_.of_all ||
           (of_client != by_client_.end() && of_client->second.size() >= limits_.per_client);
  };
  const auto is_over = [&](const Notice& each) { return HasExpired(each, now) || !lasts(each); };
  if (is_full()) EraseOf(client, is_over);
  if (is_full() && now >= next_search_) {
    next_search_ = now + limits_.between_searches;
    EraseOfAll(is_over);
  }
  if (is_full() || !clients_.try_emplace(random, client).second) return std::nullopt;
  by_client_[client].emplace(random, std::move(notice));
  return MakeCopyStateId(CopyStateKind::kNotice, random);
}

void CopyNotices::EraseOf(ClientId client, const std::function<bool(const Notice&)>& is_over) {
  const auto of_client = by_client_.find(client);
  if (of_client == by_client_.end()) return;
  std::erase_if(of_client->second,
                [&](const auto& each) { return is_over(each.second) && clients_.erase(each.first); });
  if (of_client->second.empty()) by_client_.erase(of_client);
}

void CopyNotices::EraseOfAll(const std::function<bool(const Notice&)>& is_over) {
  std::vector<ClientId> all;
  all.reserve(by_client_.size());
  for (const auto& [client, notices] : by_client_) all.push_back(client);
  for (const ClientId client : all) EraseOf(client, is_over);
}

bool CopyNotices::IsOne(const nfs4::stateid4& stateid) { return NumberOf(CopyStateKind::kNotice, stateid).has_value(); }

CopyNotices::Notice* CopyNotices::Find(const nfs4::stateid4& stateid, const FileHandle& file) {
  const auto number = NumberOf(CopyStateKind::kNotice, stateid);
  const auto client = number ? clients_.find(*number) : clients_.end();
  if (client == clients_.end()) return nullptr;
  Notice& notice = by_client_.at(client->second).at(*number);
  return notice.file == file ? &notice : nullptr;
}

const CopyNotices::Notice* CopyNotices::Use(const nfs4::stateid4& stateid, const FileHandle& file, TimePoint now) {
  Notice* const found = Find(stateid, file);
  if (!found || HasExpired(*found, now)) return nullptr;
  found->begun = true;
  return found;
}

bool CopyNotices::Cancel(ClientId client, const FileHandle& file, const nfs4::stateid4& stateid) {
  const Notice* const found = Find(stateid, file);
  if (!found || found->client != client) return false;
  EraseOf(client, [found](const Notice& each) { return &each == found; });
  return true;
}

void CopyNotices::ForgetClient(ClientId client) {
  EraseOf(client, [](const Notice&) { return true; });
}

}  // namespace penstock::nfs::v4
