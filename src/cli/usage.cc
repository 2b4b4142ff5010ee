// penstock du and tree: walk a tree of a server and print the storage of its directories, or its names.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/attributes_json.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
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

constexpr unsigned kNoDepth = std::numeric_limits<unsigned>::max();

// ---- du ----

struct UsageOptions : ClientOptions {
  std::vector<std::string> urls;
  bool all = false;
  bool summary = false;
  bool human = false;
  bool total = false;
  bool apparent = false;
  bool octets = false;
  bool one_file_system = false;
  bool count_links = false;
  bool json = false;
  unsigned max_depth = kNoDepth;
  unsigned jobs = 8;
};

// The storage of the trees of one command. A file with several links counts once.
class Usage {
 public:
  Usage(ClientRuntime& runtime, const UsageOptions& options) : runtime_(runtime), options_(options) {}

  Task<Result<void>> Run(const Mounted& at);
  Result<void> PrintTotal();

 private:
  uint64_t SizeOf(const client::Entry& entry);
  void Visit(const WalkedEntry& entry);
  void Leave(const WalkedEntry& directory);
  void PrintLine(uint64_t size, const std::string& name, bool is_total = false);

  ClientRuntime& runtime_;
  const UsageOptions& options_;
  const bool printable_ = OutputIsTerminal();
  std::string root_;                                 // the path of the present tree on the server
  std::vector<uint64_t> sums_;                       // of the directories from the start to the present one
  std::set<std::pair<uint64_t, uint64_t>> counted_;  // file systems and numbers of files with several links
  uint64_t total_ = 0;
  Result<void> printed_{};
};

uint64_t Usage::SizeOf(const client::Entry& entry) {
  if (!entry.attributes) return 0;
  const client::Attributes& a = *entry.attributes;
  if (a.links > 1 && !IsDirectory(a) && !options_.count_links) {
    if (!counted_.emplace(a.file_system, a.file_id).second) return 0;
  }
  return options_.apparent ? a.size : a.used;
}

void Usage::PrintLine(uint64_t size, const std::string& name, bool is_total) {
  if (!printed_) return;
  if (options_.json) {
    OrderedJson json = is_total ? OrderedJson{{"total", true}} : EntryJson(name, {name, std::nullopt});
    json["octets"] = size;
    printed_ = WriteOutput(JsonLine(json));
    return;
  }
  const std::string number = options_.human    ? HumanSize(size)
                             : options_.octets ? std::to_string(size)
                                               : std::to_string((size + 1023) / 1024);
  printed_ = WriteOutput(fmt::format("{}\t{}\n", number, printable_ ? Printable(name) : name));
}

void Usage::Visit(const WalkedEntry& entry) {
  const uint64_t size = SizeOf(entry.entry);
  if (entry.enters) {
    sums_.push_back(size);
    return;
  }
  if (!sums_.empty()) sums_.back() += size;
  if (entry.depth == 0) total_ += size;
  const bool shown = entry.depth == 0 || (options_.all && entry.depth <= options_.max_depth);
  if (shown) PrintLine(size, JoinPath(root_, entry.path));
}

void Usage::Leave(const WalkedEntry& directory) {
  const uint64_t sum = sums_.back();
  sums_.pop_back();
  if (sums_.empty()) {
    total_ += sum;
  } else {
    sums_.back() += sum;
  }
  if (directory.depth <= options_.max_depth) PrintLine(sum, JoinPath(root_, directory.path));
}

Task<Result<void>> Usage::Run(const Mounted& at) {
  PENSTOCK_CO_TRY(client::Node node, co_await at.Resolve(false));
  root_ = at.server_path;
  WalkOptions walk;
  walk.jobs = options_.jobs;
  walk.follow_referrals = !options_.one_file_system;
  if (options_.one_file_system) {
    walk.sort = [file_system = node.attributes.file_system](std::vector<client::Entry>& entries) {
      std::erase_if(entries, [&](const client::Entry& entry) {
        return entry.is_referral || (entry.attributes && entry.attributes->file_system != file_system);
      });
      SortByName(entries);
    };
  }
  const WalkHandlers handlers{.visit = [this](const WalkedEntry& entry) -> Task<void> {
                                Visit(entry);
                                co_return;
                              },
                              .leave = [this](const WalkedEntry& directory) -> Task<void> {
                                Leave(directory);
                                co_return;
                              },
                              .report = [this](const client::Error& error) { runtime_.Report(error); }};
  co_await Walk(at, std::move(node), {}, std::move(walk), handlers);
  co_return printed_;
}

