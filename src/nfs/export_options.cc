#include "nfs/export_options.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <utility>

namespace penstock::nfs {
namespace {

constexpr size_t kMaxPath = 1024;  // MNTPATHLEN, RFC 1813 §5.1.4

template <class... Arguments>
std::unexpected<SetupError> Fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return std::unexpected(SetupError{fmt::format(format, std::forward<Arguments>(arguments)...)});
}

std::optional<uint32_t> ParseId(std::string_view text) {
  uint32_t id = 0;
  const auto [end, failure] = std::from_chars(text.begin(), text.end(), id);
  if (failure != std::errc() || end != text.end()) return std::nullopt;
  return id;
}

// Removes the text before the first `separator`, and the separator, from `text`; returns that text.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

// Removes and returns the directory, in which "\:" means a colon, and removes the colon after it.
std::string TakeDirectory(std::string_view& text) {
  std::string directory;
  while (!text.empty()) {
    if (text.starts_with("\\:")) {
      directory += ':';
      text.remove_prefix(2);
      continue;
    }
    const char next = text.front();
    text.remove_prefix(1);
    if (next == ':') break;
    directory += next;
  }
  return directory;
}

SetupResult<void> ApplyValue(std::string_view key, std::string_view value, ExportOptions& options) {
  if (key == "anonuid" || key == "anongid") {
    const auto id = ParseId(value);
    if (!id) return Fail("export option {}={}: not a number from 0 to 4294967295", key, value);
    (key == "anonuid" ? options.anonuid : options.anongid) = *id;
  } else if (key == "client") {
    const auto network = Network::Parse(value);
    if (!network) return Fail("export option client={}: not an address or a network such as 10.0.0.0/8", value);
    options.clients.push_back(*network);
  } else if (key == "sec") {
    auto flavors = SecurityFlavors::Parse(value);
    if (!flavors) return Fail("export option sec={}: {}", value, flavors.error().message);
    options.security = *flavors;
  } else if (key == "xprtsec") {
    auto protections = Protections::Parse(value);
    if (!protections) return Fail("export option xprtsec={}: {}", value, protections.error().message);
    options.protections = *protections;
  } else if (key == "cert") {
    if (value.empty() || value.find('*') != std::string_view::npos) {
      return Fail("export option cert={}: neither a host name, nor an address, nor \"address\"", value);
    }
    if (value == "address") {
      options.certificate_of_address = true;
    } else {
      options.certificates.emplace_back(value);
    }
  } else if (key == "refer" || key == "replicas") {
    const bool referral = key == "refer";
    if (!options.locations.list.empty()) {
      if (options.locations.referral != referral) {
        return Fail("the export options refer= and replicas= exclude each other");
      }
      return Fail("the export option {}= is given twice: write all locations in one, with \":\" between them", key);
    }
    auto list = ParseLocations(value);
    if (!list) return Fail("export option {}={:.60}: {}", key, value, list.error().message);
    options.locations = {.referral = referral, .list = *std::move(list)};
  } else {
    return Fail("unknown export option \"{}={}\"", key, value);
  }
  return {};
}

SetupResult<void> ApplyFlag(std::string_view flag, ExportOptions& options) {
  if (flag == "ro") {
    options.read_only = true;
  } else if (flag == "rw") {
    options.read_only = false;
  } else if (flag == "no_root_squash") {
    options.squash = Squash::kNone;
  } else if (flag == "root_squash") {
    options.squash = Squash::kRoot;
  } else if (flag == "all_squash") {
    options.squash = Squash::kAll;
  } else if (flag == "secure") {
    options.privileged_ports = true;
  } else if (flag == "insecure") {
    options.privileged_ports = false;
  } else {
    return Fail("unknown export option \"{}\"", flag);
  }
  return {};
}

}  // namespace

SetupResult<std::string> NormalizeExportPath(std::string_view path) {
  if (!path.starts_with('/')) return Fail("export path \"{}\" does not begin with a slash", path);
  std::string normal;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view component = TakeUntil(rest, '/');
    if (component.empty()) continue;
    if (component == "." || component == "..") {
      return Fail("export path \"{}\" has a component \"{}\"", path, component);
    }
    normal += '/';
    normal += component;
  }
  if (normal.empty()) normal = "/";
  if (normal.size() > kMaxPath) return Fail("export path \"{:.40}...\" is longer than {} octets", normal, kMaxPath);
  return normal;
}

SetupResult<ExportSpec> ParseExportSpec(std::string_view text) {
  if (text.find('=') == std::string_view::npos) {
    return Fail("export \"{}\": write PATH=DIR[:options], for example /data=/srv/data:ro", text);
  }
  ExportSpec spec;
  std::string_view rest = text;
  PENSTOCK_TRY(spec.path, NormalizeExportPath(TakeUntil(rest, '=')));
  spec.directory = TakeDirectory(rest);
  if (spec.directory.empty()) return Fail("export \"{}\" names no directory", text);

  while (!rest.empty()) {
    std::string_view option = TakeUntil(rest, ',');
    if (option.empty()) continue;
    const bool has_value = option.find('=') != std::string_view::npos;
    const std::string_view key = TakeUntil(option, '=');
    PENSTOCK_CHECK(has_value ? ApplyValue(key, option, spec.options) : ApplyFlag(key, spec.options));
  }
  if ((!spec.options.certificates.empty() || spec.options.certificate_of_address) &&
      !spec.options.protections.IsOnlyMutualTls()) {
    return Fail("export \"{}\" with cert= needs xprtsec=mtls: other clients show no certificate", spec.path);
  }
  if (spec.options.locations.referral && spec.path == "/") {
    return Fail("export \"/\" cannot have the option refer=: clients find the other exports below it");
  }
  return spec;
}

}  // namespace penstock::nfs
