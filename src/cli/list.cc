// penstock ls: lists directories of a server.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/attributes_json.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/host_owners.h"
#include "cli/interface.h"
#include "cli/list_line.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "cli/sizes.h"
#include "cli/walk.h"

namespace penstock::cli {
namespace {

using client::Result;

struct ListOptions : ClientOptions {
  std::vector<std::string> urls;
  OwnerOptions owners;
  ListFormat format;
  bool all = false;          // with names that begin with '.', and "." and ".."
  bool almost_all = false;   // with names that begin with '.'
  bool directories = false;  // themselves, not their entries
  bool recursive = false;
  bool by_size = false;
  bool by_time = false;
  bool unsorted = false;
  bool reverse = false;
  bool one_column = false;  // without effect
  bool json = false;
  unsigned jobs = 8;

  bool needs_attributes() const {
    return format.long_format || format.file_ids || format.classify || recursive || by_size || by_time || json;
  }
  bool shows(const client::Entry& entry) const { return all || almost_all || !entry.name.starts_with('.'); }
};

// Entries by size or time are the largest or newest first.
void Sort(std::vector<client::Entry>& entries, const ListOptions& options) {
  const auto before = [&](const client::Entry& a, const client::Entry& b) {
    if (a.attributes && b.attributes) {
      if (options.by_size && a.attributes->size != b.attributes->size) return a.attributes->size > b.attributes->size;
      const client::Time& one = a.attributes->modified;
      const client::Time& other = b.attributes->modified;
      if (options.by_time && one != other) {
        return std::pair(one.seconds, one.nanoseconds) > std::pair(other.seconds, other.nanoseconds);
      }
    } else if ((options.by_size || options.by_time) && a.attributes.has_value() != b.attributes.has_value()) {
      return a.attributes.has_value();
    }
    return a.name < b.name;
  };
  if (!options.unsorted) std::ranges::sort(entries, before);
  if (options.reverse) std::ranges::reverse(entries);
}

class Lister {
 public:
  Lister(ClientRuntime& runtime, const ListOptions& options)
      : runtime_(runtime), options_(options), owners_(runtime, options.owners) {}

  Task<Result<void>> Run(Mounts& mounts, const std::vector<client::Url>& urls);

 private:
  struct Argument {
    Mounted at;
    client::Node node;
  };
  // Entries of one directory or of the command line, and where their handles are.
  struct Block {
    const Mounted& at;
    std::string path;  // of the directory below `at`
    client::Handle directory{};
    std::vector<client::Entry> entries{};
    std::vector<std::string> targets{};
  };

  Task<Result<void>> PrintFiles(const std::vector<Argument>& files, bool many);
  Task<Result<void>> PrintDirectory(const Argument& argument, bool heading);
  Task<Result<void>> PrintNames(const Argument& argument);
  Task<Result<void>> PrintListed(const Mounted& at, WalkedDirectory& directory, bool heading);
  Task<void> AddDots(const Mounted& at, const WalkedDirectory& directory, std::vector<client::Entry>& entries);
  Task<void> ReadTargets(Block& block);
  Task<Result<void>> PrintBlock(Block& block);

