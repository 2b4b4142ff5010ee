#include "fs/ceph/location.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace penstock::fs::ceph {
namespace {

constexpr std::string_view kScheme = "ceph:";

template <class T>
struct OptionName {
  std::string_view name;
  std::string T::* member;
};
constexpr std::array kOptions{OptionName<Location>{"conf", &Location::conf}, OptionName<Location>{"fs", &Location::fs},
                              OptionName<Location>{"user", &Location::user}};
constexpr std::array kClusterOptions{OptionName<ClusterLocation>{"conf", &ClusterLocation::conf},
                                     OptionName<ClusterLocation>{"pool", &ClusterLocation::pool},
                                     OptionName<ClusterLocation>{"user", &ClusterLocation::user},
                                     OptionName<ClusterLocation>{"node", &ClusterLocation::node}};
constexpr std::string_view kDefaultPool = "penstock";

std::optional<unsigned> HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

// The errors are parts of a sentence, which ParseLocation() completes.
template <class T>
using Parsed = penstock::Result<T, std::string>;

Parsed<std::string> Decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    char octet = text[i];
    if (octet == '%') {
      const auto high = i + 1 < text.size() ? HexDigit(text[i + 1]) : std::nullopt;
      const auto low = i + 2 < text.size() ? HexDigit(text[i + 2]) : std::nullopt;
      if (!high || !low) {
        return std::unexpected(fmt::format("\"{}\" is not % with two hexadecimal digits; write %25 for a percent sign",
                                           text.substr(i, 3)));
      }
      octet = static_cast<char>(*high * 16 + *low);
      i += 2;
    }
    if (octet == '\0') return std::unexpected(std::string("it has a zero octet"));
    decoded += octet;
  }
  return decoded;
}

// Checks and normalizes the path: one slash before each component, none at the end; the root is "/".
Parsed<std::string> NormalPath(std::string_view path) {
  if (!path.starts_with('/')) {
    return std::unexpected(std::string("the path does not begin with a slash; write ceph:/path"));
  }
  std::string normal;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view component = path.substr(0, path.find('/'));
    path.remove_prefix(component.size());
    if (component.empty()) continue;
    if (component == "." || component == "..") {
      return std::unexpected(fmt::format("the path has a component \"{}\"", component));
    }
    if (component == ".snap") {
      return std::unexpected(
          std::string("snapshots are not exported: export the directory, whose clients find its snapshots in .snap"));
    }
    normal += '/';
    normal += component;
  }
  return normal.empty() ? "/" : normal;
}

Parsed<void> Check(std::string_view name, std::string_view value) {
  if (value.empty()) return std::unexpected(fmt::format("the option {} has no value", name));
  if (name == "conf" && !value.starts_with('/')) {
    return std::unexpected(fmt::format("conf={} is not an absolute path", value));
  }
  if (name == "user" && value.starts_with("client.")) {
    return std::unexpected(fmt::format("user={0}: write the name without \"client.\": user={1}", value,
                                       value.substr(std::string_view("client.").size())));
  }
  return {};
}

// "conf, fs and user"
std::string ListOf(std::span<const std::string_view> names) {
  return fmt::format("{} and {}", fmt::join(names.first(names.size() - 1), ", "), names.back());
}

template <class T, size_t size>
Parsed<void> TakeOption(std::string_view option, const std::array<OptionName<T>, size>& options, T& location) {
  const size_t equals = option.find('=');
  const std::string_view name = option.substr(0, equals);
  for (const OptionName<T>& each : options) {
    if (each.name != name) continue;
    if (equals == std::string_view::npos) return std::unexpected(fmt::format("the option {} has no value", name));
    // Check() accepts no empty value.
    if (!(location.*each.member).empty()) return std::unexpected(fmt::format("the option {} is repeated", name));
    PENSTOCK_TRY(std::string value, Decode(option.substr(equals + 1)));
    PENSTOCK_CHECK(Check(name, value));
    location.*each.member = std::move(value);
    return {};
  }
  std::array<std::string_view, size> names;
  std::ranges::transform(options, names.begin(), &OptionName<T>::name);
  if (name.empty()) {
    return std::unexpected(fmt::format("an option is missing after \"?\" or \"&\": the options are {}", ListOf(names)));
  }
  return std::unexpected(fmt::format("unknown option \"{}\": the options are {}", name, ListOf(names)));
}

