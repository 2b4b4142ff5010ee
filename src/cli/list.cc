// penstock ls: lists a directory of a server.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/list_line.h"

namespace penstock::cli {
namespace {

struct ListOptions : ClientOptions {
  std::string url;
  bool long_format = false;
};

Task<client::Result<void>> ListTask(client::Mount& mount, const ListOptions& options) {
  const std::string& path = mount.url().path;
  PENSTOCK_CO_TRY(const client::Node node, co_await mount.Resolve(mount.path()));
  std::vector<client::Entry> entries;
  if (node.attributes.type == client::FileType::kDirectory) {
    PENSTOCK_CO_CHECK(
        co_await mount.List(node.handle, path, [&](client::Entry entry) { entries.push_back(std::move(entry)); }));
  } else {
    entries.push_back({path.substr(path.rfind('/') + 1), node.attributes});
  }
  std::ranges::sort(entries, {}, &client::Entry::name);
  for (const client::Entry& entry : entries) fmt::print("{}\n", ListLine(entry, options.long_format));
  co_return client::Result<void>();
}

int List(const ListOptions& options) {
  return RunOnMounts({options.url}, options,
                     [&](ClientRuntime&, client::Mount& mount) { return ListTask(mount, options); });
}

}  // namespace

Command AddList(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("ls", "List a directory of an NFS server");
  const auto options = std::make_shared<ListOptions>();
  command->add_option("URL", options->url)->required();
  command->add_flag("-l", options->long_format, "Show mode, links, owner, group, size and time");
  AddClientOptions(*command, *options);
  return {command, [options] { return List(*options); }};
}

}  // namespace penstock::cli
