#include "cli/serve_options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "cli/served_exports.h"
#include "fs/ceph/location.h"
#include "nfs/exports_file.h"
#include "rdma/provider.h"
#include "watch/http_server.h"

namespace penstock::cli {
namespace {

// Adds the networks of a list whose elements are separated by commas. An empty element is an error: a network that was
// left out by mistake would lose its clients.
SetupResult<void> AddNetworks(std::string_view list, std::vector<nfs::Network>& networks) {
  for (;;) {
    const size_t comma = list.find(',');
    const std::string_view text = list.substr(0, comma);
    const auto network = nfs::Network::Parse(text);
    if (!network) {
      return std::unexpected(
          SetupError{fmt::format("--ccm-from {}: not an address or a network such as 10.0.0.0/8", text)});
    }
    networks.push_back(*network);
    if (comma == std::string_view::npos) return {};
    list.remove_prefix(comma + 1);
  }
}

// The checks of single values.
SetupResult<void> CheckLocation(const std::string& directory) {
  if (!nfs::NamesCephfs(directory)) return {};
  PENSTOCK_CHECK(fs::ceph::ParseLocation(directory));
  return {};
}

SetupResult<void> CheckExport(const std::string& text) {
  PENSTOCK_TRY(const nfs::ExportSpec spec, nfs::ParseExportSpec(text));
  return CheckLocation(spec.directory);
}

SetupResult<void> CheckCluster(const std::string& text) {
  PENSTOCK_CHECK(fs::ceph::ParseClusterLocation(text));
  return {};
}

SetupResult<void> CheckDomain(const std::string& text) {
  PENSTOCK_CHECK(ParseDomain(text));
  return {};
}

SetupResult<void> CheckEndpoint(const std::string& text) {
  PENSTOCK_CHECK(watch::ParseEndpoint(text));
  return {};
}

SetupResult<void> CheckNetworks(const std::string& list) {
  std::vector<nfs::Network> networks;
  return AddNetworks(list, networks);
}

SetupResult<void> CheckLogLevel(const std::string& text) {
  PENSTOCK_CHECK(ParseLogLevel(text));
  return {};
}

void AddExportOptions(Settings& settings, ServeOptions& options) {
  settings.AddOption(
      "DIR", options.directory,
      "Serve this directory as /, for reading and writing. ceph:/path[?conf=FILE&fs=NAME&user=ID] is one of CephFS",
      {.table = "exports", .example = "/srv/nfs", .check = &CheckLocation});
  CLI::Option* const exports = settings.AddOption(
      "--export", options.exports,
      "PATH=DIR[:option,...]: serve DIR as PATH. The options are: ro, rw, root_squash, no_root_squash, all_squash\n"
      "(with none of these three, root is squashed, except root of this host over loopback, from a port below 1024),\n"
      "anonuid=N, anongid=N, client=NETWORK, secure (only ports below 1024, for connections that begin over TCP), "
      "insecure (the default),\n"
      "sec=FLAVOR[:FLAVOR...] with the flavors sys (the default), krb5, krb5i, krb5p, ccm, none,\n"
      "xprtsec=PROTECTION[:PROTECTION...] with none, tls, mtls (the default is all of them), cert=NAME (with "
      "xprtsec=mtls:\n"
      "a name in the client's certificate, or \"address\" for its own address). May be repeated.\n"
      "If DIR lies below the directory of another export, clients reach it only through its own export.\n"
      "DIR may be a directory of CephFS: ceph:/path[?conf=FILE&fs=NAME&user=ID], with %3A for a colon",
      {.table = "exports", .example = "/data=/srv/data:ro,client=192.0.2.0/24", .check = &CheckExport});
  exports->allow_extra_args(false);  // The word after PATH=DIR may be the argument DIR.
  settings
      .AddOption("--exports", options.exports_files,
                 "Serve the directories that this table names, in the syntax of exports(5): /etc/exports, or a\n"
                 "directory of such tables, as /etc/exports.d. SIGHUP reads it again. May be repeated",
                 {.table = "exports", .example = "/etc/exports", .key = "tables"})
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void AddMonitoringOptions(Settings& settings, ServeOptions& options) {
  settings
      .AddOption(
          "--metrics", options.metrics,
          "Answer monitors and people here over HTTP: /metrics for Prometheus, /healthz, /readyz, and a dashboard\n"
          "at /. Without ADDRESS only this host can ask (127.0.0.1). There is no authentication",
          {.table = "monitoring", .example = "127.0.0.1:9469", .check = &CheckEndpoint})
      ->type_name("[ADDRESS:]PORT");
  settings
      .AddOption("--control", options.control,
                 "The socket over which `penstock ctl` asks the server and steers it; only the server's user and root\n"
                 "may use it. The default is the file control in the state directory. none: no socket",
                 {.table = "monitoring", .example = "/run/penstock/control"})
      ->type_name("FILE");
  settings.AddOption("--control-group", options.control_group,
                     "The members of this group may use the control socket as well, with all of its commands",
                     {.table = "monitoring", .example = "adm"});
}

void AddLoggingOptions(Settings& settings, ServeOptions& options) {
  settings
      .AddOption(
          "--log-format", options.log_format,
          "text: a time, a level and the message; json: an object in each line; journal: a priority that systemd\n"
          "reads, and the message. The default is journal if stderr is connected to the journal, or else text",
          {.table = "logging", .example = "json"})
      ->check(CLI::IsMember({"text", "json", "journal"}));
  settings
      .AddOption(
          "--log-level", options.log_levels,
          "Log messages of this level and above: debug, info, warning (the default) or error. With MODULE= only\n"
          "those of one module, such as rpc, nfs.v4 or iwarp. Replaces -v. May be repeated: the last one counts",
          {.table = "logging", .example = "info", .check = &CheckLogLevel})
      ->type_name("[MODULE=]LEVEL")
      ->allow_extra_args(false);
}

void AddAuditOption(Settings& settings, ServeOptions& options) {
  settings
      .AddOption(
          "--audit", options.audit,
          "Append a line to this file for each operation of a client that changes something or opens a file, and\n"
          "for each mount: who did what to which path, and the result. SIGHUP opens the file again",
          {.table = "logging", .example = "/var/log/penstock/audit.json"})
      ->type_name("FILE");
}

void AddAddressOptions(Settings& settings, ServeOptions& options) {
  ListenOptions& listen = options.listen;
  settings
      .AddOption(
          "--listen", listen.all,
          "Listen on this address; *: on all addresses of IPv4 and IPv6. May be repeated. :: alone means IPv4 as\n"
          "well, and IPv6 only beside an address of IPv4",
          {.table = "listen", .check = &CheckListenAddress})
      ->type_name("ADDRESS")
      ->allow_extra_args(false)
      ->capture_default_str();
  const auto add = [&](const std::string& flag, std::vector<std::string>& variable, std::string help,
                       std::string_view example) {
    settings
        .AddOption(flag, variable, std::move(help),
                   {.table = "listen",
                    .example = example,
                    .check = [flag](const std::string& text) { return CheckListenEndpoint(flag, text); }})
        ->type_name("ADDRESS[:PORT]")
        ->allow_extra_args(false);
  };
  add("--listen-tcp", listen.tcp,
      "Listen here for NFS over TCP, instead of the addresses of --listen; none: serve no NFS over TCP. May be "
      "repeated",
      "192.0.2.1:2049");
  add("--listen-rdma", listen.rdma,
      "Listen here for NFS over RDMA, instead of the addresses of --listen; none: serve no RDMA. May be repeated",
      "[2001:db8::1]:20049");
  add("--listen-mount", listen.mount,
      "Listen here for MOUNT, NLM, NSM and RQUOTA, instead of the addresses of --listen; none: offer them only where\n"
      "NFS over TCP is, and not over UDP. May be repeated",
      "192.0.2.1:20048");
  settings.AddOption("--tcp-port", listen.tcp_port, "Port of NFS over TCP", {.table = "listen"})->capture_default_str();
  settings.AddOption("--rdma-port", listen.rdma_port, "Port of NFS over RDMA", {.table = "listen"})
      ->capture_default_str();
  settings
      .AddOption("--mount-port", listen.mount_port, "Port of MOUNT and RQUOTA over TCP and UDP", {.table = "listen"})
      ->capture_default_str();
  settings
      .AddOption(
          "--rpcbind", options.rpcbind,
          "off, auto, required: register with the rpcbind of this host, so that clients find the ports. auto: if\n"
          "one runs, and unless the server listens on a loopback address only",
          {.table = "listen"})
      ->check(CLI::IsMember({"off", "auto", "required"}))
      ->capture_default_str();
  settings.AddFlag("--portmap", options.port_mapper, "Answer as a port mapper on port 111, where no rpcbind runs",
                   {.table = "listen"});
}

void AddThreadOptions(Settings& settings, ServeOptions& options) {
  settings
      .AddOption("--threads", options.threads, "Number of event loops; 0: one for each processor", {.table = "server"})
      ->check(CLI::Range(0u, 1024u))
      ->capture_default_str();
  settings
      .AddOption("--workers", options.workers,
                 "Number of threads for calls that wait for a disk; they are started when they are needed. A quarter\n"
                 "of them serves only names and attributes; a single connection gets at most a quarter",
                 {.table = "server"})
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  settings
      .AddOption("--state-dir", options.state_directory,
                 "Keep here what must survive a restart; the default is a directory below $XDG_STATE_HOME",
                 {.table = "server", .example = "/var/lib/penstock"})
      ->type_name("DIRECTORY");
  settings
      .AddOption(
          "--cluster", options.cluster,
          "Serve as one of several servers of the same files: NAME[?conf=FILE&pool=POOL&user=ID&node=NODE].\n"
          "They keep their clients of NFSv4 in this pool of RADOS (the default is penstock), and have one grace\n"
          "period. NODE is this server, by default the host's name",
          {.table = "server", .example = "home?pool=nfs", .check = &CheckCluster})
      ->type_name("NAME");
}

void AddLimitOptions(Settings& settings, ServeOptions& options) {
  settings
      .AddOption("--max-connections", options.max_connections, "Accept at most this many connections, on all ports",
                 {.table = "limits"})
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  settings
      .AddOption("--max-connections-per-address", options.max_connections_per_address,
                 "Accept at most this many from one IPv4 address or one IPv6 network of 64 bits; 0: a quarter of all",
                 {.table = "limits"})
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  settings
      .AddOption(
          "--idle-limit", options.idle_seconds,
          "If there are as many connections as allowed, a new one replaces a connection that was idle for this long,\n"
          "in seconds",
          {.table = "limits", .unit = Unit::kSeconds})
      ->check(SecondsBetween(0.0, 86400.0))
      ->capture_default_str();
  settings
      .AddOption(
          "--memory", options.memory,
          "Memory for calls and replies of all clients, e.g. 512MiB; at least 32MiB. The default is a quarter of the\n"
          "memory of the machine or the control group, and at least 256MiB. A single host gets at most a quarter",
          {.table = "limits", .unit = Unit::kOctets, .example = "512MiB"})
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{server::kLeastMemory}, uint64_t{1} << 50));
  settings
      .AddOption("--stall-limit", options.stall_seconds,
                 "Disconnect a peer that leaves a message or a reply unfinished for this many seconds",
                 {.table = "limits", .unit = Unit::kSeconds})
      ->check(SecondsBetween(0.1, 86400.0))
      ->capture_default_str();
}

void AddNfs2Options(Settings& settings, ServeOptions& options) {
  settings.AddFlag("--nfs2", options.nfs2,
                   "Serve NFS version 2 as well, with versions 1 and 2 of MOUNT. These clients see no file above 4 GiB",
                   {.table = "protocols"});
}

void AddNfs4Options(Settings& settings, ServeOptions& options) {
  settings
      .AddOption("--lease", options.lease_seconds, "NFSv4: a silent client keeps its state for this many seconds",
                 {.table = "nfs4", .unit = Unit::kSeconds})
      ->check(SecondsBetween(1.0, 3600.0))
      ->capture_default_str();
  settings
      .AddOption(
          "--grace", options.grace_seconds,
          "NFSv4: seconds after a restart in which clients reclaim their state; at least the lease of the run before.\n"
          "The period ends when all clients have reclaimed. 0: no such period, and clients lose their state",
          {.table = "nfs4", .unit = Unit::kSeconds})
      ->check(SecondsBetween(0.0, 3600.0))
      ->capture_default_str();
  settings.AddFlag("--delegations,!--no-delegations", options.delegations,
                   "NFSv4: give delegations, as by default. --no-delegations: give none, for hosts whose programs\n"
                   "change files that clients have open",
                   {.table = "nfs4"});
  settings
      .AddOption(
          "--max-delegations", options.max_delegations,
          "NFSv4: give at most this many delegations, which take up to 1.4 KiB each. From seven eighths on, the\n"
          "clients that have the most must return some",
          {.table = "nfs4"})
      ->check(CLI::Range(1u, nfs::v4::Settings::kMostDelegations))
      ->capture_default_str();
  settings.AddFlag(
      "--inter-server-copy", options.inter_server_copy,
      "NFSv4.2: copy files from other servers for clients that ask for it, and let other servers copy files of this\n"
      "one. The server then connects to addresses that its clients name",
      {.table = "nfs4"});
  settings.AddOption(
      "--nfs4-domain", options.nfs4_domain,
      "NFSv4: the domain of owners, which Kerberos clients get and send as name@DOMAIN. The default is the Domain of\n"
      "/etc/idmapd.conf, or else the DNS domain of this host, or else localdomain. none: all clients get numbers",
      {.table = "nfs4", .example = "example.org", .check = &CheckDomain});
  settings.AddFlag("--nfs4-names", options.nfs4_names,
                   "NFSv4: send names to clients without Kerberos as well; without this option they get numbers",
                   {.table = "nfs4"});
}

void AddBoundSessionOptions(Settings& settings, ServeOptions& options) {
  settings
      .AddOption("--sess01", options.sess01,
                 "NFSv4: offer the sessions of draft-talpey-nfsv4-rdma-sess-01 as well. off, tcp: no TCP connection\n"
                 "becomes an RDMA connection; rdma: it does if the client asks for it (always by software iWARP)",
                 {.table = "protocols"})
      ->check(CLI::IsMember({"off", "tcp", "rdma"}))
      ->capture_default_str();
  const auto check = [](std::string& text) {
    uint32_t boundary = 0;
    const bool good = CLI::detail::lexical_cast(text, boundary) && server::IsPadding(boundary);
    return good ? std::string() : fmt::format("{}: not 0 or a power of two from 64 to 4096", text);
  };
  settings
      .AddOption(
          "--sess01-pad", options.sess01_pad,
          "NFSv4: clients of these sessions may pad their calls over RDMA so that the data of a WRITE begin on a\n"
          "boundary of at most this many octets: a power of two from 64 to 4096. 0: they may not",
          {.table = "protocols", .unit = Unit::kOctets})
      ->check(CLI::Validator(check, "0 or a power of two in [64 - 4096]"))
      ->capture_default_str();
}

void AddSecurityOptions(Settings& settings, ServeOptions& options) {
  settings
      .AddOption("--keytab", options.keytab,
                 "Offer Kerberos (RPCSEC_GSS) with the keys of the service nfs in this file; the default is the host's "
                 "keytab\n"
                 "(KRB5_KTNAME), if the host has one",
                 {.table = "security", .example = "/etc/krb5.keytab", .variable = "PENSTOCK_SERVER_KEYTAB"})
      ->type_name("FILE");
  settings
      .AddOption("--tls-cert", options.tls.certificate,
                 "Offer TLS over TCP with the certificate in this file (PEM, authorities in between behind it)",
                 {.table = "tls", .example = "/etc/penstock/server.pem", .variable = "PENSTOCK_SERVER_TLS_CERT"})
      ->type_name("FILE");
  settings
      .AddOption("--tls-key", options.tls.key, "The key of the certificate, without a password",
                 {.table = "tls", .example = "/etc/penstock/server.key", .variable = "PENSTOCK_SERVER_TLS_KEY"})
      ->type_name("FILE");
  settings
      .AddOption("--tls-ca", options.tls.authorities,
                 "Trust the clients' certificates that these authorities have signed; the file may have their "
                 "revocation lists.\n"
                 "SIGHUP reads all three files again",
                 {.table = "tls", .example = "/etc/penstock/clients.pem", .variable = "PENSTOCK_SERVER_TLS_CA"})
      ->type_name("FILE");
  settings
      .AddOption(
          "--ccm-from", options.ccm_from,
          "NETWORK[,NETWORK...]: networks whose connections are protected, as by IPsec. Clients there may use the\n"
          "flavor ccm: calls without cryptography of their own, in the name of a Kerberos context",
          {.table = "security", .example = "10.0.0.0/8", .check = &CheckNetworks})
      ->allow_extra_args(false);
  settings.AddFlag("--manage-gids", options.manage_gids,
                   "Take users' groups from this host instead of their credentials, which carry at most sixteen",
                   {.table = "security"});
  settings.AddFlag(
      "--as-owner", options.as_owner,
      "Without root's rights: every client may do what the user who started the server may do, instead of\n"
      "what the modes and lists of the files permit to the client's user",
      {.table = "security"});
}

}  // namespace