Result<void> Usage::PrintTotal() {
  PrintLine(total_, "total", true);
  return printed_;
}

int PrintUsage(UsageOptions options) {
  if (options.summary && options.all) return PrintUsageError("du: -s and -a contradict each other");
  if (options.summary) options.max_depth = 0;
  options.apparent = options.apparent || options.octets;
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        Usage usage(runtime, options);
        const UseMount use = [&](ClientRuntime&, const Mounted& at) { return usage.Run(at); };
        PENSTOCK_CO_CHECK(co_await ForEachMounted(runtime, mounts, urls, use));
        if (options.total) PENSTOCK_CO_CHECK(usage.PrintTotal());
        co_return Result<void>();
      });
}

// ---- tree ----

struct TreePrintOptions : ClientOptions {
  std::vector<std::string> urls;
  bool all = false;
  bool directories = false;
  bool sizes = false;
  bool human = false;
  unsigned max_depth = kNoDepth;
  unsigned jobs = 8;
};

class TreePrinter {
 public:
  TreePrinter(ClientRuntime& runtime, const TreePrintOptions& options) : runtime_(runtime), options_(options) {}

  Task<Result<void>> Run(const Mounted& at);
  Result<void> PrintCounts() const;

 private:
  Task<void> Visit(const Mounted& at, const WalkedEntry& entry);

  ClientRuntime& runtime_;
  const TreePrintOptions& options_;
  const bool printable_ = OutputIsTerminal();
  std::vector<bool> ends_;  // for each depth: the present entry is the last one of its directory
  uint64_t directories_ = 0;
  uint64_t files_ = 0;
  Result<void> printed_{};
};

Task<void> TreePrinter::Visit(const Mounted& at, const WalkedEntry& entry) {
  if (!printed_) co_return;
  const auto& attributes = entry.entry.attributes;
  const bool is_directory = entry.entry.is_referral || (attributes && IsDirectory(*attributes));
  std::string line;
  if (entry.depth > 0) {
    ++(is_directory ? directories_ : files_);
    ends_.resize(entry.depth);
    ends_.back() = entry.is_last;
    for (size_t depth = 0; depth + 1 < entry.depth; ++depth) line += ends_[depth] ? "    " : "\u2502   ";
    line += entry.is_last ? "\u2514\u2500\u2500 " : "\u251c\u2500\u2500 ";
  }
  if (options_.sizes && attributes) {
    line += options_.human ? fmt::format("[{:>5}]  ", HumanSize(attributes->size))
                           : fmt::format("[{:>12}]  ", attributes->size);
  }
  const std::string& name = entry.depth == 0 ? at.name : entry.entry.name;
  line += printable_ ? Printable(name) : name;
  if (attributes && attributes->type == client::FileType::kSymlink) {
    const auto node = co_await at.mount->Lookup(entry.directory, entry.entry.name);
    if (node && node->attributes.type == client::FileType::kSymlink) {
      const auto target = co_await at.mount->ReadLink(node->handle, name);
      if (target) line += " -> " + (printable_ ? Printable(*target) : *target);
    }
  }
  printed_ = WriteOutput(line + "\n");
}