  ClientRuntime& runtime_;
  const ListOptions& options_;
  HostOwners owners_;
  bool has_printed_ = false;
};

Task<Result<void>> Lister::Run(Mounts& mounts, const std::vector<client::Url>& urls) {
  std::vector<Argument> files;
  std::vector<Argument> directories;
  for (const client::Url& url : urls) {
    const auto at = co_await mounts.At(url);
    if (!at) {
      runtime_.Report(at.error());
      continue;
    }
    const bool shows_links = options_.format.long_format || options_.directories;
    auto node = co_await at->Resolve(!shows_links || url.path.ends_with('/'));
    if (!node) {
      runtime_.Report(node.error());
      continue;
    }
    const bool enters = node->attributes.type == client::FileType::kDirectory && !options_.directories;
    (enters ? directories : files).push_back({*at, *std::move(node)});
  }
  const bool many = urls.size() > 1;
  PENSTOCK_CO_CHECK(co_await PrintFiles(files, many));
  for (const Argument& argument : directories) {
    PENSTOCK_CO_CHECK(co_await PrintDirectory(argument, many || options_.recursive));
  }
  co_return Result<void>();
}

// Prints files of the command line. One has its last name, and several have their URLs.
Task<Result<void>> Lister::PrintFiles(const std::vector<Argument>& files, bool many) {
  if (files.empty()) co_return Result<void>();
  std::vector<client::Entry> entries;
  std::vector<std::string> targets;
  for (const Argument& file : files) {
    const std::string& path = file.at.server_path;
    client::Entry entry{path.substr(path.rfind('/') + 1), file.node.attributes};
    if (options_.json || entry.name.empty()) entry.name = path;
    if (many && !options_.json) entry.name = file.at.name;
    if (options_.format.long_format || options_.json) co_await owners_.Localize(*entry.attributes);
    std::string target;
    if (options_.format.long_format && file.node.attributes.type == client::FileType::kSymlink) {
      auto read = co_await file.at.mount->ReadLink(file.node.handle, file.at.name);
      if (!read) runtime_.Report(file.at.Named(read.error()));
      if (read) target = *std::move(read);
    }
    entries.push_back(std::move(entry));
    targets.push_back(std::move(target));
  }
  const ListColumns columns = ColumnsFor(entries, options_.format);
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string line = options_.json ? JsonLine(EntryJson(entries[i].name, entries[i]))
                                           : ListLine(entries[i], options_.format, columns, targets[i]) + "\n";
    PENSTOCK_CO_CHECK(WriteOutput(line));
  }
  has_printed_ = true;
  co_return Result<void>();
}

Task<Result<void>> Lister::PrintDirectory(const Argument& argument, bool heading) {
  if (options_.unsorted && !options_.reverse && !options_.needs_attributes() && !heading) {
    co_return co_await PrintNames(argument);
  }
  WalkOptions walk;
  walk.jobs = options_.jobs;
  walk.sort = [this](std::vector<client::Entry>& entries) { Sort(entries, options_); };
  walk.completes = options_.needs_attributes();
  walk.descend = [this](const client::Entry& entry, unsigned) { return options_.recursive && options_.shows(entry); };
  DirectoryWalk directories(argument.at, argument.node, std::move(walk));
  Result<void> printed{};
  while (printed) {
    const auto directory = co_await directories.Next();
    if (!directory) break;
    if (directory->error) runtime_.Report(*directory->error);
    if (directory->error && directory->entries.empty()) continue;
    printed = co_await PrintListed(argument.at, *directory, heading);
  }
  co_await directories.Stop();
  co_return printed;
}

// Prints the names when they come, so that a directory of any size needs little memory.
Task<Result<void>> Lister::PrintNames(const Argument& argument) {
  Result<void> printed{};
  const auto print = [&](const client::Entry& entry) {
    if (printed && options_.shows(entry)) printed = WriteOutput(ListLine(entry, options_.format) + "\n");
  };
  if (options_.all) {
    for (const char* const dots : {".", ".."}) print({dots, std::nullopt});
  }
  const auto listed = co_await argument.at.mount->List(argument.node.handle, argument.at.name, print);
  has_printed_ = true;
  if (!listed) runtime_.Report(argument.at.Named(listed.error()));
  co_return printed;
}

Task<Result<void>> Lister::PrintListed(const Mounted& at, WalkedDirectory& directory, bool heading) {
  Block block{at, directory.path, directory.node.handle};
  if (options_.all && !options_.json) co_await AddDots(at, directory, block.entries);
  for (client::Entry& entry : directory.entries) {
    if (options_.shows(entry)) block.entries.push_back(std::move(entry));
  }
  if (!options_.json) {
    std::string title = std::exchange(has_printed_, true) && heading ? "\n" : "";
    const std::string name = JoinPath(at.name, directory.path);
    if (heading) title += (options_.format.printable ? Printable(name) : name) + ":\n";
    if (options_.format.long_format) {
      uint64_t used = 0;
      for (const client::Entry& entry : block.entries) used += entry.attributes ? entry.attributes->used : 0;
      title +=
          fmt::format("total {}\n", options_.format.human ? HumanSize(used) : std::to_string((used + 1023) / 1024));
    }
    PENSTOCK_CO_CHECK(WriteOutput(title));
  }
  co_return co_await PrintBlock(block);
}

Task<void> Lister::AddDots(const Mounted& at, const WalkedDirectory& directory, std::vector<client::Entry>& entries) {
  entries.push_back({".", directory.node.attributes});
  const auto above = co_await at.mount->Resolve(JoinPath(JoinPath(at.path, directory.path), ".."));
  entries.push_back({"..", above ? std::optional(above->attributes) : std::nullopt});
}

// Reads the targets of the symbolic links, several at the same time. A link that is gone has no target.
Task<void> Lister::ReadTargets(Block& block) {
  block.targets.resize(block.entries.size());
  std::vector<size_t> links;
  for (size_t i = 0; i < block.entries.size(); ++i) {
    const auto& attributes = block.entries[i].attributes;
    if (attributes && attributes->type == client::FileType::kSymlink) links.push_back(i);
  }
  const auto read = [&](size_t index) -> Task<void> {
    const size_t i = links[index];
    const std::string& name = block.entries[i].name;
    const auto node = co_await block.at.mount->Lookup(block.directory, name);
    if (!node || node->attributes.type != client::FileType::kSymlink) co_return;
    auto target = co_await block.at.mount->ReadLink(node->handle, name);
    if (target) block.targets[i] = *std::move(target);
  };
  co_await ForEachIndex(links.size(), 16, read);
}

Task<Result<void>> Lister::PrintBlock(Block& block) {
  if (options_.format.long_format || options_.json) {
    for (client::Entry& entry : block.entries) {
      if (entry.attributes) co_await owners_.Localize(*entry.attributes);
    }
  }
  if (options_.format.long_format || options_.json) co_await ReadTargets(block);
  const ListColumns columns = ColumnsFor(block.entries, options_.format);
  const std::string directory = JoinPath(block.at.server_path, block.path);
  for (size_t i = 0; i < block.entries.size(); ++i) {
    const client::Entry& entry = block.entries[i];
    const std::string target = block.targets.empty() ? "" : block.targets[i];
    std::string line;
    if (options_.json) {
      OrderedJson json = EntryJson(JoinPath(directory, entry.name), entry);
      if (!target.empty()) json["target"] = target;
      line = JsonLine(json);
    } else {
      line = ListLine(entry, options_.format, columns, target) + "\n";
    }
    PENSTOCK_CO_CHECK(WriteOutput(line));
  }
  co_return Result<void>();
}

int List(ListOptions options) {
  if (const auto wrong = PrintWrongDomain(options.owners)) return *wrong;
  options.format.long_format = options.format.long_format || options.owners.numbers || options.format.full_time;
  options.format.printable = OutputIsTerminal();
  options.format.now = std::time(nullptr);
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        Lister lister(runtime, options);
        co_return co_await lister.Run(mounts, urls);
      });
}

}  // namespace

