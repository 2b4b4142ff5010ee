#include "nfs/v4/attributes/owner_names.h"

#include <grp.h>
#include <pwd.h>

#include <charconv>
#include <vector>

namespace penstock::nfs::v4 {
namespace {

constexpr Duration kKnownFor = std::chrono::minutes(5);
constexpr size_t kMostNames = 16384;  // of users, and of groups
constexpr size_t kMostOctets = 1 << 20;

// Calls look(buffer) -> errno with larger and larger buffers while that is ERANGE.
template <class Look>
bool LookUp(Look look) {
  for (std::vector<char> buffer(1024); buffer.size() <= kMostOctets; buffer.resize(buffer.size() * 4)) {
    const int error = look(buffer);
    if (error != ERANGE) return error == 0;
  }
  return false;
}

std::optional<uint32_t> NumberOf(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

IdentityDatabase IdentityDatabase::OfSystem() {
  IdentityDatabase system;
  system.user_name = [](uint32_t uid) -> std::optional<std::string> {
    passwd entry;
    passwd* found = nullptr;
    std::string name;
    const bool looked = LookUp([&](std::vector<char>& buffer) {
      const int error = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
      if (found) name = found->pw_name;
      return error;
    });
    return looked && found ? std::optional(name) : std::nullopt;
  };
  system.group_name = [](uint32_t gid) -> std::optional<std::string> {
    group entry;
    group* found = nullptr;
    std::string name;
    const bool looked = LookUp([&](std::vector<char>& buffer) {
      const int error = ::getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found);
      if (found) name = found->gr_name;
      return error;
    });
    return looked && found ? std::optional(name) : std::nullopt;
  };
  system.user_id = [](const std::string& name) -> std::optional<uint32_t> {
    passwd entry;
    passwd* found = nullptr;
    const bool looked = LookUp([&](std::vector<char>& buffer) {
      return ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    });
    return looked && found ? std::optional<uint32_t>(found->pw_uid) : std::nullopt;
  };
  system.group_id = [](const std::string& name) -> std::optional<uint32_t> {
    group entry;
    group* found = nullptr;
    const bool looked = LookUp([&](std::vector<char>& buffer) {
      return ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    });
    return looked && found ? std::optional<uint32_t>(found->gr_gid) : std::nullopt;
  };
  return system;
}

template <class Function>
Task<std::invoke_result_t<Function>> OwnerNames::Run(Loop* loop, Function function) {
  if (!pool_ || !loop) co_return function();
  co_return co_await Offload(*loop, *pool_, std::move(function));
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
  const auto [user, group] =
      co_await Run(loop, [this, uid, gid] { return std::pair(database_.user_name(uid), database_.group_name(gid)); });
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
  co_return co_await Run(loop, look_up);
}

Task<std::optional<uint32_t>> OwnerNames::GroupOf(std::string_view group, Loop* loop) {
  if (const auto number = NumberOf(group)) co_return number;
  const auto name = WithoutDomain(group);
  if (!name) co_return std::nullopt;
  const std::string text(*name);
  const auto look_up = [this, &text] { return database_.group_id(text); };
  co_return co_await Run(loop, look_up);
}

}  // namespace penstock::nfs::v4
