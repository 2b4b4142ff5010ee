// The databases of users and groups, which map names to ids and ids to names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "base/users.h"

namespace penstock::idmap {

enum class Kind : uint8_t { kUser, kGroup };

// A user or group.
struct Account {
  std::string name;
  uint32_t id = 0;
  bool operator==(const Account&) const = default;
};

// A question to the database: by id or by name.
struct Query {
  Kind kind = Kind::kUser;
  std::variant<uint32_t, std::string> of;
  bool operator==(const Query&) const = default;

  bool is_by_id() const { return of.index() == 0; }
};

// Empty: there is no such user or group.
using Answer = Found<Account>;

// May block. Thread-safe.
using Database = std::function<Answer(const Query&)>;

// The databases of this host: getpwuid_r(3) and the functions like it.
Answer AskHost(const Query& query);

}  // namespace penstock::idmap