Task<Result<void>> TreePrinter::Run(const Mounted& at) {
  PENSTOCK_CO_TRY(client::Node node, co_await at.Resolve());
  if (!IsDirectory(node.attributes)) co_return std::unexpected(client::ErrorOf(client::Status::kNotDirectory, at.name));
  WalkOptions walk;
  walk.jobs = options_.jobs;
  walk.sort = [this](std::vector<client::Entry>& entries) {
    std::erase_if(entries, [this](const client::Entry& entry) {
      const bool is_directory = entry.is_referral || (entry.attributes && IsDirectory(*entry.attributes));
      return (!options_.all && entry.name.starts_with('.')) || (options_.directories && !is_directory);
    });
    SortByName(entries);
  };
  walk.descend = [this](const client::Entry&, unsigned depth) { return depth < options_.max_depth; };
  const WalkHandlers handlers{.visit = [&](const WalkedEntry& entry) { return Visit(at, entry); },
                              .report = [this](const client::Error& error) { runtime_.Report(error); }};
  co_await Walk(at, std::move(node), {}, std::move(walk), handlers);
  co_return printed_;
}

Result<void> TreePrinter::PrintCounts() const {
  std::string line = fmt::format("\n{} director{}", directories_, directories_ == 1 ? "y" : "ies");
  if (!options_.directories) line += fmt::format(", {} file{}", files_, files_ == 1 ? "" : "s");
  return WriteOutput(line + "\n");
}

int PrintTree(const TreePrintOptions& options) {
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        TreePrinter printer(runtime, options);
        const UseMount use = [&](ClientRuntime&, const Mounted& at) { return printer.Run(at); };
        PENSTOCK_CO_CHECK(co_await ForEachMounted(runtime, mounts, urls, use));
        co_return printer.PrintCounts();
      });
}

void AddJobs(CLI::App& command, unsigned& jobs) {
  command.add_option("--jobs", jobs, "The number of directories that are listed at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
}

}  // namespace

Command AddUsage(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("du", "Show the storage of trees on an NFS server");
  const auto options = std::make_shared<UsageOptions>();
  command->set_help_flag("--help", "Print this help message and exit");
  command->add_option("URL", options->urls, "Directories or files")->required();
  command->add_flag("-s,--summarize", options->summary, "Print only a line for each URL");
  command->add_flag("-a,--all", options->all, "Print lines for files as well as for directories");
  command->add_option("-d,--max-depth", options->max_depth,
                      "Print directories at most so many levels below the URL; their sums have all levels");
  command->add_flag("-c,--total", options->total, "Print the sum of all at the end");
  command->add_flag("-h,--human-readable", options->human, "Show sizes with units, such as 1.5G, in place of KiB");
  command->add_flag("--apparent-size", options->apparent, "Show the sizes of files in place of their storage");
  command->add_flag("-b,--bytes", options->octets, "The same in octets");
  command->add_flag("-l,--count-links", options->count_links, "Count a file as often as it has names in the tree");
  command->add_flag("-x,--one-file-system", options->one_file_system, "Leave out other file systems");
  command->add_flag("--json", options->json, "Print a JSON object for each line, with octets");
  AddJobs(*command, options->jobs);
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Show the storage of a tree", "penstock du -sh nfs://server.example/photos",
             "# Show which directories need most", "penstock du -d 2 nfs://server.example/ | sort -n | tail"});
  return {command, [options] { return PrintUsage(*options); }};
}

Command AddTree(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("tree", "Show the names in trees of an NFS server");
  const auto options = std::make_shared<TreePrintOptions>();
  command->set_help_flag("--help", "Print this help message and exit");
  command->add_option("URL", options->urls, "Directories")->required();
  command->add_flag("-a", options->all, "Show also names that begin with a dot");
  command->add_flag("-d", options->directories, "Show only directories");
  command->add_option("-L,--level", options->max_depth, "Show at most so many levels below the URL")
      ->check(CLI::Range(1u, 4096u));
  command->add_flag("-s", options->sizes, "Show sizes");
  command->add_flag("-h", options->human, "With -s: show sizes with units, such as 1.5G");
  AddJobs(*command, options->jobs);
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Show two levels of a tree", "penstock tree -L 2 nfs://server.example/photos",
             "# Show its directories, over RDMA", "penstock tree -d 'nfs://server.example/photos?proto=rdma'"});
  return {command, [options] { return PrintTree(*options); }};
}

}  // namespace penstock::cli
