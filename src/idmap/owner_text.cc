#include "idmap/owner_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/utf8.h"

namespace penstock::idmap {
namespace {

// Domains of the DNS do not distinguish the case of ASCII letters (RFC 1034 §3.1).
char Lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameOctets && name.find('\0') == name.npos;
}

}  // namespace

std::optional<uint32_t> NumberIn(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  if (number == std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return number;
}

std::optional<std::string_view> NameIn(std::string_view text, std::string_view domain) {
  const size_t at = text.rfind('@');
  if (domain.empty() || at == text.npos) return std::nullopt;
  const std::string_view name = text.substr(0, at);
  if (!std::ranges::equal(text.substr(at + 1), domain, {}, Lower, Lower) || !IsName(name)) return std::nullopt;
  return name;
}

std::optional<std::string> OwnerText(std::string_view name, std::string_view domain) {
  if (!IsName(name) || !IsUtf8(name)) return std::nullopt;
  return fmt::format("{}@{}", name, domain);
}

bool IsDomain(std::string_view text) {
  constexpr auto is_bad = [](unsigned char octet) { return octet == '@' || octet <= ' ' || octet == 0x7f; };
  return !text.empty() && text.size() <= kMostDomainOctets && IsUtf8(text) && std::ranges::none_of(text, is_bad);
}

}  // namespace penstock::idmap
