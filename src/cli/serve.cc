#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/address.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "server/server.h"

template <>
struct fmt::formatter<penstock::SocketAddress> : fmt::ostream_formatter {};

namespace penstock::cli {
namespace {

SetupResult<server::Options> ParseOptions(const ServeOptions& arguments) {
  server::Options options;
  if (!arguments.directory.empty()) {
    options.exports.push_back({.path = "/", .directory = arguments.directory, .options = {}});
  }
  for (const std::string& text : arguments.exports) {
    PENSTOCK_TRY(nfs::ExportSpec spec, nfs::ParseExportSpec(text));
    options.exports.push_back(std::move(spec));
  }
  if (options.exports.empty()) return std::unexpected(SetupError{"serve: name a directory, or an --export PATH=DIR"});
  asio::error_code error;
  options.listen = asio::ip::make_address(arguments.listen, error);
  if (error) return std::unexpected(SetupError{fmt::format("--listen {}: not an IP address", arguments.listen)});
  options.tcp_port = arguments.tcp_port;
  options.rdma_port = arguments.rdma_port;
  options.mount_port = arguments.mount_port;
  options.threads = arguments.threads > 0 ? arguments.threads : std::max(1u, std::thread::hardware_concurrency());
  options.state_directory = arguments.state_directory;
  options.trace = arguments.trace;
  options.max_connections = arguments.max_connections;
  const auto seconds = [](double count) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
  };
  options.stall_limit = seconds(arguments.stall_seconds);
  options.iwarp.crc = arguments.crc;
  options.nfs4.lease = seconds(arguments.lease_seconds);
  options.nfs4.grace = seconds(arguments.grace_seconds);
  options.nfs4.domain = arguments.nfs4_domain;
  options.keytab = arguments.keytab;
  options.manage_gids = arguments.manage_gids;
  options.rdma = ChoiceOf(arguments.rdma);
  return options;
}

// What a client is to call this host: the address where there is one, else the host's name.
std::string ClientsNameFor(const IpAddress& address) {
  if (!address.is_unspecified())
    return address.is_v6() ? fmt::format("[{}]", address.to_string()) : address.to_string();
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

void PrintHowToMount(const server::Server& server) {
  const server::Addresses& at = server.addresses();
  fmt::print("NFS over RDMA ({}): {}\nNFS over TCP: {}\nMOUNT over TCP: {}\n", server.rdma_description(), at.rdma,
             at.tcp, at.mount);
  if (server.offers_gss()) fmt::print("Kerberos: offered (RPCSEC_GSS)\n");
  const std::string host = ClientsNameFor(at.rdma.address());
  fmt::print("On a Linux client, as root:\n");
  for (const auto& exported : server.exports().all()) {
    for (const auto& [protocol, port] : {std::pair("rdma", at.rdma.port()), std::pair("tcp", at.tcp.port())}) {
      fmt::print("  mount -t nfs -o vers=4.2,proto={},port={} {}:{} /mnt\n", protocol, port, host, exported->path());
      fmt::print("  mount -t nfs -o vers=3,proto={},port={},nolock,mountproto=tcp,mountport={} {}:{} /mnt\n", protocol,
                 port, at.mount.port(), host, exported->path());
    }
  }
  fmt::print("ready\n");
  std::fflush(stdout);
}

}  // namespace

int Serve(const ServeOptions& arguments) {
  const auto options = ParseOptions(arguments);
  if (!options) {
    PrintError(options.error().message);
    return 1;
  }
  // Before any thread is there that could take the signals.
  asio::io_context context{1};
  asio::signal_set signals(context, SIGINT, SIGTERM);
  auto server = server::Server::Make(*options);
  if (!server) {
    PrintError(server.error().message);
    return 1;
  }
  (*server)->Start();
  PrintHowToMount(**server);
  signals.async_wait([](const asio::error_code&, int) {});
  context.run();
  // A second signal ends the program at once.
  signals.clear();
  (*server)->Stop();
  return 0;
}

}  // namespace penstock::cli