Command AddList(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("ls", "List directories of an NFS server");
  const auto options = std::make_shared<ListOptions>();
  command->set_help_flag("--help", "Print this help message and exit");
  command->add_option("URL", options->urls, "Directories or files")->required();
  command->add_flag("-l", options->format.long_format, "Show mode, links, owner, group, size and time");
  command->add_flag("-n", options->owners.numbers, "The same with numbers in place of the names of owners and groups");
  command->add_flag("--full-time", options->format.full_time, "The same with nanoseconds and time zone");
  command->add_flag("-a", options->all, "Show also names that begin with a dot, . and ..");
  command->add_flag("-A", options->almost_all, "Show also names that begin with a dot");
  command->add_flag("-d", options->directories, "Show directories themselves, not their entries");
  command->add_flag("-R", options->recursive, "List the directories below as well");
  command->add_flag("-h", options->format.human, "With -l: show sizes with units, such as 1.5M");
  command->add_flag("-i", options->format.file_ids, "Show the number of each file in its file system");
  command->add_flag("-F", options->format.classify,
                    "Append a character to the name that shows the type: / directory, * executable file,\n"
                    "@ symbolic link, | FIFO, = socket");
  command->add_flag("-1", options->one_column, "Show one name on a line; it is always so");
  command->add_flag("-S", options->by_size, "Sort by size, the largest first");
  command->add_flag("-t", options->by_time, "Sort by time of change, the newest first");
  command->add_flag("-U", options->unsorted, "Do not sort: the server's order");
  command
      ->add_option_function<std::string>(
          "--sort",
          [options](const std::string& order) {
            options->by_size = order == "size";
            options->by_time = order == "time";
            options->unsorted = order == "none";
          },
          "The order, as -S, -t and -U choose it")
      ->check(CLI::IsMember({"name", "size", "time", "none"}));
  command->add_flag("-r", options->reverse, "Reverse the order");
  command->add_flag("--json", options->json, "Print a JSON object with all attributes for each entry, one on a line");
  command->add_option("--jobs", options->jobs, "With -R: the number of directories that are listed at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  AddDomainOption(*command, options->owners);
  AddClientOptions(*command, *options);
  SetFooter(*command,
            "Names are printed as they are if the output is no terminal. On a terminal, ? stands for each control\n"
            "character.",
            {"# List a directory", "penstock ls nfs://server.example/photos",
             "# Show modes, owners, sizes and times, over RDMA",
             "penstock ls -l 'nfs://server.example/photos?proto=rdma'", "# Find the largest files of a tree with jq",
             "penstock ls -R --json nfs://server.example/photos | jq -s 'max_by(.size)'"});
  return {command, [options] { return List(*options); }};
}

}  // namespace penstock::cli
