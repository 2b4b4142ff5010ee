#include "nfs/v4/attributes/owner_names.h"

#include <charconv>

#include "base/users.h"

namespace penstock::nfs::v4 {
namespace {

constexpr Duration kKnownFor = std::chrono::minutes(5);
constexpr size_t kMostNames = 16384;  // the largest number of users, and of groups

std::optional<uint32_t> NumberOf(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

IdentityDatabase IdentityDatabase::OfSystem() {
  constexpr auto name = [](const auto& found) { return found.name; };
  constexpr auto uid = [](const User& user) { return user.uid; };
  constexpr auto gid = [](const Group& group) { return group.gid; };
  return {.user_name = [=](uint32_t id) { return FindUser(id).transform(name); },
          .group_name = [=](uint32_t id) { return FindGroup(id).transform(name); },
          .user_id = [=](const std::string& of) { return FindUserNamed(of).transform(uid); },
          .group_id = [=](const std::string& of) { return FindGroupNamed(of).transform(gid); }};
}

bool OwnerNames::Knows(const Names& names, uint32_t id) const {
  const auto found = names.find(id);
  return found != names.end() && found->second.until > clock_->Now();
}

bool OwnerNames::Knows(uint32_t uid, uint32_t gid) const {
  if (domain_.empty()) return true;
  std::lock_guard lock(mutex_);
  return Knows(users_, uid) && Knows(groups_, gid);
}

Task<> OwnerNames::Load(Loop* loop, uint32_t uid, uint32_t gid) {
  const auto look_up = [this, uid, gid] { return std::pair(database_.user_name(uid), database_.group_name(gid)); };
  const auto [user, group] = co_await Offload(loop, pool_, look_up);
  const auto keep = [this](Names& names, uint32_t id, const std::optional<std::string>& name) {
    if (names.size() >= kMostNames) names.clear();
    names[id] = {name ? *name + "@" + domain_ : std::string(), clock_->Now() + kKnownFor};
  };
  std::lock_guard lock(mutex_);
  keep(users_, uid, user);
  keep(groups_, gid, group);
}

void OwnerNames::Encode(xdr::Encoder& to, const Names& names, uint32_t id) const {
  if (!domain_.empty()) {
    std::lock_guard lock(mutex_);
    const auto found = names.find(id);
    if (found != names.end() && !found->second.text.empty()) return to.String(found->second.text);
  }
  char digits[10];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), id).ptr;
  to.String({digits, static_cast<size_t>(end - digits)});
}

std::optional<std::string_view> OwnerNames::WithoutDomain(std::string_view owner) const {
  const size_t at = owner.rfind('@');
  if (domain_.empty() || at == owner.npos || at == 0 || owner.substr(at + 1) != domain_) return std::nullopt;
  return owner.substr(0, at);
}

Task<std::optional<uint32_t>> OwnerNames::UserOf(std::string_view owner, Loop* loop) {
  if (const auto number = NumberOf(owner)) co_return number;
  const auto name = WithoutDomain(owner);
  if (!name) co_return std::nullopt;
  const std::string text(*name);
  const auto look_up = [this, &text] { return database_.user_id(text); };
  co_return co_await Offload(loop, pool_, look_up);
}

Task<std::optional<uint32_t>> OwnerNames::GroupOf(std::string_view group, Loop* loop) {
  if (const auto number = NumberOf(group)) co_return number;
  const auto name = WithoutDomain(group);
  if (!name) co_return std::nullopt;
  const std::string text(*name);
  const auto look_up = [this, &text] { return database_.group_id(text); };
  co_return co_await Offload(loop, pool_, look_up);
}

}  // namespace penstock::nfs::v4
