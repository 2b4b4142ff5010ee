// penstock showmount: what the MOUNT service of a server tells.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/attributes_json.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/host_argument.h"
#include "cli/interface.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "client/mount_lists.h"

namespace penstock::cli {
namespace {

using client::ExportEntry;
using client::MountEntry;
using client::Result;

struct ShowMountOptions : ClientOptions {
  std::string host;
  bool exports = false;
  bool all = false;
  bool directories = false;
  bool json = false;
};

Result<void> PrintJson(const OrderedJson& json) {
  return Print("{}\n", json.dump(2, ' ', false, OrderedJson::error_handler_t::replace));
}

Result<void> ShowExports(const std::vector<ExportEntry>& entries, bool as_json) {
  if (as_json) {
    OrderedJson list = OrderedJson::array();
    for (const ExportEntry& each : entries) list.push_back({{"path", each.path}, {"clients", each.clients}});
    return PrintJson(list);
  }
  size_t width = 0;
  for (const ExportEntry& each : entries) width = std::max(width, each.path.size());
  for (const ExportEntry& each : entries) {
    const std::string clients = each.clients.empty() ? "(everyone)" : fmt::format("{}", fmt::join(each.clients, ","));
    PENSTOCK_CHECK(Print("{:<{}} {}\n", Printable(each.path), width, Printable(clients)));
  }
  return {};
}

Result<void> ShowMounts(const std::vector<MountEntry>& entries, const ShowMountOptions& options) {
  if (options.json) {
    OrderedJson list = OrderedJson::array();
    for (const MountEntry& each : entries) list.push_back({{"host", each.host}, {"path", each.path}});
    return PrintJson(list);
  }
  std::vector<std::string> lines;
  for (const MountEntry& each : entries) {
    lines.push_back(options.all           ? fmt::format("{}:{}", each.host, each.path)
                    : options.directories ? each.path
                                          : each.host);
  }
  std::ranges::sort(lines);
  const auto [rest, end] = std::ranges::unique(lines);
  lines.erase(rest, end);
  for (const std::string& line : lines) PENSTOCK_CHECK(Print("{}\n", Printable(line)));
  return {};
}

Task<Result<void>> ShowTask(ClientRuntime& runtime, const client::Url& url, const ShowMountOptions& options) {
  PENSTOCK_CO_TRY(const auto calls, co_await client::MountCalls::Open(runtime.loop(), runtime.workers(), url));
  Result<void> shown;
  if (options.exports) {
    const auto entries = co_await calls->ListExports();
    if (entries) {
      shown = ShowExports(*entries, options.json);
    } else {
      shown = std::unexpected(entries.error());
    }
  } else {
    const auto entries = co_await calls->ListMounts();
    if (entries) {
      shown = ShowMounts(*entries, options);
    } else {
      shown = std::unexpected(entries.error());
    }
  }
  co_await calls->Close();
  co_return shown;
}

int ShowMount(const ShowMountOptions& options) {
  const auto url = ParseHost(options.host, options);
  if (!url) return PrintUsageError(url.error().message);
  ClientRuntime runtime(options.trace, options.rdma, options.kerberos);
  return runtime.Run(ShowTask(runtime, *url, options));
}

}  // namespace

Command AddShowMount(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("showmount", "List the exports of an NFS server, or the clients that have mounted them");
  const auto options = std::make_shared<ShowMountOptions>();
  command->add_option("HOST", options->host, "A host, HOST:PORT, or a URL")->required();
  CLI::Option* const exports =
      command->add_flag("-e,--exports", options->exports, "List the exports, and who may mount them");
  CLI::Option* const all =
      command->add_flag("-a,--all", options->all, "List hosts and directories of mounts, as HOST:DIRECTORY");
  command->add_flag("-d,--directories", options->directories, "List only directories that somebody has mounted")
      ->excludes(exports)
      ->excludes(all);
  exports->excludes(all);
  command->add_flag("--json", options->json, "Print JSON");
  AddClientOptions(*command, *options);
  SetFooter(*command,
            "Without an option, it lists the hosts that have mounted something. The server's list of mounts is a\n"
            "courtesy of version 3: clients of version 4 are not in it.",
            {"# List the exports", "penstock showmount -e server.example", "# List who has mounted what",
             "penstock showmount -a server.example"});
  return {command, [options] { return ShowMount(*options); }};
}

}  // namespace penstock::cli
