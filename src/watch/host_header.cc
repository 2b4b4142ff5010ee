#include "watch/host_header.h"

#include <algorithm>
#include <asio/ip/address.hpp>
#include <string>

namespace penstock::watch {
namespace {

bool IsSameName(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool IsAddress(std::string_view text, bool v6) {
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(std::string(text), error);
  return !error && address.is_v6() == v6;
}

}  // namespace

bool NamesThisHost(std::string_view host, std::string_view own_name) {
  const bool in_brackets = host.starts_with('[');
  const size_t end = in_brackets ? host.find(']') : host.find(':');
  if (in_brackets && end == std::string_view::npos) return false;
  std::string_view port = end == std::string_view::npos ? std::string_view() : host.substr(end + (in_brackets ? 1 : 0));
  if (port.starts_with(':')) port.remove_prefix(1);
  if (!std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; })) return false;
  if (in_brackets) return IsAddress(host.substr(1, end - 1), true);
  std::string_view name = host.substr(0, end);
  if (IsAddress(name, false)) return true;
  if (name.ends_with('.')) name.remove_suffix(1);
  return !name.empty() && (IsSameName(name, "localhost") || IsSameName(name, own_name));
}

}  // namespace penstock::watch
