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
#include <ranges>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/address.h"
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

// The mount option of an export that takes no calls with sec=sys, after a comma; empty for other exports.
std::string SecurityOptionFor(const nfs::Export& exported) {
  const nfs::SecurityFlavors& flavors = exported.admissions().front().options.security;
  if (flavors.Has(nfs::SecurityFlavor::kSys)) return "";
  return fmt::format(",sec={}", nfs::SecurityFlavors{*flavors.begin()}.ToString());
}

// How a shell finds this program.
std::string ThisProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "penstock";
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (std::filesystem::equivalent(std::filesystem::path(folder) / self.filename(), self, error)) {
      return self.filename().string();
    }
  }
  return std::filesystem::proximate(self, error).string();
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

// Prints the commands that mount the first exports on a Linux client.
void PrintForLinux(const server::Server& server, const nfs::ExportTable& table) {
  const server::Addresses& at = server.addresses();
  fmt::print("On a Linux client, as root:\n");
  // Without a port of its own, MOUNT is at the port of TCP.
  const std::vector<SocketAddress>& mount = at.mount.empty() ? at.tcp : at.mount;
  const auto& exports = table.all();
  for (const auto& exported : exports | std::views::take(kShownExports)) {
    const std::string_view tls = TlsOptionFor(*exported);
    const std::string more = SecurityOptionFor(*exported).append(tls);
    for (const auto& [transport, addresses] : {std::pair("rdma", &at.rdma), std::pair("tcp", &at.tcp)}) {
      if (addresses->empty() || (!tls.empty() && addresses == &at.rdma)) continue;
      const SocketAddress& shown = ShownOf(*addresses);
      const std::string host = ClientsNameFor(shown.address());
      const std::string_view family = FamilyFor(shown.address());
      const std::string protocol = fmt::format("{}{}", transport, family);
      const uint16_t port = shown.port();
      fmt::print("  mount -t nfs -o vers=4.2,proto={},port={}{} {}:{} /mnt\n", protocol, port, more, host,
                 exported->path());
      if (exported->is_referral() || mount.empty()) continue;
      if (server.ports_can_be_found()) {
        fmt::print("  mount -t nfs -o vers=3,proto={}{} {}:{} /mnt\n", protocol, more, host, exported->path());
      } else {
        // Without a port mapper a client does not find the lock manager.
        fmt::print("  mount -t nfs -o vers=3,proto={},port={},nolock,mountproto=tcp{},mountport={}{} {}:{} /mnt\n",
                   protocol, port, family, ShownOf(mount).port(), more, host, exported->path());
      }
    }
  }
  if (exports.size() > kShownExports) fmt::print("  and in the same way {} more\n", exports.size() - kShownExports);
}

// Prints commands of this program for the first export. Requires one.
void PrintForThisProgram(const server::Server& server, const nfs::ExportTable& table) {
  const server::Addresses& at = server.addresses();
  const std::string program = ThisProgram();
  const auto& exports = table.all();
  const auto served = std::ranges::find_if(exports, [](const auto& each) { return !each->is_referral(); });
  const nfs::Export& shown = *(served == exports.end() ? exports.front() : *served);
  const std::string path = shown.path();
  const std::string_view tls = TlsOptionFor(shown);
  const bool by_rdma = !at.rdma.empty() && (tls.empty() || at.tcp.empty());
  const SocketAddress& place = ShownOf(by_rdma ? at.rdma : at.tcp);
  const std::string host = ClientsNameFor(place.address());
  const uint16_t port = place.port();
  const std::string how = by_rdma       ? "proto=rdma"
                          : tls.empty() ? "proto=tcp"
                                        : fmt::format("proto=tcp&{}", tls.substr(1));
  fmt::print("With this program, as any user:\n");
  fmt::print("  {} ls 'nfs://{}:{}{}?{}'\n", program, host, port, path, how);
  fmt::print("  {} cp FILE 'nfs://{}:{}{}{}FILE?{}'\n", program, host, port, path, path.ends_with('/') ? "" : "/", how);
}

}  // namespace

void PrintHowToMount(const server::Server& server, const server::Options& options) {
  PrintWhere(server);
  PrintOffers(server, options);
  const auto table = server.exports().Get();
  PrintForLinux(server, *table);
  if (table->all().empty()) {
    fmt::print("Nothing is exported yet: SIGHUP reads the exports again\n");
  } else {
    PrintForThisProgram(server, *table);
  }
  fmt::print("ready\n");
  std::fflush(stdout);
}

}  // namespace penstock::cli
