#include "cli/how_to_mount.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/address.h"
#include "cli/printable.h"
#include "nfs/exports.h"

template <>
struct fmt::formatter<penstock::SocketAddress> : fmt::ostream_formatter {};

namespace penstock::cli {
namespace {

// The address for examples: the first one that other hosts can reach, or the first one.
const SocketAddress& ShownOf(const std::vector<SocketAddress>& addresses) {
  const auto found = std::ranges::find_if(addresses, [](const auto& each) { return !each.address().is_loopback(); });
  return found == addresses.end() ? addresses.front() : *found;
}

// Prints the addresses of each transport in a line.
void PrintWhere(const server::Server& server) {
  const server::Addresses& at = server.addresses();
  const std::vector<std::string>& kinds = server.rdma_descriptions();
  for (const std::string& kind : std::set(kinds.begin(), kinds.end())) {
    std::vector<SocketAddress> addresses;
    for (size_t i = 0; i < at.rdma.size(); ++i) {
      if (kinds[i] == kind) addresses.push_back(at.rdma[i]);
    }
    fmt::print("NFS over RDMA ({}): {}\n", kind, fmt::join(addresses, ", "));
  }
  if (!at.tcp.empty()) fmt::print("NFS over TCP: {}\n", fmt::join(at.tcp, ", "));
  if (!at.mount.empty()) fmt::print("MOUNT, NLM, NSM and RQUOTA over TCP and UDP: {}\n", fmt::join(at.mount, ", "));
}

// The name by which clients reach this host: the address that the server listens on, or the host's name if the server
// listens on all addresses.
std::string ClientsNameFor(const IpAddress& address) {
  if (!address.is_unspecified())
    return address.is_v6() ? fmt::format("[{}]", address.to_string()) : address.to_string();
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// What follows the name of a transport in the mount options of a Linux client: "6" for an address of IPv6.
std::string_view FamilyFor(const IpAddress& address) { return address.is_v6() && !address.is_unspecified() ? "6" : ""; }

// Commands are printed for so many exports: a server may have thousands.
constexpr size_t kShownExports = 3;

// The mount option of an export that refuses connections without TLS, after a comma; empty for other exports.
std::string_view TlsOptionFor(const nfs::Export& exported) {
  const nfs::Protections& protections = exported.admissions().front().options.protections;
  if (protections.Admits(rpc::Protection::kNone)) return "";
  return protections.IsOnlyMutualTls() ? ",xprtsec=mtls" : ",xprtsec=tls";
}

// The mount option of an export that takes no calls with sec=sys, after a comma; empty for other exports. Nothing if a
// Linux client has no flavor that the export takes.
std::optional<std::string> SecurityOptionFor(const nfs::Export& exported) {
  const nfs::SecurityFlavors& flavors = exported.admissions().front().options.security;
  if (flavors.Has(nfs::SecurityFlavor::kSys)) return "";
  for (const nfs::SecurityFlavor each : flavors) {
    if (each != nfs::SecurityFlavor::kCcm) return fmt::format(",sec={}", nfs::SecurityFlavors{each}.ToString());
  }
  return std::nullopt;
}

bool IsPlain(char octet) {
  return (octet >= '0' && octet <= '9') || (octet >= 'A' && octet <= 'Z') || (octet >= 'a' && octet <= 'z') ||
         std::string_view("-._~/").contains(octet);
}

// A word that a shell takes as it is.
std::string ShellWord(const std::string& text) {
  if (std::ranges::all_of(text, [](char each) { return IsPlain(each) || each == ':'; })) return text;
  std::string quoted = "'";
  for (const char each : text) quoted += each == '\'' ? std::string("'\\''") : std::string(1, each);
  return quoted + "'";
}

// The path of a URL, with escapes (RFC 3986 §2.1).
std::string UrlPath(const std::string& path) {
  std::string escaped;
  for (const char each : path) {
    escaped += IsPlain(each) ? std::string(1, each) : fmt::format("%{:02X}", static_cast<unsigned char>(each));
  }
  return escaped;
}

// Prints what the server offers beside NFS, and how.
void PrintOffers(const server::Server& server, const server::Options& options) {
  if (const auto metrics = server.metrics_address()) fmt::print("Metrics and dashboard: http://{}/\n", *metrics);
  if (options.port_mapper) fmt::print("Port mapper over TCP and UDP: port {}\n", options.port_mapper_port);
  if (server.offers_gss()) fmt::print("Kerberos: offered (RPCSEC_GSS)\n");
  if (server.offers_tls()) fmt::print("TLS over TCP (xprtsec=tls): offered\n");
  if (options.nfs2) fmt::print("NFS version 2: offered\n");
  const bool sends_names = options.nfs4.names_for_all || server.offers_gss();
  if (sends_names && !options.nfs4.domain.empty()) {
    fmt::print("Owners in NFSv4: name@{}{}\n", options.nfs4.domain,
               options.nfs4.names_for_all ? "" : " with Kerberos, numbers otherwise");
  }
  if (options.nfs4.bound_sessions) {
    fmt::print("Sessions of 2004 (vers=4.1-sess01): offered; TCP connections {} become RDMA connections\n",
               options.step_up ? "may" : "do not");
  }
}

// The commands that mount an export on a Linux client; none if it takes no client over these transports.
std::vector<std::string> LinuxCommands(const server::Server& server, const nfs::Export& exported) {
  const std::string_view tls = TlsOptionFor(exported);
  const auto security = SecurityOptionFor(exported);
  if (!security) return {};
  const std::string more = *security + std::string(tls);
  const server::Addresses& at = server.addresses();
  // Without a port of its own, MOUNT is at the port of TCP.
  const std::vector<SocketAddress>& mount = at.mount.empty() ? at.tcp : at.mount;
  std::vector<std::string> commands;
  for (const auto& [transport, addresses] : {std::pair("rdma", &at.rdma), std::pair("tcp", &at.tcp)}) {
    if (addresses->empty() || (!tls.empty() && addresses == &at.rdma)) continue;
    const SocketAddress& shown = ShownOf(*addresses);
    const std::string_view family = FamilyFor(shown.address());
    const std::string protocol = fmt::format("{}{}", transport, family);
    const std::string from = ShellWord(fmt::format("{}:{}", ClientsNameFor(shown.address()), exported.path()));
    const uint16_t port = shown.port();
    commands.push_back(fmt::format("mount -t nfs -o vers=4.2,proto={},port={}{} {} /mnt", protocol, port, more, from));
    if (exported.is_referral() || mount.empty()) continue;
    if (server.ports_can_be_found()) {
      commands.push_back(fmt::format("mount -t nfs -o vers=3,proto={}{} {} /mnt", protocol, more, from));
    } else {
      // Without a port mapper a client does not find the lock manager.
      commands.push_back(
          fmt::format("mount -t nfs -o vers=3,proto={},port={},nolock,mountproto=tcp{},mountport={}{} {} /mnt",
                      protocol, port, family, ShownOf(mount).port(), more, from));
    }
  }
  return commands;
}

// Prints the commands that mount the first exports on a Linux client.
void PrintForLinux(const server::Server& server, const nfs::ExportTable& table) {
  std::vector<std::string> commands;
  size_t exports = 0;
  for (const auto& exported : table.all()) {
    if (exports == kShownExports) break;
    if (Printable(exported->path()) != exported->path()) continue;  // nobody can type it
    const auto found = LinuxCommands(server, *exported);
    if (found.empty()) continue;
    ++exports;
    commands.insert(commands.end(), found.begin(), found.end());
  }
  if (commands.empty()) return;
  fmt::print("On a Linux client, as root:\n");
  for (const std::string& each : commands) fmt::print("  {}\n", each);
  const size_t others = table.all().size() - exports;
  if (others > 0) fmt::print("There are {} more exports: penstock ctl exports\n", others);
}

// Prints commands of this program for the first export that it can reach.
void PrintForThisProgram(const server::Server& server, const nfs::ExportTable& table) {
  const server::Addresses& at = server.addresses();
  const auto is_reached = [&](const auto& each) {
    return !each->is_referral() && (TlsOptionFor(*each).empty() || !at.tcp.empty());
  };
  const auto found = std::ranges::find_if(table.all(), is_reached);
  if (found == table.all().end()) return;
  const nfs::Export& shown = **found;
  const std::string_view tls = TlsOptionFor(shown);
  const bool by_rdma = !at.rdma.empty() && tls.empty();
  const SocketAddress& place = ShownOf(by_rdma ? at.rdma : at.tcp);
  const std::string how = by_rdma       ? "proto=rdma"
                          : tls.empty() ? "proto=tcp"
                                        : fmt::format("proto=tcp&{}", tls.substr(1));
  const std::string url =
      fmt::format("nfs://{}:{}{}", ClientsNameFor(place.address()), place.port(), UrlPath(shown.path()));
  const std::string program = ThisProgram();
  fmt::print("With this program, as any user:\n");
  fmt::print("  {} ls '{}?{}'\n", program, url, how);
  fmt::print("  {} cp FILE '{}{}FILE?{}'\n", program, url, url.ends_with('/') ? "" : "/", how);
}

}  // namespace

std::string ThisProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "penstock";
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): no thread changes the environment
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path found = std::filesystem::path(folder) / self.filename();
    if (!std::filesystem::exists(found, error)) continue;
    if (std::filesystem::equivalent(found, self, error)) return self.filename().string();
    break;  // another program of this name comes first
  }
  // The working directory may have been removed: then proximate(self, error) throws.
  const std::filesystem::path here = std::filesystem::current_path(error);
  const std::filesystem::path relative =
      error ? std::filesystem::path() : std::filesystem::proximate(self, here, error);
  return ShellWord((relative.empty() ? self : relative).string());
}

void PrintHowToMount(const server::Server& server, const server::Options& options) {
  PrintWhere(server);
  PrintOffers(server, options);
  const auto table = server.exports().Get();
  if (table->all().empty()) fmt::print("Nothing is exported yet: SIGHUP reads the exports again\n");
  PrintForLinux(server, *table);
  PrintForThisProgram(server, *table);
  fmt::print("ready\n");
  std::fflush(stdout);
}

}  // namespace penstock::cli
