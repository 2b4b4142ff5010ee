#include "nfs/locations.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "base/address.h"
#include "base/utf8.h"
#include "nfs/export_options.h"
#include "rpc/universal_address.h"

namespace penstock::nfs {
namespace {

std::unexpected<SetupError> Fail(std::string message) { return std::unexpected(SetupError{std::move(message)}); }

// Removes the text before the first `separator` outside of brackets, and the separator, from `text`; returns that text.
std::string_view TakeUnbracketed(std::string_view& text, char separator) {
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

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetterOrDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether the text is an IP address of this version, or a universal address, which has a port (RFC 5665 §5.2.3).
bool IsAddress(std::string_view text, bool v6) {
  asio::error_code error;
  const IpAddress address = asio::ip::make_address(std::string(text), error);
  if (!error) return address.is_v6() == v6 && text.find('%') == std::string_view::npos;
  return rpc::ParseUniversalAddress({.transport = rpc::TransportKind::kTcp, .v6 = v6}, text).has_value();
}

// RFC 1123 §2.1; "_" is in use as well.
bool IsName(std::string_view text) {
  if (text.size() > 253) return false;
  std::string_view last;
  while (!text.empty()) {
    last = TakeUnbracketed(text, '.');
    const auto may_be_inside = [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '_'; };
    if (last.empty() || last.size() > 63 || !std::ranges::all_of(last, may_be_inside)) return false;
    if (last.starts_with('-') || last.ends_with('-') || last == "_") return false;
  }
  // A name that ends with a number is a wrong address.
  return !last.empty() && !std::ranges::all_of(last, IsDigit);
}

// Returns the host without the brackets of an IPv6 address. Empty if it is no host.
std::string_view HostIn(std::string_view text) {
  if (text.starts_with('[')) {
    if (!text.ends_with(']')) return {};
    const std::string_view address = text.substr(1, text.size() - 2);
    return IsAddress(address, true) ? address : std::string_view();
  }
  return IsAddress(text, false) || IsName(text) ? text : std::string_view();
}

SetupResult<Location> ParseLocation(std::string_view text) {
  Location location;
  std::string_view hosts = text;
  const std::string_view path = TakeUnbracketed(hosts, '@');
  if (hosts.empty()) return Fail(fmt::format("\"{}\" names no host: write PATH@HOST[+HOST]", text));
  PENSTOCK_TRY(location.path, NormalizeExportPath(path));
  // A path in version 4 is UTF-8 (RFC 8881 §14).
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  if (!IsUtf8(path) || std::ranges::any_of(path, is_control)) {
    return Fail("the path on the other server is not UTF-8, or has control characters");
  }
  while (!hosts.empty()) {
    const bool ends_with_plus = hosts.ends_with('+');
    const std::string_view given = TakeUnbracketed(hosts, '+');
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
    PENSTOCK_TRY(Location location, ParseLocation(TakeUnbracketed(text, ':')));
    list.push_back(std::move(location));
  }
  return list;
}

}  // namespace penstock::nfs
