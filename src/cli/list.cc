// penstock ls: lists a directory of a server.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/list_line.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "idmap/domain.h"
#include "idmap/local_owners.h"
#include "idmap/lookups.h"

namespace penstock::cli {
namespace {

struct ListOptions : ClientOptions {
  std::string url;
  bool long_format = false;
  bool numbers = false;
  std::optional<std::string> nfs4_domain;  // see ParseDomain()
};

bool HasDomain(const client::Entry& entry) {
  return entry.attributes && (entry.attributes->owner.contains('@') || entry.attributes->group.contains('@'));
}

// Replaces owners and groups by the names of this host's users and groups, or by their numbers.
Task<> Localize(ClientRuntime& runtime, std::vector<client::Entry>& entries, const ListOptions& options) {
  Loop& loop = runtime.loop();
  std::string domain = options.nfs4_domain.value_or("");  // empty: no name is that of a user of this host
  if (!options.nfs4_domain && std::ranges::any_of(entries, HasDomain)) {
    domain = co_await Offload(loop, runtime.workers(), [] { return idmap::FindDomain().name; });
  }
  idmap::Lookups lookups(&idmap::AskHost, loop, idmap::Lookups::OnThreads());
  idmap::LocalOwners owners(std::move(domain), lookups, &loop);
  using enum idmap::Kind;
  for (client::Entry& entry : entries) {
    if (!entry.attributes) continue;
    std::string& owner = entry.attributes->owner;
    std::string& group = entry.attributes->group;
    Task<std::string> local = options.numbers ? owners.NumberOf(kUser, owner) : owners.NameOf(kUser, owner);
    owner = co_await std::move(local);
    local = options.numbers ? owners.NumberOf(kGroup, group) : owners.NameOf(kGroup, group);
    group = co_await std::move(local);
  }
}

Task<client::Result<void>> ListTask(ClientRuntime& runtime, const Mounted& at, const ListOptions& options) {
  const std::string& path = at.server_path;
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve());
  std::vector<client::Entry> entries;
  if (node.attributes.type == client::FileType::kDirectory) {
    PENSTOCK_CO_CHECK(co_await at.mount->List(node.handle, at.name,
                                              [&](client::Entry entry) { entries.push_back(std::move(entry)); }));
  } else {
    entries.push_back({path.substr(path.rfind('/') + 1), node.attributes});
  }
  std::ranges::sort(entries, {}, &client::Entry::name);
  const bool long_format = options.long_format || options.numbers;
  if (long_format) co_await Localize(runtime, entries, options);
  const ListColumns columns = ColumnsFor(entries);
  for (const client::Entry& entry : entries) {
    PENSTOCK_CO_CHECK(Print("{}\n", ListLine(entry, long_format, columns)));
  }
  co_return client::Result<void>();
}

int List(ListOptions options) {
  auto domain = ParseDomain(options.nfs4_domain);
  if (!domain) return PrintUsageError(domain.error().message);
  options.nfs4_domain = *std::move(domain);
  return RunOnMounts({options.url}, options,
                     [&](ClientRuntime& runtime, const Mounted& at) { return ListTask(runtime, at, options); });
}

}  // namespace

Command AddList(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("ls", "List a directory of an NFS server");
  const auto options = std::make_shared<ListOptions>();
  command->add_option("URL", options->url, "A directory or a file")->required();
  command->add_flag("-l", options->long_format, "Show mode, links, owner, group, size and time");
  command->add_flag("-n", options->numbers, "The same with numbers in place of the names of owners and groups");
  command->add_option("--nfs4-domain", options->nfs4_domain,
                      "With -l and -n: users of this domain are those of this host. The default is the Domain of\n"
                      "/etc/idmapd.conf, or else the DNS domain of this host, or else localdomain. none: no name\n"
                      "is that of a user of this host");
  AddClientOptions(*command, *options);
  SetFooter(
      *command, "",
      {"# List a directory", "penstock ls nfs://server.example/photos",
       "# Show modes, owners, sizes and times, over RDMA", "penstock ls -l 'nfs://server.example/photos?proto=rdma'"});
  return {command, [options] { return List(*options); }};
}

}  // namespace penstock::cli
