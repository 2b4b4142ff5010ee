#include "base/users.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <vector>

namespace penstock {
namespace {

constexpr size_t kMostOctets = 1 << 20;

// Looks up `key` by `get`, a function of the *_r(3) kind, with a larger buffer each time that it asks for one. Converts
// the entry by `read`.
template <class Entry, class Get, class Key, class Read>
auto Find(Get get, Key key, Read read) -> std::optional<decltype(read(Entry()))> {
  for (std::vector<char> buffer(1024); buffer.size() <= kMostOctets; buffer.resize(buffer.size() * 4)) {
    Entry entry;
    Entry* found = nullptr;
    const int error = get(key, &entry, buffer.data(), buffer.size(), &found);
    if (error == ERANGE) continue;
    if (error != 0 || !found) return std::nullopt;
    return read(*found);
  }
  return std::nullopt;
}

User ToUser(const passwd& entry) { return {.name = entry.pw_name, .uid = entry.pw_uid, .gid = entry.pw_gid}; }
Group ToGroup(const group& entry) { return {.name = entry.gr_name, .gid = entry.gr_gid}; }

}  // namespace

std::optional<User> FindUser(uint32_t uid) { return Find<passwd>(&::getpwuid_r, uid, ToUser); }
std::optional<User> FindUserNamed(const std::string& name) { return Find<passwd>(&::getpwnam_r, name.c_str(), ToUser); }
std::optional<Group> FindGroup(uint32_t gid) { return Find<group>(&::getgrgid_r, gid, ToGroup); }
std::optional<Group> FindGroupNamed(const std::string& name) {
  return Find<group>(&::getgrnam_r, name.c_str(), ToGroup);
}

}  // namespace penstock
