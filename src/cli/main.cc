// penstock: NFS over RDMA in user space. See README.md.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>

#include "cli/commands.h"
#include "server/options.h"

namespace {

using namespace penstock::cli;  // NOLINT: main knows nothing but the commands

void SetUpLogging(unsigned verbosity) {
  auto logger = std::make_shared<spdlog::logger>("penstock", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  spdlog::set_default_logger(std::move(logger));
  spdlog::set_level(verbosity == 0   ? spdlog::level::warn
                    : verbosity == 1 ? spdlog::level::info
                    : verbosity == 2 ? spdlog::level::debug
                                     : spdlog::level::trace);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("NFS over RDMA in user space: server and client");
  app.require_subcommand(1);
  app.set_version_flag("--version", PENSTOCK_VERSION);
  unsigned verbosity = 0;
  app.add_flag("-v,--verbose", verbosity, "Say more on stderr; twice or three times for debugging");
  app.fallthrough();

  ServeOptions serve_options;
  auto* serve = app.add_subcommand("serve", "Serve directories over NFS/RDMA and NFS/TCP");
  serve->add_option("DIR", serve_options.directory, "Serve this directory as /, read and write");
  serve->add_option(
      "--export", serve_options.exports,
      "PATH=DIR[:option,...]: serve DIR as PATH; options ro, rw, root_squash, no_root_squash, all_squash (none of\n"
      "them: root is squashed, but this host's own over loopback, from a port below 1024),\n"
      "anonuid=N, anongid=N, client=NETWORK, secure (over TCP, ports below 1024 only), insecure (the default),\n"
      "sec=FLAVOR[:FLAVOR...] of sys (the default), krb5, krb5i, krb5p, none; may be repeated.\n"
      "A DIR below another's is served by its own export alone");
  serve->add_option("--listen", serve_options.listen, "Address to listen on")->capture_default_str();
  serve->add_option("--tcp-port", serve_options.tcp_port, "NFS over TCP")->capture_default_str();
  serve->add_option("--rdma-port", serve_options.rdma_port, "NFS over RDMA")->capture_default_str();
  serve->add_option("--mount-port", serve_options.mount_port, "MOUNT over TCP")->capture_default_str();
  serve->add_option("--threads", serve_options.threads, "Event loops; 0: one for each processor")
      ->capture_default_str();
  serve
      ->add_option(
          "--workers", serve_options.workers,
          "Threads for calls that wait for a disk, started when they are needed. A quarter of them serves names\n"
          "and attributes alone; a connection alone gets a quarter")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  serve->add_option("--state-dir", serve_options.state_directory,
                    "What must survive a restart is kept here; by default below $XDG_STATE_HOME");
  serve->add_option("--max-connections", serve_options.max_connections, "On all ports together")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  serve
      ->add_option("--max-connections-per-address", serve_options.max_connections_per_address,
                   "From one IPv4 address, or one IPv6 network of 64 bits; 0: a quarter of all")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  serve
      ->add_option(
          "--idle-limit", serve_options.idle_seconds,
          "Where there are as many connections as there may be: seconds after which one that is idle makes room")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  serve
      ->add_option(
          "--memory", serve_options.memory,
          "For calls and replies of all clients, e.g. 512MiB; at least 32MiB. By default a quarter of what the\n"
          "machine or the control group has, and at least 256MiB. A host alone gets a quarter of this")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{penstock::server::kLeastMemory}, uint64_t{1} << 50));
  serve
      ->add_option("--stall-limit", serve_options.stall_seconds,
                   "Seconds after which a peer that leaves a message or a reply half done is disconnected")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  serve->add_option("--lease", serve_options.lease_seconds, "NFSv4: seconds for which a silent client keeps its state")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  serve
      ->add_option(
          "--grace", serve_options.grace_seconds,
          "NFSv4: seconds after a restart in which clients reclaim what they held, and at least as long as the\n"
          "lease of the run before; it ends when all have. 0: none, and they lose what they held")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  serve->add_flag("--no-delegations", serve_options.no_delegations,
                  "NFSv4: give no delegations: where programs on this host change files that clients have open");
  serve->add_option("--nfs4-domain", serve_options.nfs4_domain,
                    "NFSv4: write owners as name@DOMAIN; as numbers where it is not given");
  serve->add_option(
      "--keytab", serve_options.keytab,
      "Offer Kerberos (RPCSEC_GSS) with the keys of the service nfs in this file; by default with those in the\n"
      "host's keytab (KRB5_KTNAME), if it has any");
  serve->add_flag("--manage-gids", serve_options.manage_gids,
                  "Take users' groups from this host, not from their credentials, which carry sixteen at most");
  serve
      ->add_option("--crc", serve_options.crc,
                   "on, off: check values over iWARP; off, for clients that do without as well")
      ->capture_default_str();

