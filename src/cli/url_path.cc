#include "cli/url_path.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace penstock::cli {

std::string EncodePath(std::string_view path) {
  constexpr std::string_view kPlain = "/-._~!$&'()*+,;=:@";
  std::string text;
  for (const char character : path) {
    const auto octet = static_cast<unsigned char>(character);
    const bool is_plain = (octet >= '0' && octet <= '9') || (octet >= 'A' && octet <= 'Z') ||
                          (octet >= 'a' && octet <= 'z') || kPlain.contains(character);
    text += is_plain ? std::string(1, character) : fmt::format("%{:02X}", octet);
  }
  return text;
}

std::string AbsolutePath(std::string_view from, std::string_view path) {
  std::vector<std::string_view> names;
  const auto walk = [&](std::string_view text) {
    while (!text.empty()) {
      const std::string_view name = text.substr(0, text.find('/'));
      text.remove_prefix(std::min(text.size(), name.size() + 1));
      if (name == ".." && !names.empty()) names.pop_back();
      if (!name.empty() && name != "." && name != "..") names.push_back(name);
    }
  };
  if (!path.starts_with('/')) walk(from);
  walk(path);
  std::string absolute;
  for (const std::string_view name : names) absolute += fmt::format("/{}", name);
  return absolute.empty() ? "/" : absolute;
}

}  // namespace penstock::cli
