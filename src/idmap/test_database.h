// For tests: a database of users and groups that answers, fails or hangs as the test says, without threads.
#pragma once

#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/client_key.h"
#include "idmap/database.h"
#include "idmap/lookups.h"

namespace penstock::idmap {

inline Query ById(uint32_t id, Kind kind = Kind::kUser) { return {.kind = kind, .of = id}; }
inline Query ByName(std::string name, Kind kind = Kind::kUser) { return {.kind = kind, .of = std::move(name)}; }

class TestDatabase {
 public:
  TestDatabase() = default;
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;

  // The users and groups, and the number of questions so far.
  std::map<std::string, uint32_t> users{{"root", 0}, {"anna", 7}};
  std::map<std::string, uint32_t> groups{{"root", 0}, {"staff", 8}};
  bool fails = false;
  size_t asked = 0;
  // While this is true, look-ups do not end.
  bool hangs = false;

  // For Lookups. They refer to this object.
  Database database() {
    return [this](const Query& query) { return Ask(query); };
  }
  Lookups::Run run() {
    return [this](std::move_only_function<void()> function, const ClientKey&) {
      hanging_.push_back(std::move(function));
      if (!hangs) Answer();
    };
  }
  // Lets the look-ups that hang end.
  void Answer() {
    hangs = false;
    while (!hanging_.empty()) AnswerOne();
  }
  void AnswerOne() {
    auto function = std::move(hanging_.front());
    hanging_.pop_front();
    function();
  }
  size_t hanging() const { return hanging_.size(); }

 private:
  idmap::Answer Ask(const Query& query) {
    ++asked;
    if (fails) return std::unexpected(NoAnswer{EIO});
    const auto& accounts = query.kind == Kind::kUser ? users : groups;
    for (const auto& [name, id] : accounts) {
      const bool is_it = query.is_by_id() ? std::get<0>(query.of) == id : std::get<1>(query.of) == name;
      if (is_it) return Account{.name = name, .id = id};
    }
    return std::nullopt;
  }

  std::deque<std::move_only_function<void()>> hanging_;
};

}  // namespace penstock::idmap
