#include "cli/find_filter.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "cli/sizes.h"

namespace penstock::cli {
namespace {

char FindLetter(client::FileType type) {
  switch (type) {
    case client::FileType::kRegular:
      return 'f';
    case client::FileType::kDirectory:
      return 'd';
    case client::FileType::kSymlink:
      return 'l';
    case client::FileType::kBlockDevice:
      return 'b';
    case client::FileType::kCharacterDevice:
      return 'c';
    case client::FileType::kSocket:
      return 's';
    case client::FileType::kFifo:
      return 'p';
    case client::FileType::kOther:
      break;
  }
  return '?';
}

bool AllHold(const std::vector<Bound>& bounds, uint64_t value) {
  return std::ranges::all_of(bounds, [&](const Bound& bound) { return bound.Holds(value); });
}

}  // namespace

std::optional<Bound> ParseBound(std::string_view text) {
  Bound bound;
  if (text.starts_with('+')) bound.sign = 1;
  if (text.starts_with('-')) bound.sign = -1;
  if (bound.sign != 0) text.remove_prefix(1);
  const auto number = ParseSize(text);
  if (!number) return std::nullopt;
  bound.number = *number;
  return bound;
}

bool MatchesAny(const std::vector<std::string>& patterns, const std::string& text, int flags) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), text.c_str(), flags) == 0; });
}

bool FindFilter::Matches(const client::Entry& entry, const std::string& path, int64_t now) const {
  if (!names.empty() && !MatchesAny(names, entry.name)) return false;
  if (!names_of_any_case.empty() && !MatchesAny(names_of_any_case, entry.name, FNM_CASEFOLD)) return false;
  if (!paths.empty() && !MatchesAny(paths, path)) return false;
  const bool needs_attributes =
      !types.empty() || !sizes.empty() || !minutes.empty() || !days.empty() || newer_than.has_value() || needs_owners();
  if (!needs_attributes) return true;
  if (!entry.attributes) return entry.is_referral && types == "d" && sizes.empty() && minutes.empty() && days.empty();
  const client::Attributes& a = *entry.attributes;
  if (!types.empty() && !types.contains(FindLetter(a.type))) return false;
  if (!AllHold(sizes, a.size)) return false;
  const int64_t age = std::max<int64_t>(now - a.modified.seconds, 0);
  if (!AllHold(minutes, static_cast<uint64_t>(age) / 60)) return false;
  if (!AllHold(days, static_cast<uint64_t>(age) / 86400)) return false;
  if (!owners.empty() && std::ranges::find(owners, a.owner) == owners.end()) return false;
  if (!groups.empty() && std::ranges::find(groups, a.group) == groups.end()) return false;
  const auto time_of = [](const client::Time& time) { return std::pair(time.seconds, time.nanoseconds); };
  return !newer_than || time_of(a.modified) > time_of(*newer_than);
}

}  // namespace penstock::cli