// Takes "?a=b&c=d", or nothing.
template <class T, size_t size>
Parsed<void> TakeOptions(std::string_view text, const std::array<OptionName<T>, size>& options, T& location) {
  while (!text.empty()) {
    text.remove_prefix(1);
    const size_t end = std::min(text.find('&'), text.size());
    PENSTOCK_CHECK(TakeOption(text.substr(0, end), options, location));
    text.remove_prefix(end);
  }
  return {};
}

Parsed<Location> Parse(std::string_view text) {
  if (!text.starts_with(kScheme)) return std::unexpected(std::string("it does not begin with ceph:"));
  text.remove_prefix(kScheme.size());
  const size_t end = std::min(text.find('?'), text.size());
  Location location;
  PENSTOCK_TRY(const std::string path, Decode(text.substr(0, end)));
  PENSTOCK_TRY(location.path, NormalPath(path));
  PENSTOCK_CHECK(TakeOptions(text.substr(end), kOptions, location));
  return location;
}

// What may be part of the names of objects.
bool IsPlainName(std::string_view name) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(kPlain) == name.npos;
}

Parsed<ClusterLocation> ParseCluster(std::string_view text) {
  const size_t end = std::min(text.find('?'), text.size());
  ClusterLocation location;
  PENSTOCK_TRY(location.name, Decode(text.substr(0, end)));
  PENSTOCK_CHECK(TakeOptions(text.substr(end), kClusterOptions, location));
  if (location.pool.empty()) location.pool = kDefaultPool;
  if (location.node.empty()) {
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    location.node = host;
  }
  for (const auto& [what, name] : {std::pair("the name of the cluster", &location.name), {"node=", &location.node}}) {
    if (!IsPlainName(*name)) {
      return std::unexpected(
          fmt::format("{} may have up to 64 letters, digits, \"-\", \"_\" and \".\": \"{}\" has not", what, *name));
    }
  }
  return location;
}

// Writes %XX for what ParseLocation() gives a meaning, for the colon and the backslash of --export, and for what a line
// of a log or a table cannot have.
std::string Encode(std::string_view text) {
  constexpr std::string_view kSpecial = "%?&#:\\\"";
  std::string encoded;
  for (const char octet : text) {
    const auto value = static_cast<unsigned char>(octet);
    if (value <= 0x20 || value == 0x7f || kSpecial.find(octet) != std::string_view::npos) {
      encoded += fmt::format("%{:02X}", value);
    } else {
      encoded += octet;
    }
  }
  return encoded;
}

// Completes the sentence of an error.
template <class T>
SetupResult<T> About(std::string_view text, Parsed<T> parsed) {
  if (parsed) return *std::move(parsed);
  const std::string shown = text.find('\0') == std::string_view::npos ? std::string(text) : Encode(text);
  return std::unexpected(SetupError{fmt::format("{}: {}", shown, parsed.error())});
}

}  // namespace

SetupResult<Location> ParseLocation(std::string_view text) { return About(text, Parse(text)); }

SetupResult<ClusterLocation> ParseClusterLocation(std::string_view text) { return About(text, ParseCluster(text)); }

std::string ToString(const Location& location) {
  std::string text = std::string(kScheme) + Encode(location.path);
  char separator = '?';
  for (const OptionName<Location>& each : kOptions) {
    if ((location.*each.member).empty()) continue;
    text += fmt::format("{}{}={}", separator, each.name, Encode(location.*each.member));
    separator = '&';
  }
  return text;
}

}  // namespace penstock::fs::ceph
