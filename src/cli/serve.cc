// penstock serve: serves directories of this machine.
#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <asio/io_context.hpp>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>

#include "base/address.h"
#include "base/descriptor_limit.h"
#include "base/log.h"
#include "base/state_directory.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/configuration.h"
#include "cli/control_commands.h"
#include "cli/how_to_mount.h"
#include "cli/interface.h"
#include "cli/log_writer.h"
#include "cli/logging.h"
#include "cli/output.h"
#include "cli/reload.h"
#include "cli/serve_options.h"
#include "cli/served_exports.h"
#include "cli/server_signals.h"
#include "cli/service_manager.h"
#include "cluster/cluster.h"
#include "control/server.h"
#include "fs/ceph/location.h"
#include "fs/ceph/module.h"
#include "fs/faulty/process.h"
#include "fs/posix/identity.h"
#include "fs/posix/served_directories.h"
#include "idmap/domain.h"
#include "server/listeners.h"
#include "server/server.h"
#include "server/server_id.h"

namespace penstock::cli {
namespace {

// Members are destroyed from the last to the first.
struct MadeServer {
  std::shared_ptr<Workers> pool;
  std::shared_ptr<fs::audited::AuditLog> audit;  // null without one
  std::unique_ptr<ServedExports> exports;
  std::unique_ptr<server::Server> server;
};

// How long a call to the objects of a cluster of servers waits. Less than the time after which others miss the server.
constexpr std::chrono::seconds kClusterPatience{5};
// How long the end of the server waits for the reader of stderr.
constexpr auto kLogLimit = std::chrono::seconds(1);

// Prints an error as PrintError() does, in its place among the lines of the log.
int TellError(LogWriter& writer, const std::string& message) {
  writer.AddAnyway(ErrorLine(message));
  return 1;
}

// Logs the warnings, and prints the errors. Fails if there is an error.
SetupResult<void> Tell(const std::vector<Finding>& findings, LogWriter& writer) {
  size_t errors = 0;
  for (const Finding& each : findings) {
    if (each.severity == Severity::kWarning) {
      log::warn("{}", ToString(each));
    } else {
      TellError(writer, ToString(each));
      ++errors;
    }
  }
  if (errors == 0) return {};
  return std::unexpected(SetupError{fmt::format("the exports have {} mistakes: the server does not start", errors)});
}

SetupResult<std::shared_ptr<cluster::Cluster>> JoinCluster(const ServeOptions& arguments,
                                                           const server::Options& options, const std::string& server_id,
                                                           asio::io_context& signals) {
  PENSTOCK_TRY(const fs::ceph::ClusterLocation location, fs::ceph::ParseClusterLocation(arguments.cluster));
  const auto module = fs::ceph::LoadModule();
  if (!module) {
    return std::unexpected(SetupError{fmt::format("--cluster {}: {}", arguments.cluster, module.error().message)});
  }
  PENSTOCK_TRY(std::shared_ptr<objects::Store> store, (*module)->OpenPool(location, kClusterPatience));
  // A signal stops the context.
  const auto wait = [&signals](Duration time) {
    signals.run_for(time);
    return !signals.stopped();
  };
  return std::make_shared<cluster::Cluster>(std::move(store), cluster::Cluster::Options{.name = location.name,
                                                                                        .node = location.node,
                                                                                        .server = server_id,
                                                                                        .grace = options.nfs4.grace,
                                                                                        .wait = wait});
}

SetupResult<MadeServer> MakeServer(const ServeOptions& arguments, const server::Options& options,
                                   server::PassedSockets sockets, LogWriter& writer, asio::io_context& signals) {
  if (arguments.as_owner && fs::posix::ServedDirectories::ActsAsCallers()) {
    return std::unexpected(
        SetupError{"--as-owner is for a server without root's rights: this one acts as each client's user. To map all "
                   "users to one, export with all_squash,anonuid=N,anongid=N"});
  }
  std::vector<Finding> findings;
  PENSTOCK_TRY(std::vector<nfs::ExportSpec> specs, ExportsOf(arguments, findings));
  PENSTOCK_CHECK(Tell(findings, writer));
  findings.clear();
  const std::filesystem::path wanted = arguments.state_directory;
  PENSTOCK_TRY(StateDirectory state_directory, StateDirectory::Open(wanted.empty() ? DefaultStateDirectory() : wanted));

  // New files then need no second system call for their mode. The directories that StateDirectory::Open() may have made
  // must still get the user's mask, so this comes after it.
  ::umask(0);

  server::Parts parts{.state_directory = std::move(state_directory),
                      .pool = std::make_shared<Workers>(arguments.workers)};
  if (!arguments.audit.empty()) {
    PENSTOCK_TRY(parts.audit, fs::audited::AuditLog::Open(arguments.audit));
  }
  PENSTOCK_TRY(const std::string server_id, server::LoadServerId(parts.state_directory.path()));
  auto exports = std::make_unique<ServedExports>(
      *parts.pool,
      fs::posix::ServedDirectoriesOptions{
          .state_directory = parts.state_directory.path(),
          .rights = arguments.as_owner ? fs::posix::CallerRights::kOfServer : fs::posix::CallerRights::kBest,
          .leases = options.nfs4.delegations,
          .other_descriptors = options.connections.connections + server::ListeningDescriptors(options, sockets)},
      arguments.faults, parts.audit, server_id);
  if (!arguments.cluster.empty()) {
    PENSTOCK_TRY(parts.cluster, JoinCluster(arguments, options, server_id, signals));
    parts.expelled = [&writer](const std::string& why) {
      TellError(writer, fmt::format("it is no member of its cluster any more: {}: start it again", why));
      writer.Flush(kLogLimit);
      std::_Exit(1);
    };
  }
  PENSTOCK_TRY(parts.exports, exports->Open(std::move(specs), findings));
  PENSTOCK_CHECK(Tell(findings, writer));
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

// A server and what steers it. Members are destroyed from the last to the first.
struct RunningServer {
  MadeServer made;
  std::function<std::string()> status;  // for the service manager; until the server stops
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

// What the server is told beside its options.
struct Surroundings {
  Reloader::Configure configure;  // makes the options again, for a reload
  // Takes over the options of the process.
  std::function<void(const ServeOptions&)> adopt;
  const std::string& version;
  LogWriter& writer;  // gets all that the server prints on stderr
};

// Makes what reloads the configuration, and executes the operator's commands.
RunningServer Steer(const ServeOptions& arguments, const Surroundings& with, MadeServer made,
                    std::unique_ptr<control::Server> control) {
  server::Server& server = *made.server;
  const auto has_mistakes = std::make_shared<std::atomic<bool>>(false);
  const auto status = [&server, has_mistakes] {
    return server.DescribeLoad() +
           (*has_mistakes ? "; the configuration has mistakes, and the old one stays in use" : "");
  };
  Reloader::Hooks hooks{.on_begin =
                            [audit = made.audit] {
                              NotifyReloading();
                              // Also if the configuration has a mistake: the file may have been rotated.
                              if (audit) audit->Reopen();
                            },
                        .on_end =
                            [=](const Reloaded& reloaded) {
                              *has_mistakes = !reloaded.succeeded();
                              NotifyReady(status());
                            },
                        .adopt = with.adopt};
  auto reloader = std::make_unique<Reloader>(with.configure, arguments, *made.exports, server, std::move(hooks));
  auto commands = std::make_unique<ControlCommands>(with.version, server, *reloader);
  if (control) {
    control->Start(
        [&run = *commands](const std::string& command, const Json& words) { return run.Run(command, words); });
  }
  return {.made = std::move(made),
          .status = status,
          .reloader = std::move(reloader),
          .commands = std::move(commands),
          .control = std::move(control)};
}

// Starts the server. LeaseSignals must block their signal already. Fails with ECANCELED if one of StopSignals, whose
// context is `signals`, ends a long start.
SetupResult<RunningServer> StartServer(const ServeOptions& arguments, const server::Options& options,
                                       server::PassedSockets sockets, const Surroundings& with,
                                       asio::io_context& signals) {
  PENSTOCK_TRY(MadeServer made, MakeServer(arguments, options, std::move(sockets), with.writer, signals));
  PENSTOCK_TRY(auto control, OpenControl(arguments));
  if (!fs::posix::ServedDirectories::ActsAsCallers()) WarnOfMissingRights(arguments.as_owner);
  made.server->Start();
  return Steer(arguments, with, std::move(made), std::move(control));
}

// What the end of the server waits for.
enum class Ending : uint8_t {
  kCalls,     // of clients
  kCommands,  // of the control socket, and reloads
  kRest,      // what calls have left behind, and the audit log
  kNothing,
};

// Stops the server on a thread of its own. If that takes longer than `limit`, the thread goes on; the result is what it
// waits for.
Ending StopWithin(RunningServer all, Duration limit) {
  struct Progress {
    std::atomic<Ending> waits_for = Ending::kCalls;
    std::binary_semaphore ended{0};
  };
  const auto progress = std::make_shared<Progress>();
  std::thread ending([running = std::move(all), progress]() mutable {
    if (running.control) running.control->StopAccepting();
    running.reloader->Stop();
    // Before the commands end: one may hang with its disk.
    running.made.server->Drain();
    progress->waits_for = Ending::kCommands;
    // Commands and reloads use the server until they have ended.
    running.control.reset();
    running.commands.reset();
    running.reloader.reset();
    progress->waits_for = Ending::kRest;
    running.made.server->Stop();
    // Its records name file systems.
    if (running.made.audit) running.made.audit->Finish(std::chrono::hours(1));
    running.status = {};
    running.made.server.reset();
    progress->ended.release();
  });
  if (progress->ended.try_acquire_for(limit)) {
    ending.join();
    return Ending::kNothing;
  }
  ending.detach();
  return progress->waits_for;
}

void WarnOfUnfinished(Ending waits_for, Duration limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit).count();
  if (waits_for == Ending::kCommands) {
    log::warn(
        "a command of the control socket, or a reload, was still being executed {} s after the signal to stop: it is "
        "given up",
        seconds);
  } else {
    log::warn("calls were still being executed {} s after the signal to stop: their clients will send them again",
              seconds);
  }
}

// Runs the server until a signal stops it. Returns the exit code.
int Serve(const ServeOptions& arguments, const Surroundings& with) {
  // fs::posix::FileSystem requires this. It comes before any thread: threads inherit the capabilities of the thread
  // that starts them.
  fs::posix::DropResourceOverride();
  RaiseDescriptorLimit();
  with.writer.Start();
  auto options = ServerOptionsOf(arguments);
  if (!options) return TellError(with.writer, options.error().message);
  WarnOfMissingSupport();
  auto sockets = TakePassedSockets();
  if (!sockets) return TellError(with.writer, sockets.error().message);
  // Made before any thread exists that could take the signals: that of the log takes none.
  asio::io_context context{1};
  StopSignals signals(context);
  LeaseSignals lease_signals(context);
  if (!arguments.nfs4_domain) options->nfs4.domain = idmap::FindDomain().name;
  auto running = StartServer(arguments, *options, *std::move(sockets), with, context);
  if (!running && running.error().number == ECANCELED && context.stopped()) return 0;
  if (!running) return TellError(with.writer, running.error().message);
  server::Server& server = *running->made.server;
  lease_signals.TellTo(server);
  signals.ReloadBy([&reloads = *running->reloader] { reloads.RunLater("SIGHUP"); });
  // Who waits for "ready" may then read what was logged before.
  with.writer.Flush(kLogLimit);
  PrintHowToMount(server, *options);
  NotifyReady(running->status());
  std::optional<LifeSigns> life_signs(
      std::in_place, LifeSigns::Sources{.loops_answer = [&server](Duration limit) { return server.LoopsAnswer(limit); },
                                        .status = running->status});
  context.run();
  NotifyStopping();
  life_signs.reset();
  signals.ReloadBy({});
  // A second signal ends the program at once.
  signals.Forget();
  const std::shared_ptr<fs::audited::AuditLog> audit = running->made.audit;
  const Ending waits_for = StopWithin(*std::move(running), options->drain_limit);
  if (waits_for == Ending::kNothing) return 0;
  WarnOfUnfinished(waits_for, options->drain_limit);
  if (audit && !audit->Finish(std::chrono::seconds(1))) {
    log::error("the audit log {} loses its last records: the disk is too slow", arguments.audit);
  }
  with.writer.Flush(kLogLimit);
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
  std::fputs(fmt::format("{}{}\n", finding.file.empty() ? "penstock: " : "", ToString(finding)).c_str(), stderr);
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
  const auto writer = std::make_shared<LogWriter>(STDERR_FILENO);
  const auto set_up_logging = [usual, writer](const ServeOptions& options) {
    SetUpLogging(LogSettingsOf(options, usual), writer);
  };
  set_up_logging(made->options);
  for (const Finding& warning : made->warnings) log::warn("{}", ToString(warning));
  if (arguments.print) {
    return PrintOutput(PrintConfiguration(*made));
  }
  const auto configure = [command_line]() -> Result<ServeOptions, std::vector<Finding>> {
    auto again = ReadConfiguration(command_line);
    if (!again) return std::unexpected(std::move(again).error());
    return std::move(again->options);
  };
  const int code =
      Serve(made->options,
            {.configure = configure, .adopt = set_up_logging, .version = arguments.version, .writer = *writer});
  // Why the server does not start is worth waiting for; a signal ends the program.
  if (code != 0) {
    writer->End(std::nullopt);
  } else {
    writer->End(kLogLimit);
  }
  return code;
}

int CheckConfig(const std::optional<std::string>& flag) {
  const std::string name = NamedConfigFile(flag, EnvironmentOfProcess()).value_or(kDefaultConfigFile);
  if (IsNoConfigFile(name)) {
    return PrintError(
        fmt::format("there is no file to check: {} is \"{}\"", flag ? "--config" : "PENSTOCK_CONFIG", name));
  }
  const auto file = ReadConfigFile(name);
  const std::vector<Finding> findings = file ? CheckConfiguration(*file) : std::vector<Finding>{file.error()};
  for (const Finding& finding : findings) PrintFinding(finding);
  const auto errors = std::ranges::count(findings, Severity::kError, &Finding::severity);
  if (errors > 0) return 1;
  return PrintOutput(fmt::format("{}: no mistakes\n", name));
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
  const auto file = std::make_shared<std::optional<std::string>>();
  const auto sample = std::make_shared<bool>(false);
  command
      ->add_option("--config", *file,
                   fmt::format("The file to check. The default is that of the variable PENSTOCK_CONFIG, or else\n{}",
                               kDefaultConfigFile))
      ->type_name("FILE");
  command->add_flag("--sample", *sample, "Print a file with all options and their default values instead");
  SetFooter(*command, "Each mistake is a line FILE:LINE: MESSAGE. The exit code is 1 if there is one.",
            {"# Before a reload", "penstock check-config --config /etc/penstock/penstock.toml",
             "# Begin a configuration of your own", "penstock check-config --sample > penstock.toml"});
  return {command, [file, sample] {
            if (!*sample) return CheckConfig(*file);
            return PrintOutput(SampleConfiguration());
          }};
}

}  // namespace penstock::cli
