#include "nfs/export_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

namespace penstock::nfs {
namespace {

constexpr std::string_view kCephfs = "ceph:/";
constexpr size_t kMaxPath = 1024;  // MNTPATHLEN, RFC 1813 §5.1.4

template <class... Arguments>
std::unexpected<SetupError> Fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return std::unexpected(SetupError{fmt::format(format, std::forward<Arguments>(arguments)...)});
}

std::optional<uint32_t> ParseId(std::string_view text) {
  // A negative number is the id with the same 32 bits, as in exports(5): -2 is 4294967294.
  int64_t id = 0;
  const auto [end, failure] = std::from_chars(text.begin(), text.end(), id);
  if (failure != std::errc() || end != text.end() || id < INT32_MIN || id > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(id);
}

// Removes the text before the first `separator`, and the separator, from `text`; returns that text.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

// Removes and returns the directory, in which "\:" means a colon, and removes the colon after it. The colon at the
// beginning of ceph:/path is part of the directory.
std::string TakeDirectory(std::string_view& text) {
  std::string directory;
  if (NamesCephfs(text)) {
    directory = kCephfs;
    text.remove_prefix(kCephfs.size());
  }
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

// The options that have no effect, and why. Without a reason: they only say what the server does anyway.
struct Inert {
  std::string_view name;
  std::string_view why{};
};
constexpr Inert kInert[] = {
    {"sync"},
    {"async", "the server always waits for stable storage where the protocol asks for it"},
    {"wdelay"},
    {"no_wdelay", "writes that come together are written together, and none waits for others to come"},
    {"hide"},
    {"nohide",
     "clients of version 4 see the export below others in any case, and clients of version 3 mount it by itself"},
    {"nocrossmnt"},
    {"no_subtree_check"},
    {"subtree_check", "file handles are signed, so that nobody can guess one outside the exported directory"},
    {"auth_nlm"},
    {"secure_locks"},
    {"no_auth_nlm", "the permissions of whoever asks for a lock are always checked"},
    {"insecure_locks", "the permissions of whoever asks for a lock are always checked"},
    {"acl"},
    {"no_acl", "clients see the access control lists that decide"},
    {"no_pnfs"},
    {"pnfs", "the server has no layouts: all data goes through it"},
    {"no_security_label"},
    {"security_label", "the server has no security labels"},
    {"rdirplus"},
    {"reexport", "file handles do not depend on device numbers"},
};

bool IsZero(std::string_view text) { return !text.empty() && text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

bool ExportOptions::IsReadOnlyFor(SecurityFlavor flavor) const {
  for (const ForFlavors& each : by_flavor) {
    if (each.flavors.Has(flavor)) return each.read_only;
  }
  return read_only;
}

Squash ExportOptions::SquashFor(SecurityFlavor flavor) const {
  for (const ForFlavors& each : by_flavor) {
    if (each.flavors.Has(flavor)) return each.squash;
  }
  return squash;
}

bool ExportSpec::is_referral() const {
  return std::ranges::any_of(admissions, [](const Admission& each) { return each.options.locations.referral; });
}

bool ExportSpec::is_cephfs() const { return NamesCephfs(directory); }

bool NamesCephfs(std::string_view directory) { return directory.starts_with(kCephfs); }

SetupResult<void> CheckCephfsOptions(ExportSpec& spec) {
  if (!spec.is_cephfs()) return {};
  if (spec.is_referral()) {
    return Fail("export \"{}\" has refer=, so it serves no CephFS: write any directory of this host instead of {}",
                spec.path, spec.directory);
  }
  if (spec.mount_point) {
    return Fail("export \"{}\" cannot have the option mountpoint: {} is no directory of this host", spec.path,
                spec.directory);
  }
  if (std::exchange(spec.crosses_mounts, false)) {
    spec.notes.emplace_back("the option crossmnt has no effect: nothing is mounted in CephFS");
  }
  return {};
}

void OptionCollector::Note(std::string_view option, std::string_view why) {
  std::string note = fmt::format("the option {} has no effect: {}", option, why);
  if (std::ranges::find(spec_.notes, note) == spec_.notes.end()) spec_.notes.push_back(std::move(note));
}

void OptionCollector::SetReadOnly(bool read_only) {
  (options_.by_flavor.empty() ? options_.read_only : options_.by_flavor.back().read_only) = read_only;
}

void OptionCollector::SetSquash(Squash squash) {
  (options_.by_flavor.empty() ? options_.squash : options_.by_flavor.back().squash) = squash;
}

SetupResult<void> OptionCollector::AddFlavors(std::string_view value) {
  auto flavors = SecurityFlavors::Parse(value);
  if (!flavors) return Fail("export option sec={}: {}", value, flavors.error().message);
  for (const ExportOptions::ForFlavors& earlier : options_.by_flavor) {
    for (const SecurityFlavor each : *flavors) {
      if (earlier.flavors.Has(each)) return Fail("export option sec={}: {} is repeated", value, NameOf(each));
    }
  }
  options_.by_flavor.push_back({*flavors, options_.read_only, options_.squash});
  return {};
}

SetupResult<void> OptionCollector::AddValue(std::string_view key, std::string_view value) {
  if (key == "anonuid" || key == "anongid") {
    const auto id = ParseId(value);
    if (!id) return Fail("export option {}={}: not a number from 0 to 4294967295", key, value);
    (key == "anonuid" ? options_.anonuid : options_.anongid) = *id;
  } else if (key == "sec") {
    return AddFlavors(value);
  } else if (key == "xprtsec") {
    auto protections = Protections::Parse(value);
    if (!protections) return Fail("export option xprtsec={}: {}", value, protections.error().message);
    options_.protections = *protections;
  } else if (key == "cert") {
    if (value.empty() || value.find('*') != std::string_view::npos) {
      return Fail("export option cert={}: neither a host name, nor an address, nor \"address\"", value);
    }
    if (value == "address") {
      options_.certificate_of_address = true;
    } else {
      options_.certificates.emplace_back(value);
    }
  } else if (key == "fsid") {
    if (value == "root" || IsZero(value)) {
      spec_.is_root = true;
    } else if (value.empty()) {
      return Fail("export option fsid=: a number, a UUID or \"root\" is missing");
    } else {
      Note(fmt::format("fsid={}", value), "file handles do not depend on device numbers");
    }
  } else if (key == "reexport") {
    Note(fmt::format("reexport={}", value), "file handles do not depend on device numbers");
  } else if (key == "mp" || key == "mountpoint") {
    if (!value.starts_with('/')) return Fail("export option {}={}: not an absolute path", key, value);
    spec_.mount_point = value;
  } else if (key == "refer" || key == "replicas") {
    const bool referral = key == "refer";
    if (!options_.locations.list.empty()) {
      if (options_.locations.referral != referral) {
        return Fail("the export options refer= and replicas= exclude each other");
      }
      return Fail("the export option {}= is given twice: write all locations in one, with \":\" between them", key);
    }
    auto list = ParseLocations(value);
    if (!list) return Fail("export option {}={:.60}: {}", key, value, list.error().message);
    options_.locations = {.referral = referral, .list = *std::move(list)};
  } else {
    return Fail("unknown export option \"{}={}\"", key, value);
  }
  return {};
}

SetupResult<void> OptionCollector::AddFlag(std::string_view flag) {
  if (const auto* const inert = std::ranges::find(kInert, flag, &Inert::name); inert != std::end(kInert)) {
    if (!inert->why.empty()) Note(flag, inert->why);
  } else if (flag == "ro" || flag == "rw") {
    SetReadOnly(flag == "ro");
  } else if (flag == "no_root_squash") {
    SetSquash(Squash::kNone);
  } else if (flag == "root_squash") {
    SetSquash(Squash::kRoot);
  } else if (flag == "all_squash") {
    SetSquash(Squash::kAll);
  } else if (flag == "no_all_squash") {
    const Squash& now = options_.by_flavor.empty() ? options_.squash : options_.by_flavor.back().squash;
    if (now == Squash::kAll) SetSquash(Squash::kRoot);
  } else if (flag == "secure" || flag == "insecure") {
    options_.privileged_ports = flag == "secure";
  } else if (flag == "crossmnt") {
    spec_.crosses_mounts = true;
  } else if (flag == "mp" || flag == "mountpoint") {
    spec_.mount_point = "";
  } else if (flag == "nordirplus") {
    options_.read_directory_plus = false;
  } else {
    return Fail("unknown export option \"{}\"", flag);
  }
  return {};
}

SetupResult<void> OptionCollector::Add(std::string_view option) {
  if (option.empty()) return {};
  const bool has_value = option.find('=') != std::string_view::npos;
  const std::string_view key = TakeUntil(option, '=');
  return has_value ? AddValue(key, option) : AddFlag(key);
}

SetupResult<ExportOptions> OptionCollector::Finish() {
  if ((!options_.certificates.empty() || options_.certificate_of_address) && !options_.protections.IsOnlyMutualTls()) {
    return Fail("export \"{}\" with cert= needs xprtsec=mtls: other clients show no certificate", spec_.path);
  }
  if (options_.locations.referral && spec_.path == "/") {
    return Fail("export \"/\" cannot have the option refer=: clients find the other exports below it");
  }
  if (!options_.by_flavor.empty()) {
    options_.security = {};
    for (const auto& each : options_.by_flavor) options_.security.Add(each.flavors);
    options_.read_only = options_.by_flavor.front().read_only;
    options_.squash = options_.by_flavor.front().squash;
    // A single "sec=" holds for all options, whatever their order.
    if (options_.by_flavor.size() == 1) options_.by_flavor.clear();
  }
  return std::move(options_);
}

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

  OptionCollector collector(spec, {});
  std::vector<ClientSpec> clients;
  while (!rest.empty()) {
    const std::string_view option = TakeUntil(rest, ',');
    constexpr std::string_view kClient = "client=";
    if (!option.starts_with(kClient)) {
      PENSTOCK_CHECK(collector.Add(option));
      continue;
    }
    auto client = ClientSpec::Parse(option.substr(kClient.size()));
    if (!client) return Fail("export option {}: {}", option, client.error().message);
    clients.push_back(*std::move(client));
  }
  PENSTOCK_TRY(const ExportOptions options, collector.Finish());
  if (clients.empty()) clients.emplace_back();
  spec.admissions.clear();
  for (const ClientSpec& each : clients) spec.admissions.push_back({each, options});
  PENSTOCK_CHECK(CheckCephfsOptions(spec));
  return spec;
}

}  // namespace penstock::nfs
