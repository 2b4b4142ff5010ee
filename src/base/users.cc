#include "base/users.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <vector>

namespace penstock {
namespace {

constexpr size_t kMostOctets = 1 << 20;

// getpwnam_r(3) lists these errors for names that do not exist. Some services return them in place of zero.
bool MeansNone(int error) {
  return error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM;
}

// Looks up `key` by `get`, a function of the *_r(3) kind, with a larger buffer each time that it asks for one. Converts
// the entry by `read`.
template <class Entry, class Get, class Key, class Read>
auto Find(Get get, Key key, Read read) -> Found<decltype(read(Entry()))> {
  for (std::vector<char> buffer(1024); buffer.size() <= kMostOctets; buffer.resize(buffer.size() * 4)) {
    Entry entry;
    Entry* found = nullptr;
    const int error = get(key, &entry, buffer.data(), buffer.size(), &found);
    if (error == ERANGE) continue;
    if (found && error == 0) return read(*found);
    if (MeansNone(error)) return std::nullopt;
    return std::unexpected(NoAnswer{error});
  }
  return std::unexpected(NoAnswer{ERANGE});
}

User ToUser(const passwd& entry) { return {.name = entry.pw_name, .uid = entry.pw_uid, .gid = entry.pw_gid}; }
Group ToGroup(const group& entry) { return {.name = entry.gr_name, .gid = entry.gr_gid}; }

}  // namespace

Found<User> FindUser(uint32_t uid) { return Find<passwd>(&::getpwuid_r, uid, ToUser); }
Found<User> FindUserNamed(const std::string& name) { return Find<passwd>(&::getpwnam_r, name.c_str(), ToUser); }
Found<Group> FindGroup(uint32_t gid) { return Find<group>(&::getgrgid_r, gid, ToGroup); }
Found<Group> FindGroupNamed(const std::string& name) { return Find<group>(&::getgrnam_r, name.c_str(), ToGroup); }

}  // namespace penstock
