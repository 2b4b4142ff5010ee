#include "library/server/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/address_text.h"
#include "library/host_log.h"
#include "library/provider_object.h"
#include "nfs/exports_file.h"
#include "rdma/choice/choice.h"

namespace penstock::library {
namespace {

constexpr unsigned kMostLoops = 1024;
constexpr unsigned kUsualBlockingThreads = 64, kFewestBlockingThreads = 4, kMostBlockingThreads = 4096;
constexpr unsigned kLongestLease = 24 * 3600;  // in seconds

std::unexpected<SetupError> Wrong(std::string message) { return std::unexpected(SetupError{std::move(message)}); }

std::string TextOf(const char* given, std::string_view usual = {}) { return given ? given : std::string(usual); }

SetupResult<SocketAddress> ParseAddress(std::string_view text) {
  if (const auto address = ParseSocketAddress(text)) return *address;
  return Wrong(fmt::format("\"{}\" is not an address with a port, such as 127.0.0.1:2049 or [::1]:2049", text));
}

// Rejects what a table of exports may have, but takes for everybody.
SetupResult<void> CheckWords(std::string_view path, std::string_view clients) {
  constexpr std::string_view kBlanks = " \t";
  if (clients.find_first_of("\r\n") != std::string_view::npos) return Wrong("the clients of an export are one line");
  bool has_client = false;
  while (!(clients = clients.substr(std::min(clients.find_first_not_of(kBlanks), clients.size()))).empty()) {
    const std::string_view word = clients.substr(0, clients.find_first_of(kBlanks));
    clients.remove_prefix(word.size());
    if (word.front() == '#' || word.front() == '(') {
      return Wrong(fmt::format("{}: \"{}\" is not a client with its options, such as *(ro)", path, word));
    }
    has_client |= word.front() != '-';
  }
  if (!has_client) return Wrong(fmt::format("{} is exported to nobody: \"*(ro)\" means everybody", path));
  return {};
}

SetupResult<void> SetListen(const penstock_server_options& from, server::Options& to) {
  PENSTOCK_TRY(to.listen.tcp, ParseAddresses(TextOf(from.tcp, "127.0.0.1:2049")));
  PENSTOCK_TRY(to.listen.rdma, ParseAddresses(TextOf(from.rdma, "127.0.0.1:20049")));
  PENSTOCK_TRY(to.listen.mount, ParseAddresses(TextOf(from.mount, "127.0.0.1:20048")));
  PENSTOCK_TRY(const auto metrics, ParseAddresses(TextOf(from.metrics)));
  if (metrics.size() > 1) return Wrong("the metrics have one address");
  if (!metrics.empty()) to.metrics = metrics.front();
  if (to.listen.tcp.empty() && to.listen.rdma.empty()) return Wrong("the server offers NFS at no address");
  return {};
}

SetupResult<void> SetRdma(const penstock_server_options& from, server::Options& to) {
  if (from.provider) {
    if (from.rdma_provider || from.rdma_device) {
      return Wrong("provider excludes rdma_provider and rdma_device");
    }
    if (!from.provider->mark.is_here()) {
      return std::unexpected(SetupError{"the provider belongs to the parent of this process", EPERM});
    }
    to.rdma = ChoiceOf(*from.provider);
    return {};
  }
  const std::string kind = TextOf(from.rdma_provider, "auto");
  const auto parsed = rdma::ParseKind(kind);
  if (!parsed) return Wrong(fmt::format("rdma_provider \"{}\" is not auto, verbs or iwarp", kind));
  to.rdma = {.kind = *parsed, .device = TextOf(from.rdma_device)};
  return {};
}

SetupResult<void> SetSecurity(const penstock_server_options& from, server::Options& to) {
  to.tls = {.certificate = TextOf(from.tls_cert), .key = TextOf(from.tls_key), .authorities = TextOf(from.tls_ca)};
  if (to.tls.certificate.empty() != to.tls.key.empty()) return Wrong("tls_cert and tls_key belong together");
  if (to.tls.certificate.empty() && !to.tls.authorities.empty()) return Wrong("tls_ca needs tls_cert and tls_key");
  to.keytab = TextOf(from.keytab);
  to.nfs4.domain = TextOf(from.domain);
  return {};
}

SetupResult<void> SetLimits(const penstock_server_options& from, server::Options& to) {
  const auto seconds = [](unsigned given, Duration usual) {
    return given > 0 ? Duration(std::chrono::seconds(given)) : usual;
  };
  to.threads = from.threads > 0 ? from.threads : std::clamp(std::thread::hardware_concurrency(), 1u, kMostLoops);
  if (to.threads > kMostLoops) return Wrong(fmt::format("threads must be at most {}", kMostLoops));
  if (from.lease_seconds > kLongestLease || from.grace_seconds > kLongestLease) {
    return Wrong(fmt::format("lease_seconds and grace_seconds must be at most {}", kLongestLease));
  }
  to.nfs4.lease = seconds(from.lease_seconds, to.nfs4.lease);
  to.nfs4.grace = seconds(from.grace_seconds, to.nfs4.grace);
  if (from.drain_ms > 0) to.drain_limit = std::chrono::milliseconds(from.drain_ms);
  if (from.max_connections > 0) to.connections.connections = from.max_connections;
  if (from.memory > 0 && from.memory < server::kLeastMemory) {
    return Wrong(fmt::format("memory must be at least {} octets", server::kLeastMemory));
  }
  to.memory = from.memory;
  return {};
}

}  // namespace

SetupResult<std::vector<SocketAddress>> ParseAddresses(std::string_view text) {
  std::vector<SocketAddress> addresses;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    PENSTOCK_TRY(const SocketAddress address, ParseAddress(text.substr(0, comma)));
    addresses.push_back(address);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return Wrong("a list of addresses ends with a comma");
  }
  return addresses;
}

