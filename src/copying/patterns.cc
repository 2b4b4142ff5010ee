#include "copying/patterns.h"

#include <utility>

namespace penstock::copying {
namespace {

// Matches one octet against the set at the beginning of `pattern`, behind its '['. Sets `length` to the length of the
// set with its ']', or to zero if it has none: then '[' is an ordinary octet.
bool MatchesSet(std::string_view pattern, char octet, size_t& length) {
  size_t at = 0;
  const bool negated = pattern.starts_with('!') || pattern.starts_with('^');
  if (negated) ++at;
  const auto value = static_cast<unsigned char>(octet);
  bool found = false;
  for (bool first = true; at < pattern.size(); first = false) {
    if (pattern[at] == ']' && !first) {
      length = at + 1;
      return found != negated && octet != '/';
    }
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const auto low = static_cast<unsigned char>(pattern[at++]);
    auto high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      high = static_cast<unsigned char>(pattern[at + 1]);
      at += 2;
    }
    if (low <= value && value <= high) found = true;
  }
  length = 0;
  return false;
}

// Matches the first part of a pattern that is not a star against one octet. Returns the length of the part, or zero.
size_t MatchOne(std::string_view pattern, char octet) {
  if (pattern[0] == '?') return octet != '/' ? 1 : 0;
  if (pattern[0] == '[') {
    size_t length = 0;
    const bool matches = MatchesSet(pattern.substr(1), octet, length);
    if (length > 0) return matches ? 1 + length : 0;
  }
  if (pattern[0] == '\\' && pattern.size() > 1) return pattern[1] == octet ? 2 : 0;
  return pattern[0] == octet ? 1 : 0;
}

}  // namespace

// Goes back only to the last star of each kind: what an earlier star stands for needs no change.
bool Matches(std::string_view pattern, std::string_view text) {
  struct Star {
    size_t pattern = std::string_view::npos;  // behind the star
    size_t text = 0;                          // the next end of the text that it stands for
  };
  Star one, two;
  size_t p = 0, t = 0;
  for (;;) {
    if (p < pattern.size() && pattern[p] == '*') {
      const bool is_double = pattern.substr(p).starts_with("**");
      p += is_double ? 2 : 1;
      (is_double ? two : one) = {p, t};
      if (is_double) {
        one = {};
        // "**/" also stands for nothing.
        if (pattern.substr(p).starts_with('/') && Matches(pattern.substr(p + 1), text.substr(t))) return true;
      }
      continue;
    }
    if (p == pattern.size() && t == text.size()) return true;
    const size_t length = p < pattern.size() && t < text.size() ? MatchOne(pattern.substr(p), text[t]) : 0;
    if (length > 0) {
      p += length;
      ++t;
      continue;
    }
    if (one.pattern != pattern.npos && one.text < text.size() && text[one.text] != '/') {
      p = one.pattern;
      t = ++one.text;
    } else if (two.pattern != pattern.npos && two.text < text.size()) {
      p = two.pattern;
      t = ++two.text;
      one = {};
    } else {
      return false;
    }
  }
}

bool IsPattern(std::string_view text) { return text.find_first_of("*?[") != text.npos; }

void Filter::Add(bool includes, std::string pattern) {
  Rule rule{.includes = includes};
  if (pattern.size() > 1 && pattern.ends_with('/')) {
    rule.directories_only = true;
    pattern.pop_back();
  }
  rule.whole_path = pattern.contains('/');
  if (pattern.starts_with('/')) pattern.erase(0, 1);
  rule.pattern = std::move(pattern);
  rules_.push_back(std::move(rule));
}

bool Filter::Includes(std::string_view path, bool is_directory) const {
  const std::string_view last = path.substr(path.rfind('/') + 1);
  for (const Rule& rule : rules_) {
    if (rule.directories_only && !is_directory) continue;
    if (Matches(rule.pattern, rule.whole_path ? path : last)) return rule.includes;
  }
  return true;
}

}  // namespace penstock::copying