  // Hidden: for tests.
  serve->add_option("--faults", serve_options.faults)->group("");

  PingOptions ping_options;
  auto* ping = app.add_subcommand("ping", "Measure how long an NFS server takes to answer NULL calls");
  ping->add_option("URL", ping_options.url, "nfs://HOST[:PORT]/PATH[?proto=rdma|tcp]")->required();
  ping->add_option("-c,--count", ping_options.count, "How many")->capture_default_str();
  ping->add_option("-i,--interval", ping_options.interval_ms, "Milliseconds between them")->capture_default_str();

  ListOptions list_options;
  auto* list = app.add_subcommand("ls", "List a directory of an NFS server");
  list->add_option("URL", list_options.url)->required();
  list->add_flag("-l", list_options.long_format, "With mode, links, owner, group, size and time");

  CatOptions cat_options;
  auto* cat = app.add_subcommand("cat", "Write files of an NFS server to standard output");
  cat->add_option("URL", cat_options.urls)->required();

  CopyCommandOptions copy_options;
  auto* copy = app.add_subcommand("cp", "Copy a file from an NFS server, or to it");
  copy->add_option("FROM", copy_options.from, "A file or an nfs:// URL")->required();
  copy->add_option("TO", copy_options.to, "A file, a directory or an nfs:// URL")->required();
  copy->add_option("--in-flight", copy_options.in_flight, "READs or WRITEs at a time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  copy->add_flag(
      "--in-place", copy_options.in_place,
      "Write into the local file itself: it stays the same file, with its hard links, also in a directory that\n"
      "may not be written to; a copy that fails leaves it half written");
  copy->add_flag("-q,--quiet", copy_options.quiet, "No progress bar");
  copy->footer(
      "A local file is replaced when the copy is complete and on the disk: it keeps its mode, owner and access "
      "control\n"
      "list, and stays as it was when the copy fails or is interrupted. For that, its directory must be writable and\n"
      "have room for both. A file that grows meanwhile is copied up to the size that it had; one that becomes shorter\n"
      "is an error.");

  MakeDirectoryOptions make_options;
  auto* make = app.add_subcommand("mkdir", "Make directories on an NFS server");
  make->add_option("URL", make_options.urls)->required();
  make->add_option("-m,--mode", make_options.mode, "Octal")->capture_default_str();

  RemoveOptions remove_options;
  auto* remove = app.add_subcommand("rm", "Remove files from an NFS server");
  remove->add_option("URL", remove_options.urls)->required();

  RemoveOptions remove_directory_options;
  remove_directory_options.directories = true;
  auto* remove_directory = app.add_subcommand("rmdir", "Remove empty directories from an NFS server");
  remove_directory->add_option("URL", remove_directory_options.urls)->required();

  MoveOptions move_options;
  auto* move = app.add_subcommand("mv", "Rename a file or directory on an NFS server");
  move->add_option("URL", move_options.url)->required();
  move->add_option("PATH", move_options.to, "Its new path on the same server, or a directory to move it to")
      ->required();

  LinkOptions link_options;
  auto* link = app.add_subcommand("ln", "Give a file on an NFS server another name: ln URL PATH, or ln -s TARGET URL");
  link->add_option("FROM", link_options.from, "A file's URL; with -s, what the link says")->required();
  link->add_option("TO", link_options.to, "Its new path on the same server; with -s, the link's URL")->required();
  link->add_flag("-s,--symbolic", link_options.symbolic, "Make a symbolic link");

