#include "nfs/locations.h"

#include <fmt/core.h>

#include <algorithm>

#include "nfs/export_options.h"

namespace penstock::nfs {
namespace {

std::unexpected<SetupError> Fail(std::string message) { return std::unexpected(SetupError{std::move(message)}); }

// Removes the text before the first `separator` outside of brackets, and the separator, from `text`; returns that text.
std::string_view TakeUntil(std::string_view& text, char separator) {
  bool in_brackets = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '[') in_brackets = true;
    if (text[at] == ']') in_brackets = false;
    if (text[at] == separator && !in_brackets) break;
  }
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(text.size(), at + 1));
  return taken;
}

bool IsLetterOrDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns the host without the brackets of an IPv6 address. Empty if it is no host.
std::string_view HostIn(std::string_view text) {
  if (text.starts_with('[')) {
    if (!text.ends_with(']')) return {};
    const std::string_view address = text.substr(1, text.size() - 2);
    const bool is_v6 = address.find(':') != std::string_view::npos &&
                       address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
    return is_v6 ? address : std::string_view();
  }
  const auto may_be_in_name = [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '.' || c == '_'; };
  return std::ranges::all_of(text, may_be_in_name) ? text : std::string_view();
}

SetupResult<Location> ParseLocation(std::string_view text) {
  Location location;
  std::string_view hosts = text;
  const std::string_view path = TakeUntil(hosts, '@');
  if (hosts.empty()) return Fail(fmt::format("\"{}\" names no host: write PATH@HOST[+HOST]", text));
  PENSTOCK_TRY(location.path, NormalizeExportPath(path));
  while (!hosts.empty()) {
    const bool ends_with_plus = hosts.ends_with('+');
    const std::string_view given = TakeUntil(hosts, '+');
    const std::string_view host = HostIn(given);
    if (host.empty()) return Fail(fmt::format("\"{}\" is not a host name or an address", given));
    if (hosts.empty() && ends_with_plus) return Fail("a host is missing after \"+\"");
    location.servers.emplace_back(host);
  }
  return location;
}

}  // namespace

SetupResult<std::vector<Location>> ParseLocations(std::string_view text) {
  if (text.size() > Locations::kLongestText) {
    return Fail(fmt::format("the list is longer than {} octets", Locations::kLongestText));
  }
  std::vector<Location> list;
  if (text.empty() || text.ends_with(':')) return Fail("a location is missing: write PATH@HOST[+HOST]");
  while (!text.empty()) {
    PENSTOCK_TRY(Location location, ParseLocation(TakeUntil(text, ':')));
    list.push_back(std::move(location));
  }
  return list;
}

}  // namespace penstock::nfs