Settings AddServeOptions(CLI::App& command, ServeOptions& options) {
  Settings settings(command);
  AddExportOptions(settings, options);
  AddAddressOptions(settings, options);
  AddMonitoringOptions(settings, options);
  AddLoggingOptions(settings, options);
  AddAuditOption(settings, options);
  AddThreadOptions(settings, options);
  AddLimitOptions(settings, options);
  AddNfs2Options(settings, options);
  AddNfs4Options(settings, options);
  AddBoundSessionOptions(settings, options);
  AddSecurityOptions(settings, options);
  settings
      .AddOption("--crc", options.crc,
                 "on, off: use check values over iWARP; off applies to clients that request none as well",
                 {.table = "rdma"})
      ->capture_default_str();
  // Hidden: for tests.
  settings.AddOption("--faults", options.faults, "", {})->group("");
  settings.AddOption("--kept-octets", options.kept_octets, "", {})->group("");
  AddTraceOption(command, options.trace);
  settings.Register(command.get_option("--trace"), options.trace, {.table = "rdma", .example = "/tmp/rdma.pcapng"});
  AddRdmaOptions(command, options.rdma);
  settings.Register(command.get_option("--rdma"), options.rdma.rdma, {.table = "rdma"});
  settings.Register(command.get_option("--rdma-device"), options.rdma.device, {.table = "rdma", .example = "mlx5_0"});
  settings
      .AddOption(
          "--rdma-inline", options.rdma_inline,
          "Over RDMA, take messages with up to so many octets of data. Each call that may be under way can take the\n"
          "next power of two above that and 4KiB; over an RDMA device its receive takes as much all the time. The\n"
          "default is 16384 over software iWARP, and 4096 over an RDMA device. A connection for whose calls an eighth\n"
          "of --memory has no room left takes 4096",
          {.table = "rdma", .unit = Unit::kOctets, .example = "65536"})
      ->check(CLI::Range(1u, rdma::kMostInlineData));
  return settings;
}

