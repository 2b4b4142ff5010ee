// Look-ups in this host's databases of users and groups. They may block on a directory service, and are thread-safe.
// They return nullopt if the user or group does not exist, or if the database does not answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

struct User {
  std::string name;
  uint32_t uid;
  uint32_t gid;  // the user's primary group
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
