// penstock probe: shows which programs of a host answer at which ports, and how to mount its exports.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cli/attributes_json.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/host_argument.h"
#include "cli/interface.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "client/probe.h"

namespace penstock::cli {
namespace {

using client::HostReport;
using client::PortReport;
using client::Result;

struct ProbeCommandOptions : ClientOptions {
  std::string host;
  uint16_t rdma_port = 20049;
  bool json = false;
};

// ---- text ----

std::string TextOf(const PortReport& port) {
  std::string text = fmt::format("{} port {}: ", port.is_rdma ? "RDMA" : "TCP", port.port);
  if (!port.error.empty()) return text + Printable(port.error) + "\n";
  std::vector<std::string> programs;
  for (const client::AnsweringProgram& each : port.programs) {
    programs.push_back(fmt::format("{} {}", each.name, fmt::join(each.versions, ", ")));
  }
  text += programs.empty() ? "accepts connections, but no program of NFS answers"
                           : fmt::format("{}", fmt::join(programs, "; "));
  text += "\n";
  if (port.rdma) {
    text +=
        fmt::format("  inline {} octets to the server, {} to the client; remote invalidation: {}\n",
                    port.rdma->server_receives, port.rdma->server_sends, port.rdma->remote_invalidation ? "yes" : "no");
  } else if (!port.programs.empty()) {
    text += fmt::format("  TLS: {}\n", Printable(port.tls.value_or("no")));
  }
  return text;
}

std::string RpcbindText(const HostReport& report) {
  if (!report.rpcbind_error.empty()) return fmt::format("rpcbind: {}\n", Printable(report.rpcbind_error));
  // The versions of each program at each port.
  std::map<std::tuple<uint32_t, std::string, uint16_t>, std::string> lines;
  for (const client::RegisteredProgram& each : report.registered) {
    std::string& versions = lines[{each.program, each.netid, each.port}];
    versions += (versions.empty() ? "" : ", ") + std::to_string(each.version);
  }
  std::string text = fmt::format("rpcbind: {} entries\n", report.registered.size());
  for (const auto& [at, versions] : lines) {
    const auto& [program, netid, port] = at;
    text += fmt::format("  {} {} at {} port {}\n", client::DescribeProgram(program), versions, Printable(netid), port);
  }
  return text;
}

std::string ExportsText(const HostReport& report) {
  if (!report.exports_error.empty()) return fmt::format("Exports: not known: {}\n", Printable(report.exports_error));
  std::string text = report.exports.empty() ? "Exports: none\n" : "Exports:\n";
  for (const client::ExportReport& each : report.exports) {
    const std::string sec = !each.error.empty()    ? Printable(each.error)
                            : each.flavors.empty() ? std::string("sec is not known")
                                                   : fmt::format("sec={}", fmt::join(each.flavors, ":"));
    const std::string clients =
        each.entry.clients.empty() ? "everyone" : fmt::format("{}", fmt::join(each.entry.clients, ","));
    text += fmt::format("  {} ({}; {})\n", Printable(each.entry.path), Printable(clients), sec);
  }
  return text;
}

std::string TextOf(const HostReport& report) {
  std::string text =
      fmt::format("{}: {}\n{}", Printable(report.host), fmt::join(report.addresses, ", "), RpcbindText(report));
  for (const PortReport& each : report.ports) text += TextOf(each);
  text += ExportsText(report);
  const std::vector<std::string> lines = client::MountLines(report);
  text += lines.empty() ? "Nothing here can be mounted.\n" : "To mount, as root of Linux or with this program:\n";
  for (const std::string& line : lines) text += fmt::format("  {}\n", Printable(line));
  return text;
}

// ---- JSON ----

OrderedJson JsonOf(const PortReport& port) {
  OrderedJson json{{"port", port.port}, {"transport", port.is_rdma ? "rdma" : "tcp"}};
  if (!port.error.empty()) {
    json["error"] = port.error;
    return json;
  }
  OrderedJson programs = OrderedJson::array();
  for (const client::AnsweringProgram& each : port.programs) {
    programs.push_back({{"program", each.program}, {"name", each.name}, {"versions", each.versions}});
  }
  json["programs"] = std::move(programs);
  if (port.rdma) {
    json["rdma"] = {{"server_receives", port.rdma->server_receives},
                    {"server_sends", port.rdma->server_sends},
                    {"remote_invalidation", port.rdma->remote_invalidation}};
  } else {
    json["tls"] = port.tls ? OrderedJson(*port.tls) : OrderedJson();
  }
  return json;
}

OrderedJson JsonOf(const HostReport& report) {
  OrderedJson registered = OrderedJson::array();
  for (const client::RegisteredProgram& each : report.registered) {
    registered.push_back(
        {{"program", each.program}, {"version", each.version}, {"netid", each.netid}, {"port", each.port}});
  }
  OrderedJson ports = OrderedJson::array();
  for (const PortReport& each : report.ports) ports.push_back(JsonOf(each));
  OrderedJson exports = OrderedJson::array();
  for (const client::ExportReport& each : report.exports) {
    OrderedJson entry{{"path", each.entry.path}, {"clients", each.entry.clients}, {"sec", each.flavors}};
    if (!each.error.empty()) entry["error"] = each.error;
    exports.push_back(std::move(entry));
  }
  OrderedJson json{{"host", report.host}, {"addresses", report.addresses}};
  if (!report.rpcbind_error.empty()) json["rpcbind_error"] = report.rpcbind_error;
  json["rpcbind"] = std::move(registered);
  json["ports"] = std::move(ports);
  if (!report.exports_error.empty()) json["exports_error"] = report.exports_error;
  json["exports"] = std::move(exports);
  json["mount"] = client::MountLines(report);
  return json;
}

// ---- the command ----

Task<Result<void>> ProbeTask(ClientRuntime& runtime, const client::Url& url, const ProbeCommandOptions& options,
                             bool& found) {
  const client::MountOptions mount = runtime.MountOptionsFor(url);
  auto report = co_await client::ProbeHost(runtime.loop(), runtime.workers(), url, *mount.provider,
                                           {.rdma_port = options.rdma_port});
  if (!report) {
    co_return std::unexpected(client::Error{report.error().message, std::nullopt, report.error().number});
  }
  found = report->NfsPort(false) || report->NfsPort(true);
  if (!options.json) co_return WriteOutput(TextOf(*report));
  co_return Print("{}\n", JsonOf(*report).dump(2, ' ', false, OrderedJson::error_handler_t::replace));
}

int Probe(const ProbeCommandOptions& options) {
  const auto url = ParseHost(options.host, options);
  if (!url) return PrintUsageError(url.error().message);
  ClientRuntime runtime(options.trace, options.rdma, options.kerberos);
  bool found = false;
  const int code = runtime.Run(ProbeTask(runtime, *url, options, found));
  if (found) return code;
  // The lines that tell the failure must not be lost unnoticed.
  (void)PrintOutput("");
  return 1;
}

}  // namespace

Command AddProbe(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "probe", "Show which ports, programs, versions, transports and exports a host has, and how to mount them");
  const auto options = std::make_shared<ProbeCommandOptions>();
  command->add_option("HOST", options->host, "A host, HOST:PORT, or a URL")->required();
  command->add_option("--rdma-port", options->rdma_port, "The port to try over RDMA")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command->add_flag("--json", options->json, "Print JSON");
  AddClientOptions(*command, *options);
  SetFooter(
      *command,
      "It asks rpcbind, calls procedure 0 of the programs at the ports of NFS and MOUNT, connects over RDMA, tries\n"
      "TLS, and mounts each export for a moment to learn its flavors. The exit code is 1 if nothing speaks NFS.",
      {"# What does this host offer?", "penstock probe server.example", "# A server at other ports",
       "penstock probe server.example:3049 --rdma-port 3050 -o mountport=3051"});
  return {command, [options] { return Probe(*options); }};
}

}  // namespace penstock::cli