std::vector<Contradiction> ContradictionsIn(const ServeOptions& options) {
  std::vector<Contradiction> found;
  if (options.sess01_pad > 0 && options.sess01 == "off") {
    found.push_back({{"--sess01-pad", "--sess01"}, "--sess01-pad needs --sess01=tcp or --sess01=rdma"});
  }
  if (options.rdma_inline && options.sess01 == "rdma") {
    found.push_back({{"--rdma-inline", "--sess01"},
                     "--rdma-inline does nothing with --sess01=rdma, where connections agree on sizes later"});
  }
  if (options.port_mapper && options.rpcbind == "required") {
    found.push_back(
        {{"--portmap", "--rpcbind"}, "--portmap takes the place of rpcbind: use it without --rpcbind required"});
  }
  if (auto addresses = AddressesOf(options.listen); !addresses) {
    found.push_back(
        {{"--listen", "--listen-tcp", "--listen-rdma", "--listen-mount"}, std::move(addresses.error().message)});
  } else if (options.inter_server_copy && addresses->tcp.empty()) {
    found.push_back({{"--inter-server-copy", "--listen-tcp"},
                     "--inter-server-copy needs NFS over TCP, which --listen-tcp none switches off"});
  }
  if (options.nfs4_domain == "none" && options.nfs4_names) {
    found.push_back({{"--nfs4-names", "--nfs4-domain"}, "--nfs4-names needs a domain, and --nfs4-domain is none"});
  }
  if (options.tls.certificate.empty() != options.tls.key.empty()) {
    found.push_back({{"--tls-cert", "--tls-key"}, "--tls-cert and --tls-key belong together: give both"});
  }
  if (options.tls.certificate.empty() && !options.tls.authorities.empty()) {
    found.push_back({{"--tls-ca"}, "--tls-ca needs a certificate of the server: --tls-cert and --tls-key"});
  }
  return found;
}

