#include "nfs/user_groups.h"

#include <grp.h>

#include <cerrno>
#include <utility>

#include "base/log.h"
#include "rpc/client_key.h"

namespace penstock::nfs {
namespace {

constexpr int kMostGroups = 64 << 10;  // NGROUPS_MAX

}  // namespace

Result<std::vector<uint32_t>, NoAnswer> UserGroups::OfSystem(uint32_t uid) {
  const Found<User> found = FindUser(uid);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::vector<uint32_t>();
  const User& user = **found;
  std::vector<gid_t> groups(64);
  for (;;) {
    int count = static_cast<int>(groups.size());
    if (::getgrouplist(user.name.c_str(), user.gid, groups.data(), &count) >= 0) {
      groups.resize(static_cast<size_t>(count));
      return std::vector<uint32_t>(groups.begin(), groups.end());
    }
    if (groups.size() >= kMostGroups) return std::unexpected(NoAnswer{ERANGE});
    groups.resize(groups.size() * 4);
  }
}

bool UserGroups::Knows(uint32_t uid) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(uid);
  return found != known_.end() && found->second.until > now_();
}

UserGroups::List UserGroups::Of(uint32_t uid) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(uid);
  return found == known_.end() ? nullptr : found->second.groups;
}

Task<> UserGroups::Load(Loop* loop, uint32_t uid, ClientKey client) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(uid);
    const bool serves_others = known != known_.end() && known->second.has_failed && known->second.has_groups();
    if (serves_others) known->second.until = now_() + settings_.kept_for;
  }
  const auto look_up = [this, uid] { return look_up_(uid); };
  auto found = co_await Offload(loop, pool_, look_up, client);
  Keep(uid, std::move(found));
}

void UserGroups::Keep(uint32_t uid, Result<std::vector<uint32_t>, NoAnswer> found) {
  const TimePoint now = now_();
  if (!found && told_.Allows(now)) {
    log::warn("the groups of user {} cannot be looked up ({}): users have the groups that were known, or none", uid,
              DescribeErrno(found.error().error));
  }
  const std::lock_guard lock(mutex_);
  if (known_.size() >= settings_.users && !known_.contains(uid)) known_.erase(known_.begin());
  Entry& entry = known_[uid];
  entry.has_failed = !found;
  if (found) {
    entry.until = now + settings_.known_for;
    entry.groups = std::make_shared<const std::vector<uint32_t>>(*std::move(found));
  } else if (entry.has_groups()) {
    entry.until = now + settings_.kept_for;
  } else {
    entry.until = now + settings_.again_after;
    entry.groups = std::make_shared<const std::vector<uint32_t>>();
  }
}

Task<rpc::AcceptStatus> WithGroups::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  const rpc::Credential& credential = context.credential;
  const bool asks = context.procedure != 0 && groups_.AreOf(credential);
  if (!asks || groups_.Knows(credential.uid)) return inner().Call(context, arguments, results);
  return LoadAndCall(context, arguments, results);
}

Task<rpc::AcceptStatus> WithGroups::LoadAndCall(rpc::CallContext& context, xdr::Decoder& arguments,
                                                xdr::Encoder& results) {
  const ClientKey client = rpc::ClientKeyOf(context.peer);
  co_await groups_.Load(context.peer.loop, context.credential.uid, client);
  co_return co_await inner().Call(context, arguments, results);
}

}  // namespace penstock::nfs
