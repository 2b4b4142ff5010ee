// Look-ups in this host's databases of users and groups. They may block on a directory service, and are thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace penstock {

// The database gave no answer, for example because a directory service cannot be reached.
struct NoAnswer {
  int error = 0;  // an errno value
  bool operator==(const NoAnswer&) const = default;
};
// Empty if the database has no such user or group.
template <class T>
using Found = Result<std::optional<T>, NoAnswer>;

struct User {
  std::string name;
  uint32_t uid;
  uint32_t gid;  // the user's primary group
};
Found<User> FindUser(uint32_t uid);                  // getpwuid_r(3)
Found<User> FindUserNamed(const std::string& name);  // getpwnam_r(3)

struct Group {
  std::string name;
  uint32_t gid;
};
Found<Group> FindGroup(uint32_t gid);                  // getgrgid_r(3)
Found<Group> FindGroupNamed(const std::string& name);  // getgrnam_r(3)

}  // namespace penstock
