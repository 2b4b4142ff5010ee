#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <semaphore>
#include <thread>
#include <utility>

#include "base/address.h"
#include "base/log.h"
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
  options.workers = arguments.workers;
  options.state_directory = arguments.state_directory;
  options.trace = arguments.trace;
  options.faults = arguments.faults;
  const auto seconds = [](double count) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
  };
  options.connections = {.connections = arguments.max_connections,
                         .per_address = arguments.max_connections_per_address,
                         .idle_limit = seconds(arguments.idle_seconds)};
  options.memory = arguments.memory;
  options.stall_limit = seconds(arguments.stall_seconds);
  options.iwarp.crc = arguments.crc;
  options.nfs4.lease = seconds(arguments.lease_seconds);
  options.nfs4.grace = seconds(arguments.grace_seconds);
  options.nfs4.delegations = !arguments.no_delegations;
  options.local_leases = true;
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
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = error ? "penstock" : std::filesystem::proximate(self, error).string();
  const std::string path = server.exports().all().front()->path();
  fmt::print("With this program, as anybody:\n");
  fmt::print("  {} ls 'nfs://{}:{}{}?proto=rdma'\n", program, host, at.rdma.port(), path);
  fmt::print("  {} cp FILE 'nfs://{}:{}{}{}FILE?proto=rdma'\n", program, host, at.rdma.port(), path,
             path.ends_with('/') ? "" : "/");
  fmt::print("ready\n");
  std::fflush(stdout);
}

// SIGINT and SIGTERM end the context's run. SIGHUP, which a terminal sends when it goes and service managers send to have
// a configuration read again, ends nothing: there is no file of configuration.
class StopSignals {
 public:
  explicit StopSignals(asio::io_context& context) : context_(context), signals_(context, SIGINT, SIGTERM, SIGHUP) {
    Wait();
  }
  // They have the system's meaning again, but for SIGHUP.
  void Forget() {
    signals_.clear();
    std::signal(SIGHUP, SIG_IGN);
  }

 private:
  void Wait() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      if (signal != SIGHUP) return context_.stop();
      if (!std::exchange(told_, true)) log::warn("SIGHUP: there is no configuration to read again; the server goes on");
      Wait();
    });
  }

  asio::io_context& context_;
  asio::signal_set signals_;
  bool told_ = false;
};

// SIGIO says that a program of this host waits for files that clients have delegated to them (server::Options::local_leases). One thread takes
// it, so that no other is interrupted: none of those that are made while this blocks it. It is handled for as long as this lives.
class LeaseSignals {
 public:
  explicit LeaseSignals(asio::io_context& context) : signals_(context, SIGIO) { SetMask(SIG_BLOCK); }
  // On this thread from now on, when the context runs.
  void TellTo(server::Server& server) {
    SetMask(SIG_UNBLOCK);
    Wait(server);
  }

 private:
  static void SetMask(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    ::pthread_sigmask(how, &set, nullptr);
  }
  void Wait(server::Server& server) {
    signals_.async_wait([this, &server](const asio::error_code& error, int) {
      if (error) return;
      server.LookAtLocalLeases();
      Wait(server);
    });
  }

  asio::signal_set signals_;
};

// False where the server has not ended within `limit`: then it goes on ending, on a thread of its own.
bool StopWithin(std::unique_ptr<server::Server> server, Duration limit) {
  const auto ended = std::make_shared<std::binary_semaphore>(0);
  std::thread ending([running = std::move(server), ended]() mutable {
    running->Stop();
    running.reset();
    ended->release();
  });
  const bool in_time = ended->try_acquire_for(limit);
  in_time ? ending.join() : ending.detach();
  return in_time;
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
  StopSignals signals(context);
  LeaseSignals lease_signals(context);
  auto server = server::Server::Make(*options);
  if (!server) {
    PrintError(server.error().message);
    return 1;
  }
  (*server)->Start();
  lease_signals.TellTo(**server);
  PrintHowToMount(**server);
  context.run();
  // A second signal ends the program at once.
  signals.Forget();
  if (StopWithin(*std::move(server), options->drain_limit)) return 0;
  log::warn("calls were still being executed {} s after the signal to stop: their clients will send them again",
            std::chrono::duration_cast<std::chrono::seconds>(options->drain_limit).count());
  // Threads that a disk does not let go cannot be joined. All that was promised to a client is on stable storage.
  std::_Exit(0);
}

}  // namespace penstock::cli
