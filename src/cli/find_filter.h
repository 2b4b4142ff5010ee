// The tests of `penstock find`: which entries of a tree it prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/mount.h"

namespace penstock::cli {

// A number with a sign: more than it, less than it, or equal to it.
struct Bound {
  int sign = 0;
  uint64_t number = 0;
  bool Holds(uint64_t value) const { return sign > 0 ? value > number : sign < 0 ? value < number : value == number; }
};
// Parses "+N", "-N" or "N", where N is a size (ParseSize()). Returns nothing for anything else.
std::optional<Bound> ParseBound(std::string_view text);

// Each test that is set must hold. Of several patterns or types, one must match.
struct FindFilter {
  std::vector<std::string> names;  // fnmatch(3) patterns
  std::vector<std::string> names_of_any_case;
  std::vector<std::string> paths;  // patterns of the path below the start, in which * matches '/'
  std::string types;               // letters of f d l b c s p
  std::vector<Bound> sizes;        // octets
  std::vector<Bound> minutes;      // since the last change of data
  std::vector<Bound> days;
  std::vector<std::string> owners;
  std::vector<std::string> groups;
  std::optional<client::Time> newer_than{};

  // `path` is that below the start. An entry without attributes passes only tests of names.
  bool Matches(const client::Entry& entry, const std::string& path, int64_t now) const;
  bool needs_owners() const { return !owners.empty() || !groups.empty(); }
};

// Whether one of the patterns matches.
bool MatchesAny(const std::vector<std::string>& patterns, const std::string& text, int flags = 0);

}  // namespace penstock::cli