SetupResult<ServerSettings> SettingsOf(const penstock_server_options& options) {
  ServerSettings settings;
  settings.state_directory = TextOf(options.state_directory);
  if (settings.state_directory.empty()) return Wrong("a server needs a state directory");
  PENSTOCK_CHECK(SetListen(options, settings.options));
  PENSTOCK_CHECK(SetRdma(options, settings.options));
  PENSTOCK_CHECK(SetSecurity(options, settings.options));
  PENSTOCK_CHECK(SetLimits(options, settings.options));
  settings.options.nfs2 = options.nfs2 != 0;
  settings.options.port_mapper = options.port_mapper != 0;
  settings.options.nfs4.delegations = options.delegations != 0;
  settings.blocking_threads = options.blocking_threads > 0 ? options.blocking_threads : kUsualBlockingThreads;
  if (settings.blocking_threads < kFewestBlockingThreads || settings.blocking_threads > kMostBlockingThreads) {
    return Wrong(fmt::format("blocking_threads must be from {} to {}", kFewestBlockingThreads, kMostBlockingThreads));
  }
  if (options.log_level < PENSTOCK_LOG_DEBUG || options.log_level > PENSTOCK_LOG_ERROR) {
    return Wrong(fmt::format("log_level {} does not exist", static_cast<int>(options.log_level)));
  }
  if (options.log) {
    settings.logger = std::make_shared<log::Logger>(SinkOf(options.log, options.log_context),
                                                    static_cast<log::Level>(options.log_level));
  }
  return settings;
}

SetupResult<nfs::ExportSpec> ParseClients(std::string_view path, std::string_view clients) {
  PENSTOCK_TRY(std::string normal, nfs::NormalizeExportPath(path));
  PENSTOCK_CHECK(CheckWords(normal, clients));
  nfs::ExportsFiles table;
  table.Parse(fmt::format("/ {}", clients), normal);
  table.Finish();
  for (const Finding& each : table.findings()) {
    if (each.severity == Severity::kError) return Wrong(fmt::format("{}: {}", normal, each.message));
    log::warn("{}: {}", normal, each.message);
  }
  if (table.exports().size() != 1) return Wrong(fmt::format("{}: \"{}\" names no clients", normal, clients));
  nfs::ExportSpec spec = std::move(table.exports().front());
  if (spec.crosses_mounts || spec.mount_point) {
    return Wrong(fmt::format("{}: crossmnt and mountpoint are options of the program, not of the library", normal));
  }
  spec.path = std::move(normal);
  return spec;
}

}  // namespace penstock::library
