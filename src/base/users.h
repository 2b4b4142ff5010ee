// This host's databases of users and groups. Look-ups may block (on a directory service); any thread. Nothing where there
// is nobody of that number or name, or the database cannot be asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

struct User {
  std::string name;
  uint32_t uid;
  uint32_t gid;  // of the group that is the user's own
};
std::optional<User> FindUser(uint32_t uid);                  // getpwuid_r(3)
std::optional<User> FindUserNamed(const std::string& name);  // getpwnam_r(3)

struct Group {
  std::string name;
  uint32_t gid;
};
std::optional<Group> FindGroup(uint32_t gid);                  // getgrgid_r(3)
std::optional<Group> FindGroupNamed(const std::string& name);  // getgrnam_r(3)

}  // namespace penstock
