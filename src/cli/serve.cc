// penstock serve: serves directories of this machine.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <asio/io_context.hpp>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <semaphore>
#include <set>
#include <thread>
#include <utility>

#include "base/address.h"
#include "base/log.h"
#include "base/state_directory.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/configuration.h"
#include "cli/control_commands.h"
#include "cli/interface.h"
#include "cli/logging.h"
#include "cli/reload.h"
#include "cli/serve_options.h"
#include "cli/served_exports.h"
#include "cli/server_signals.h"
#include "cli/service_manager.h"
#include "control/server.h"
#include "fs/faulty/process.h"
#include "fs/posix/identity.h"
#include "fs/posix/served_directories.h"
#include "idmap/domain.h"
#include "server/listeners.h"
#include "server/server.h"

template <>
struct fmt::formatter<penstock::SocketAddress> : fmt::ostream_formatter {};

namespace penstock::cli {
namespace {

// Members are destroyed from the last to the first.
struct MadeServer {
  std::shared_ptr<Workers> pool;
  std::shared_ptr<fs::audited::AuditLog> audit;  // null without one
  std::unique_ptr<ServedExports> exports;
  std::unique_ptr<server::Server> server;
};

// Logs the warnings, and prints the errors. Fails if there is an error.
SetupResult<void> Tell(const std::vector<Finding>& findings) {
  size_t errors = 0;
  for (const Finding& each : findings) {
    if (each.severity == Severity::kWarning) {
      log::warn("{}", ToString(each));
    } else {
      PrintError(ToString(each));
      ++errors;
    }
  }
  if (errors == 0) return {};
  return std::unexpected(SetupError{fmt::format("the exports have {} mistakes: the server does not start", errors)});
}

SetupResult<MadeServer> MakeServer(const ServeOptions& arguments, const server::Options& options,
                                   server::PassedSockets sockets) {
  if (arguments.as_owner && fs::posix::ServedDirectories::ActsAsCallers()) {
    return std::unexpected(
        SetupError{"--as-owner is for a server without root's rights: this one acts as each client's user. To map all "
                   "users to one, export with all_squash,anonuid=N,anongid=N"});
  }
  std::vector<Finding> findings;
  PENSTOCK_TRY(std::vector<nfs::ExportSpec> specs, ExportsOf(arguments, findings));
  PENSTOCK_CHECK(Tell(findings));
  findings.clear();
  const std::filesystem::path wanted = arguments.state_directory;
  PENSTOCK_TRY(StateDirectory state_directory, StateDirectory::Open(wanted.empty() ? DefaultStateDirectory() : wanted));

  // fs::posix::FileSystem requires these two settings of the process. The directories that StateDirectory::Open() may
  // have made must still get the user's mask, so this comes after it. It comes before the pool, because threads inherit
  // the capabilities of the thread that starts them.
  ::umask(0);
  fs::posix::DropResourceOverride();

  server::Parts parts{.state_directory = std::move(state_directory),
                      .pool = std::make_shared<Workers>(arguments.workers)};
  if (!arguments.audit.empty()) {
    PENSTOCK_TRY(parts.audit, fs::audited::AuditLog::Open(arguments.audit));
  }
  auto exports = std::make_unique<ServedExports>(
      *parts.pool,
      fs::posix::ServedDirectoriesOptions{
          .state_directory = parts.state_directory.path(),
          .rights = arguments.as_owner ? fs::posix::CallerRights::kOfServer : fs::posix::CallerRights::kBest,
          .leases = options.nfs4.delegations,
          .other_descriptors = options.connections.connections + server::ListeningDescriptors(options, sockets)},
      arguments.faults, parts.audit);
  PENSTOCK_TRY(parts.exports, exports->Open(std::move(specs), findings));
  PENSTOCK_CHECK(Tell(findings));
  parts.open_files = exports->directories().open_files();
  auto pool = parts.pool;
  parts.sockets = std::move(sockets);
  auto audit = parts.audit;
  server::Options completed = options;
  completed.acts_as_callers = fs::posix::ServedDirectories::ActsAsCallers();
  PENSTOCK_TRY(auto server, server::Server::Make(completed, std::move(parts)));
  return MadeServer{std::move(pool), std::move(audit), std::move(exports), std::move(server)};
}

void WarnOfMissingRights(bool as_owner) {
  if (as_owner) {
    log::warn(
        "penstock runs without root's rights, with --as-owner: every client acts as uid {}, and has the permissions of "
        "that user; restrict the clients with client=",
        ::geteuid());
    return;
  }
  log::warn(
      "penstock runs without root's rights: whatever clients create belongs to uid {}, and other users have only the "
      "rights that modes and lists give them; start it as root to tell users apart, or let every client do what uid {} "
      "may do with --as-owner",
      ::geteuid(), ::geteuid());
}

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

// The mount option of an export that refuses connections without TLS, after a comma; empty for other exports.
std::string_view TlsOptionFor(const nfs::Export& exported) {
  const nfs::Protections& protections = exported.admissions().front().options.protections;
  if (protections.Admits(rpc::Protection::kNone)) return "";
  return protections.IsOnlyMutualTls() ? ",xprtsec=mtls" : ",xprtsec=tls";
}

void PrintHowToMount(const server::Server& server, const server::Options& options) {
  const server::Addresses& at = server.addresses();
  PrintWhere(server);
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
  fmt::print("On a Linux client, as root:\n");
  const auto table = server.exports().Get();
  // Without a port of its own, MOUNT is at the port of TCP.
  const std::vector<SocketAddress>& mount = at.mount.empty() ? at.tcp : at.mount;
  for (const auto& exported : table->all()) {
    const std::string_view tls = TlsOptionFor(*exported);
    for (const auto& [transport, addresses] : {std::pair("rdma", &at.rdma), std::pair("tcp", &at.tcp)}) {
      if (addresses->empty() || (!tls.empty() && addresses == &at.rdma)) continue;
      const SocketAddress& shown = ShownOf(*addresses);
      const std::string host = ClientsNameFor(shown.address());
      const std::string_view family = FamilyFor(shown.address());
      const std::string protocol = fmt::format("{}{}", transport, family);
      const uint16_t port = shown.port();
      fmt::print("  mount -t nfs -o vers=4.2,proto={},port={}{} {}:{} /mnt\n", protocol, port, tls, host,
                 exported->path());
      if (exported->is_referral() || mount.empty()) continue;
      if (server.ports_can_be_found()) {
        fmt::print("  mount -t nfs -o vers=3,proto={}{} {}:{} /mnt\n", protocol, tls, host, exported->path());
      } else {
        // Without a port mapper a client does not find the lock manager.
        fmt::print("  mount -t nfs -o vers=3,proto={},port={},nolock,mountproto=tcp{},mountport={}{} {}:{} /mnt\n",
                   protocol, port, family, ShownOf(mount).port(), tls, host, exported->path());
      }
    }
  }
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = error ? "penstock" : std::filesystem::proximate(self, error).string();
  const auto& exports = table->all();
  if (exports.empty()) {
    fmt::print("Nothing is exported yet: SIGHUP reads the exports again\nready\n");
    std::fflush(stdout);
    return;
  }
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
  fmt::print("ready\n");
  std::fflush(stdout);
}

// A server and what steers it. Members are destroyed from the last to the first.
struct RunningServer {
  MadeServer made;
  std::unique_ptr<Reloader> reloader;
  std::unique_ptr<ControlCommands> commands;
  std::unique_ptr<control::Server> control;  // null without a control socket
};

// The group that may use the control socket besides the server's user.
SetupResult<std::optional<gid_t>> FindGroup(const std::string& name) {
  if (name.empty()) return std::nullopt;
  std::vector<char> memory(64 << 10);
  group entry{};
  group* found = nullptr;
  ::getgrnam_r(name.c_str(), &entry, memory.data(), memory.size(), &found);
  if (!found) return std::unexpected(SetupError{fmt::format("--control-group {}: there is no such group", name)});
  return found->gr_gid;
}

// Null if the operator wants none.
SetupResult<std::unique_ptr<control::Server>> OpenControl(const ServeOptions& arguments) {
  if (!arguments.control_group.empty() && (arguments.control.empty() || arguments.control == "none")) {
    return std::unexpected(
        SetupError{"--control-group needs --control FILE, in a directory that the group may enter: "
                   "the state directory is its owner's alone"});
  }
  if (arguments.control == "none") return nullptr;
  PENSTOCK_TRY(const auto group, FindGroup(arguments.control_group));
  std::filesystem::path path = arguments.control;
  if (path.empty()) {
    const std::filesystem::path state = arguments.state_directory;
    path = (state.empty() ? DefaultStateDirectory() : state) / "control";
  }
  return control::Server::Open(path, group);
}

// Stops the server on a thread of its own. Returns false if that takes longer than `limit`; the thread then goes on.
bool StopWithin(RunningServer all, Duration limit) {
  const auto ended = std::make_shared<std::binary_semaphore>(0);
  std::thread ending([running = std::move(all), ended]() mutable {
    running.control.reset();
    running.commands.reset();
    running.reloader.reset();
    running.made.server->Stop();
    // Its records name file systems.
    if (running.made.audit) running.made.audit->Finish(std::chrono::hours(1));
    running.made.server.reset();
    ended->release();
  });
  const bool in_time = ended->try_acquire_for(limit);
  in_time ? ending.join() : ending.detach();
  return in_time;
}

// `configure` makes the options again, for a reload. `adopt` takes over the options of the process.
int Serve(const ServeOptions& arguments, Reloader::Configure configure, std::function<void(const ServeOptions&)> adopt,
          const std::string& version) {
  auto options = ServerOptionsOf(arguments);
  if (!options) return PrintError(options.error().message);
  WarnOfMissingSupport();
  auto sockets = TakePassedSockets();
  if (!sockets) return PrintError(sockets.error().message);
  // Made before any thread exists that could take the signals.
  asio::io_context context{1};
  StopSignals signals(context);
  LeaseSignals lease_signals(context);
  if (!arguments.nfs4_domain) options->nfs4.domain = idmap::FindDomain().name;
  auto made = MakeServer(arguments, *options, *std::move(sockets));
  if (!made) return PrintError(made.error().message);
  auto control = OpenControl(arguments);
  if (!control) return PrintError(control.error().message);
  server::Server& server = *made->server;
  if (!fs::posix::ServedDirectories::ActsAsCallers()) WarnOfMissingRights(arguments.as_owner);
  server.Start();
  lease_signals.TellTo(server);
  const auto has_mistakes = std::make_shared<std::atomic<bool>>(false);
  const auto status = [&server, has_mistakes] {
    return server.DescribeLoad() +
           (*has_mistakes ? "; the configuration has mistakes, and the old one stays in use" : "");
  };
  const std::shared_ptr<fs::audited::AuditLog> audit = made->audit;
  Reloader::Hooks hooks{.on_begin =
                            [audit] {
                              NotifyReloading();
                              // Also if the configuration has a mistake: the file may have been rotated.
                              if (audit) audit->Reopen();
                            },
                        .on_end =
                            [=](const Reloaded& reloaded) {
                              *has_mistakes = !reloaded.succeeded();
                              NotifyReady(status());
                            },
                        .adopt = std::move(adopt)};
  auto reloader = std::make_unique<Reloader>(std::move(configure), arguments, *made->exports, server, std::move(hooks));
  signals.ReloadBy([&reloads = *reloader] { reloads.RunLater("SIGHUP"); });
  auto commands = std::make_unique<ControlCommands>(version, server, *reloader);
  if (*control) {
    (*control)->Start(
        [&run = *commands](const std::string& command, const Json& words) { return run.Run(command, words); });
  }
  RunningServer running{*std::move(made), std::move(reloader), std::move(commands), *std::move(control)};
  PrintHowToMount(server, *options);
  NotifyReady(status());
  std::optional<LifeSigns> life_signs(
      std::in_place, LifeSigns::Sources{.loops_answer = [&server](Duration limit) { return server.LoopsAnswer(limit); },
                                        .status = status});
  context.run();
  NotifyStopping();
  life_signs.reset();
  signals.ReloadBy({});
  // A second signal ends the program at once.
  signals.Forget();
  if (StopWithin(std::move(running), options->drain_limit)) return 0;
  log::warn("calls were still being executed {} s after the signal to stop: their clients will send them again",
            std::chrono::duration_cast<std::chrono::seconds>(options->drain_limit).count());
  if (audit && !audit->Finish(std::chrono::seconds(1))) {
    log::error("the audit log {} loses its last records: the disk is too slow", arguments.audit);
  }
  // Threads that wait for a disk cannot be joined. Everything that a client was promised is on stable storage.
  std::_Exit(0);
}

// The command line of `serve`.
struct ServeArguments {
  ServeArguments(CLI::App& command, std::string of)
      : version(std::move(of)), settings(AddServeOptions(command, options)) {}