SetupResult<server::Options> ServerOptionsOf(const ServeOptions& options) {
  const auto seconds = [](double count) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
  };
  if (auto contradictions = ContradictionsIn(options); !contradictions.empty()) {
    return std::unexpected(SetupError{std::move(contradictions.front().message)});
  }
  PENSTOCK_TRY(const std::optional<std::string> domain, ParseDomain(options.nfs4_domain));
  server::Options server;
  PENSTOCK_TRY(server.listen, AddressesOf(options.listen));
  server.rpcbind = options.rpcbind == "off"    ? server::Registration::kOff
                   : options.rpcbind == "auto" ? server::Registration::kAuto
                                               : server::Registration::kRequired;
  server.port_mapper = options.port_mapper;
  server.threads = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  if (!options.metrics.empty()) {
    const auto endpoint = watch::ParseEndpoint(options.metrics);
    if (!endpoint) return std::unexpected(SetupError{"--metrics: " + endpoint.error().message});
    server.metrics = *endpoint;
  }
  server.trace = options.trace;
  server.connections = {.connections = options.max_connections,
                        .per_address = options.max_connections_per_address,
                        .idle_limit = seconds(options.idle_seconds)};
  server.memory = options.memory.value_or(0);
  server.stall_limit = seconds(options.stall_seconds);
  server.iwarp.crc = options.crc;
  server.nfs2 = options.nfs2;
  server.nfs4.lease = seconds(options.lease_seconds);
  server.nfs4.grace = seconds(options.grace_seconds);
  if (options.kept_octets) server.nfs4.max_kept_octets = *options.kept_octets;
  server.nfs4.delegations = options.delegations;
  server.nfs4.max_delegations = options.max_delegations;
  server.nfs4.inter_server_copy = options.inter_server_copy;
  server.nfs4.domain = domain.value_or("");
  server.nfs4.names_for_all = options.nfs4_names;
  server.nfs4.bound_sessions = options.sess01 != "off";
  server.step_up = options.sess01 == "rdma";
  server.one_receive_first = server.step_up;
  server.padding = options.sess01_pad;
  server.keytab = options.keytab;
  for (const std::string& list : options.ccm_from) PENSTOCK_CHECK(AddNetworks(list, server.ccm_from));
  server.tls = options.tls;
  server.manage_gids = options.manage_gids;
  server.rdma = ChoiceOf(options.rdma);
  server.inline_data = options.rdma_inline;
  return server;
}

