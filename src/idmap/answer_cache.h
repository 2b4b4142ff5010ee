// The remembered answers of a database of users and groups.
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/timer.h"
#include "idmap/database.h"

namespace penstock::idmap {

// Forgets the least recently used answer when it is full. Answers with an account and those without one have separate
// places: a client that sends names or numbers without accounts takes no place from the accounts of others. The caller
// holds a lock.
class AnswerCache {
 public:
  // `accounts` and `none` limit the number of answers with and without an account, for each kind and direction.
  AnswerCache(size_t accounts, size_t none) : limits_{accounts, none} {}

  struct Entry {
    std::optional<Account> account;
    TimePoint until;  // when the answer is to be asked for again
  };
  // Null if the answer is not remembered. Valid until the next call.
  const Entry* Find(const Query& query);
  void Keep(const Query& query, Entry entry);

  // The number of remembered answers.
  size_t size() const;

 private:
  using Key = std::variant<uint32_t, std::string>;
  using Order = std::list<std::pair<Key, Entry>>;  // the most recently used first
  struct Part {
    Order order;
    std::unordered_map<Key, Order::iterator> places;
  };
  // Two parts for each kind and direction: answers with an account, and without one.
  using Parts = std::array<Part, 2>;

  Parts& PartsFor(const Query& query) { return parts_[2 * static_cast<size_t>(query.kind) + query.of.index()]; }

  const std::array<size_t, 2> limits_;
  std::array<Parts, 4> parts_;
};

}  // namespace penstock::idmap