  ChangeModeOptions mode_options;
  auto* change_mode = app.add_subcommand("chmod", "Set the mode of files on an NFS server");
  change_mode->add_option("MODE", mode_options.mode, "Octal")->required();
  change_mode->add_option("URL", mode_options.urls)->required();

  BenchOptions bench_options;
  auto* bench = app.add_subcommand("bench", "Measure what an NFS server gives to one client on one connection");
  bench->add_option("URL", bench_options.url, "A directory, where a file is made and removed")->required();
  bench->add_option("--ops", bench_options.operations, "Of null, getattr, read1m, write1m, read4k, write4k")
      ->delimiter(',')
      ->capture_default_str();
  bench->add_option("--depth", bench_options.depths, "Operations under way at a time")
      ->delimiter(',')
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  bench->add_option("--seconds", bench_options.seconds, "For each measurement")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  bench->add_option("--size", bench_options.file_size, "Of the file, e.g. 64MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 40))
      ->capture_default_str();
  bench->add_option("--json", bench_options.json, "Write the results to this file, too");
  bench->add_option("--server-pid", bench_options.server_pid, "Tell the CPU time of this process, too");

  auto* devices = app.add_subcommand("devices", "List the RDMA devices, and what would be done with each");

  const auto add_rdma = [](CLI::App* command, RdmaOptions& rdma) {
    command
        ->add_option(
            "--rdma", rdma.rdma,
            "verbs: by an RDMA device; iwarp: in software; auto: by the device that has the address, if one has")
        ->check(CLI::IsMember({"auto", "verbs", "iwarp"}))
        ->capture_default_str();
    command->add_option("--rdma-device", rdma.device, "By this device alone, as `penstock devices` names it");
  };
  const auto add_vers = [](CLI::App* command, std::string& vers) {
    command->add_option("--vers", vers, "Insist on this version of NFS: 3, 4.0, 4.1 or 4.2")
        ->check(CLI::IsMember({"3", "4", "4.0", "4.1", "4.2"}));
  };
  const auto add_trace = [](CLI::App* command, std::string& file) {
    command->add_option("--trace", file, "Write what crosses RDMA connections to this file, for Wireshark (pcapng)");
  };
  add_trace(serve, serve_options.trace);
  add_rdma(serve, serve_options.rdma);
  add_vers(bench, bench_options.vers);
  add_rdma(bench, bench_options.rdma);
  using Client = std::pair<CLI::App*, ClientOptions*>;
  for (const auto& [command, options] :
       {Client(ping, &ping_options), Client(list, &list_options), Client(cat, &cat_options),
        Client(copy, &copy_options), Client(make, &make_options), Client(remove, &remove_options),
        Client(remove_directory, &remove_directory_options), Client(move, &move_options), Client(link, &link_options),
        Client(change_mode, &mode_options)}) {
    add_vers(command, options->vers);
    add_trace(command, options->trace);
    add_rdma(command, options->rdma);
  }

  CLI11_PARSE(app, argc, argv);
  SetUpLogging(verbosity);
  std::signal(SIGPIPE, SIG_IGN);
  // A write beyond RLIMIT_FSIZE is to fail with EFBIG, not to end the program.
  std::signal(SIGXFSZ, SIG_IGN);

  if (devices->parsed()) return Devices();
  if (serve->parsed()) return Serve(serve_options);
  if (ping->parsed()) return Ping(ping_options);
  if (list->parsed()) return List(list_options);
  if (cat->parsed()) return Cat(cat_options);
  if (bench->parsed()) return Bench(bench_options);
  if (make->parsed()) return MakeDirectory(make_options);
  if (remove->parsed()) return Remove(remove_options);
  if (remove_directory->parsed()) return Remove(remove_directory_options);
  if (move->parsed()) return Move(move_options);
  if (link->parsed()) return Link(link_options);
  if (change_mode->parsed()) return ChangeMode(mode_options);
  return Copy(copy_options);
}