LogSettings LogSettingsOf(const ServeOptions& options, log::Level usual) {
  LogSettings settings{.format = ParseLogFormat(options.log_format).value_or(FormatForStderr()),
                       .levels = {{.module = {}, .least = usual}}};
  for (const std::string& text : options.log_levels) {
    if (auto level = ParseLogLevel(text)) settings.levels.push_back(*std::move(level));
  }
  return settings;
}

SetupResult<std::vector<nfs::ExportSpec>> ExportsOf(const ServeOptions& options, std::vector<Finding>& findings) {
  std::vector<nfs::ExportSpec> exports;
  if (!options.directory.empty()) {
    exports.push_back({.path = "/", .directory = options.directory});
  }
  for (const std::string& text : options.exports) {
    PENSTOCK_TRY(nfs::ExportSpec spec, nfs::ParseExportSpec(text));
    for (const std::string& note : spec.notes) {
      findings.push_back({.file = {},
                          .line = 0,
                          .severity = Severity::kWarning,
                          .message = fmt::format("--export {}: {}", spec.path, note)});
    }
    exports.push_back(std::move(spec));
  }
  nfs::ExportsFiles tables;
  for (const std::string& file : options.exports_files) tables.Read(file);
  tables.Finish();
  std::ranges::move(tables.findings(), std::back_inserter(findings));
  for (const nfs::ExportSpec& each : tables.exports()) {
    const auto good = CheckLocation(each.directory);
    if (!good) findings.push_back(FindingAt(each, Severity::kError, good.error().message));
  }
  for (nfs::ExportSpec& each : tables.exports()) {
    const auto same = std::ranges::find(exports, each.path, &nfs::ExportSpec::path);
    if (same != exports.end()) {
      return std::unexpected(
          SetupError{fmt::format("{}: {} is exported on the command line as well", each.place, each.path)});
    }
  }
  std::ranges::move(tables.exports(), std::back_inserter(exports));
  if (exports.empty() && options.exports_files.empty()) {
    return std::unexpected(SetupError{"serve: name a directory, an --export PATH=DIR, or a table of --exports"});
  }
  return exports;
}

}  // namespace penstock::cli