  const std::string version;
  ServeOptions options;  // without those of the environment and the file
  Settings settings;
  std::optional<std::string> config;
  bool print = false;
  const CLI::Option* verbose = nullptr;  // -v, an option of the whole program
};

void PrintFinding(const Finding& finding) {
  fmt::print(stderr, "{}{}\n", finding.file.empty() ? "penstock: " : "", ToString(finding));
}

// Reads the configuration file and makes the options of the server.
Result<Configuration, std::vector<Finding>> ReadConfiguration(const CommandLine& command_line) {
  const Environment environment = EnvironmentOfProcess();
  const auto file = FindConfigFile(command_line, environment);
  if (!file) return std::unexpected(std::vector<Finding>{file.error()});
  return Configure(command_line.flags, environment, *file);
}

int ConfigureAndServe(const ServeArguments& arguments) {
  const CommandLine command_line{.flags = FlagValuesOf(arguments.settings), .config = arguments.config};
  const log::Level usual = LevelFor(arguments.verbose ? static_cast<unsigned>(arguments.verbose->count()) : 0);
  const auto made = ReadConfiguration(command_line);
  if (!made) {
    for (const Finding& mistake : made.error()) PrintFinding(mistake);
    return 1;
  }
  const auto set_up_logging = [usual](const ServeOptions& options) { SetUpLogging(LogSettingsOf(options, usual)); };
  set_up_logging(made->options);
  for (const Finding& warning : made->warnings) log::warn("{}", ToString(warning));
  if (arguments.print) {
    fmt::print("{}", PrintConfiguration(*made));
    return 0;
  }
  const auto configure = [command_line]() -> Result<ServeOptions, std::vector<Finding>> {
    auto again = ReadConfiguration(command_line);
    if (!again) return std::unexpected(std::move(again).error());
    return std::move(again->options);
  };
  return Serve(made->options, configure, set_up_logging, arguments.version);
}

int CheckConfig(const std::string& name) {
  const auto file = ReadConfigFile(name);
  const std::vector<Finding> findings = file ? CheckConfiguration(*file) : std::vector<Finding>{file.error()};
  for (const Finding& finding : findings) PrintFinding(finding);
  const auto errors = std::ranges::count(findings, Severity::kError, &Finding::severity);
  if (errors > 0) return 1;
  fmt::print("{}: no mistakes\n", name);
  return 0;
}

}  // namespace

Command AddServe(CLI::App& program, const std::string& version) {
  CLI::App* const command = program.add_subcommand("serve", "Serve directories over NFS/RDMA and NFS/TCP");
  const auto arguments = std::make_shared<ServeArguments>(*command, version);
  arguments->verbose = program.get_option_no_throw("--verbose");
  command
      ->add_option("--config", arguments->config,
                   fmt::format("Read the options that neither flags nor variables of the environment (PENSTOCK_...)\n"
                               "set from this TOML file. The default is {}, unless a DIR, an\n"
                               "--export or --exports is given. none: no file",
                               kDefaultConfigFile))
      ->type_name("FILE");
  command->add_flag("--print-config", arguments->print,
                    "Print the effective configuration as TOML, with the source of each value, and exit");
  SetFooter(
      *command, "SIGHUP has the configuration, the tables of --exports and the certificates read again.",
      {"# Serve a directory to programs on this host, over TCP and software iWARP", "penstock serve /srv/data",
       "# Serve it to a network; root of the clients is the anonymous user",
       "penstock serve --listen 0.0.0.0 --export /data=/srv/data:rw,root_squash,client=192.0.2.0/24",
       "# Serve what the table of the kernel's server names", "penstock serve --listen '*' --exports /etc/exports"});
  return {command, [arguments] { return ConfigureAndServe(*arguments); }};
}

Command AddCheckConfig(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("check-config", "Check a configuration file of serve, and the tables of exports it names");
  const auto file = std::make_shared<std::string>(kDefaultConfigFile);
  const auto sample = std::make_shared<bool>(false);
  command->add_option("--config", *file, "The file to check")->type_name("FILE")->capture_default_str();
  command->add_flag("--sample", *sample, "Print a file with all options and their default values instead");
  SetFooter(*command, "Each mistake is a line FILE:LINE: MESSAGE. The exit code is 1 if there is one.",
            {"# Before a reload", "penstock check-config --config /etc/penstock/penstock.toml",
             "# Begin a configuration of your own", "penstock check-config --sample > penstock.toml"});
  return {command, [file, sample] {
            if (!*sample) return CheckConfig(*file);
            fmt::print("{}", SampleConfiguration());
            return 0;
          }};
}

}  // namespace penstock::cli
