// penstock find: searches trees of a server.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <ctime>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attributes_json.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/dates.h"
#include "cli/find_filter.h"
#include "cli/host_owners.h"
#include "cli/interface.h"
#include "cli/list_line.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "cli/url_path.h"
#include "cli/walk.h"
#include "client/url.h"

namespace penstock::cli {
namespace {

using client::Result;

struct FindOptions : ClientOptions {
  std::vector<std::string> urls;
  FindFilter filter;
  std::vector<std::string> sizes;
  std::vector<std::string> minutes;
  std::vector<std::string> days;
  std::string newer;
  std::vector<std::string> prune;
  unsigned min_depth = 0;
  unsigned max_depth = std::numeric_limits<unsigned>::max();
  bool empty = false;
  bool zero = false;
  bool as_urls = false;
  bool long_format = false;
  bool json = false;
  bool deletes = false;  // in place of printing
  unsigned jobs = 8;
  OwnerOptions owners;
};

// Searches one tree.
class Finder {
 public:
  // `text` is the URL as it was given.
  Finder(ClientRuntime& runtime, const Mounted& at, const FindOptions& options, HostOwners& owners, std::string text)
      : runtime_(runtime), at_(at), options_(options), owners_(owners), url_(std::move(text)) {}

  Task<Result<void>> Run();

 private:
  // Whether a directory is considered behind its entries.
  bool is_late() const { return options_.empty || options_.deletes; }
  bool IsInFileSystem(const client::Entry& entry) const;
  Task<void> Visit(const WalkedEntry& entry);
  Task<void> Leave(const WalkedEntry& directory);
  Task<void> Consider(const WalkedEntry& found);
  Task<void> Delete(const WalkedEntry& found);
  void PrintFound(const WalkedEntry& found, const client::Entry& entry);

  ClientRuntime& runtime_;
  const Mounted& at_;
  const FindOptions& options_;
  HostOwners& owners_;
  const std::string url_;
  const bool printable_ = OutputIsTerminal();
  const int64_t now_ = std::time(nullptr);
  // For --empty: the numbers of entries of the directories from the start to the present one.
  std::vector<size_t> entries_;
  client::Node start_;
  Result<void> printed_{};
};

Task<Result<void>> Finder::Run() {
  PENSTOCK_CO_TRY(start_, co_await at_.Resolve(false));
  WalkOptions walk;
  // What belongs to another file system stays.
  walk.follow_referrals = !options_.deletes;
  walk.jobs = options_.jobs;
  walk.sort = [this](std::vector<client::Entry>& entries) {
    std::erase_if(entries, [this](const client::Entry& entry) { return MatchesAny(options_.prune, entry.name); });
    SortByName(entries);
  };
  // --empty must list the directories of the last level as well.
  walk.descend = [this](const client::Entry& entry, unsigned depth) {
    if (options_.deletes && !IsInFileSystem(entry)) return false;
    return options_.empty ? depth <= options_.max_depth : depth < options_.max_depth;
  };
  const WalkHandlers handlers{.visit = [this](const WalkedEntry& entry) { return Visit(entry); },
                              .leave = [this](const WalkedEntry& directory) { return Leave(directory); },
                              .report =
                                  [this](const client::Error& error) {
                                    // It may have entries.
                                    if (!entries_.empty()) ++entries_.back();
                                    runtime_.Report(error);
                                  }};
  const std::string trimmed = at_.server_path.substr(0, at_.server_path.find_last_not_of('/') + 1);
  std::string name = trimmed.substr(trimmed.rfind('/') + 1);
  co_await Walk(at_, start_, std::move(name), std::move(walk), handlers);
  co_return printed_;
}

bool Finder::IsInFileSystem(const client::Entry& entry) const {
  return !entry.is_referral && entry.attributes && entry.attributes->file_system == start_.attributes.file_system;
}

Task<void> Finder::Visit(const WalkedEntry& entry) {
  if (!entries_.empty()) ++entries_.back();
  if (entry.enters) entries_.push_back(0);
  if (!printed_ || (is_late() && entry.enters)) co_return;
  const auto& attributes = entry.entry.attributes;
  const bool is_empty_file = attributes && attributes->type == client::FileType::kRegular && attributes->size == 0;
  if (!options_.empty || is_empty_file) co_await Consider(entry);
}

Task<void> Finder::Leave(const WalkedEntry& directory) {
  const bool is_empty = entries_.back() == 0;
  entries_.pop_back();
  if (is_late() && (is_empty || !options_.empty) && printed_) co_await Consider(directory);
}

// Prints or deletes the entry if it passes all tests.
Task<void> Finder::Consider(const WalkedEntry& found) {
  if (found.depth < options_.min_depth || found.depth > options_.max_depth) co_return;
  client::Entry entry = found.entry;
  const bool shows_owners = options_.long_format || options_.json;
  if (entry.attributes && options_.filter.needs_owners()) co_await owners_.Localize(*entry.attributes);
  if (!options_.filter.Matches(entry, found.path, now_)) co_return;
  if (options_.deletes) {
    co_await Delete(found);
    co_return;
  }
  if (entry.attributes && shows_owners && !options_.filter.needs_owners()) co_await owners_.Localize(*entry.attributes);
  PrintFound(found, entry);
}

Task<void> Finder::Delete(const WalkedEntry& found) {
  client::Mount& mount = *at_.mount;
  const bool is_start = found.depth == 0;
  // The root of an export stays.
  if (is_start && (start_.name.empty() || start_.handle == mount.root())) co_return;
  const client::Handle directory = is_start ? start_.directory : found.directory;
  const std::string name = is_start ? start_.name : found.entry.name;
  const std::string named = JoinPath(at_.name, found.path);
  if (!IsInFileSystem(found.entry)) {
    runtime_.Report({named + ": it belongs to another file system, and stays", std::nullopt, EXDEV});
    co_return;
  }
  Result<void> removed;
  if (IsDirectory(*found.entry.attributes)) {
    removed = co_await mount.RemoveDirectory(directory, name);
  } else {
    removed = co_await mount.Remove(directory, name);
  }
  if (removed || removed.error().status == client::Status::kNotFound) {
    if (!entries_.empty()) --entries_.back();
    co_return;
  }
  client::Error error = removed.error();
  if (error.message.starts_with(name + ": ")) error.message.replace(0, name.size(), named);
  runtime_.Report(at_.Named(std::move(error)));
}

void Finder::PrintFound(const WalkedEntry& found, const client::Entry& entry) {
  const std::string path = JoinPath(at_.server_path, found.path);
  const char end = options_.zero ? '\0' : '\n';
  if (options_.json) {
    printed_ = WriteOutput(JsonLine(EntryJson(path, entry)));
    return;
  }
  if (options_.as_urls) {
    // The options of the given URL stay behind the path.
    const size_t query = url_.find('?');
    const std::string options = query == url_.npos ? "" : url_.substr(query);
    const std::string text = JoinPath(url_.substr(0, query), EncodePath(found.path));
    printed_ = WriteOutput(text + options + end);
    return;
  }
  if (options_.long_format) {
    client::Entry named = entry;
    named.name = path;
    const ListFormat format{.long_format = true, .file_ids = true, .printable = printable_, .now = now_};
    const ListColumns columns{.file_id = 10, .links = 3, .owner = 8, .group = 8, .size = 10};
    printed_ = WriteOutput(ListLine(named, format, columns) + end);
    return;
  }
  printed_ = WriteOutput((printable_ ? Printable(path) : path) + end);
}

// Parses bounds. Returns the first text that is none.
std::optional<std::string> ParseBounds(const std::vector<std::string>& texts, std::vector<Bound>& bounds) {
  for (const std::string& text : texts) {
    const auto bound = ParseBound(text);
    if (!bound) return text;
    bounds.push_back(*bound);
  }
  return std::nullopt;
}

int Find(FindOptions options) {
  if (const auto wrong = PrintWrongDomain(options.owners)) return *wrong;
  std::string types;
  for (const char letter : options.filter.types) {
    if (letter == ',') continue;
    if (!std::string_view("fdlbcsp").contains(letter)) {
      return PrintUsageError(fmt::format("--type {}: a type is one of f d l b c s p", options.filter.types));
    }
    types += letter;
  }
  options.filter.types = types;
  auto wrong = ParseBounds(options.sizes, options.filter.sizes);
  if (!wrong) wrong = ParseBounds(options.minutes, options.filter.minutes);
  if (!wrong) wrong = ParseBounds(options.days, options.filter.days);
  if (wrong) return PrintUsageError(*wrong + ": not a number with + for more, - for less, or no sign for equal");
  if (!options.newer.empty()) {
    options.filter.newer_than = ParseDate(options.newer);
    if (!options.filter.newer_than) {
      return PrintUsageError(options.newer + ": neither a date such as \"2026-11-28 02:15\" nor @SECONDS since 1970");
    }
  }
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        HostOwners owners(runtime, options.owners);
        size_t next = 0;
        for (const client::Url& url : urls) {
          const std::string& text = options.urls[next++];
          const auto at = co_await mounts.At(url);
          if (!at) {
            runtime.Report(at.error());
            continue;
          }
          Finder finder(runtime, *at, options, owners, text);
          const auto found = co_await finder.Run();
          if (!found) runtime.Report(found.error());
        }
        co_return Result<void>();
      });
}

}  // namespace

Command AddFind(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("find", "Search trees of an NFS server");
  const auto options = std::make_shared<FindOptions>();
  FindFilter& filter = options->filter;
  command->add_option("URL", options->urls, "The directories at which the search begins")->required();
  command->add_option("--name", filter.names, "Names that match this pattern of *, ? and [...]; of several, one")
      ->allow_extra_args(false);
  command->add_option("--iname", filter.names_of_any_case, "The same, with letters of either case")
      ->allow_extra_args(false);
  command
      ->add_option("--path", filter.paths,
                   "Objects whose path below the URL matches this pattern, in which * matches slashes as well")
      ->allow_extra_args(false);
  command->add_option("--prune", options->prune, "Leave out names that match this pattern, and what is below them")
      ->allow_extra_args(false);
  command->add_option("--type", filter.types,
                      "f: files, d: directories, l: symbolic links, b and c: devices, s: sockets, p: FIFOs; several\n"
                      "letters: one of them");
  command
      ->add_option("--size", options->sizes,
                   "Objects of so many octets; +SIZE: of more, -SIZE: of less. A unit such as K, M or G may follow")
      ->allow_extra_args(false);
  command->add_option("--mtime", options->days, "Objects that were modified N days ago; +N: before, -N: later")
      ->allow_extra_args(false);
  command->add_option("--mmin", options->minutes, "The same in minutes")->allow_extra_args(false);
  command->add_option("--newermt", options->newer,
                      "Objects that were modified after this time, such as \"2026-11-28 02:15\" or @SECONDS");
  command->add_option("--user", filter.owners, "Objects of this owner, as ls -l shows it")->allow_extra_args(false);
  command->add_option("--group", filter.groups, "Objects of this group, as ls -l shows it")->allow_extra_args(false);
  command->add_flag("--empty", options->empty, "Files without octets, and directories without entries");
  command->add_option("--mindepth", options->min_depth, "Objects at least so many levels below the URL");
  command->add_option("--maxdepth", options->max_depth, "Objects at most so many levels below the URL");
  CLI::Option* const ls = command->add_flag("--ls", options->long_format, "Print lines as ls -li does");
  CLI::Option* const json =
      command->add_flag("--json", options->json, "Print a JSON object with all attributes for each object")
          ->excludes(ls);
  command->add_flag("--url", options->as_urls, "Print URLs with the options of the given URL")
      ->excludes(ls)
      ->excludes(json);
  command->add_flag("-0,--print0", options->zero, "End each name with a NUL octet in place of a line break");
  command
      ->add_flag(
          "--delete", options->deletes,
          "Delete the objects in place of printing them, a directory behind its entries. It must be empty then.\n"
          "The root of an export stays, and so does what belongs to another file system")
      ->excludes(ls)
      ->excludes(json);
  command->add_option("--jobs", options->jobs, "The number of directories that are listed at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  AddDomainOption(*command, options->owners);
  AddClientOptions(*command, *options);
  SetFooter(*command,
            "Prints the paths on the server of all objects that pass all tests, a directory before its entries.",
            {"# Find large files that were not modified for a year",
             "penstock find nfs://server.example/photos --type f --size +1G --mtime +365", "# Remove backup files",
             "penstock find nfs://server.example/src --type f --name '*~' --delete", "# Read all C files",
             "penstock find nfs://server.example/src --name '*.c' --url -0 | xargs -0 -r penstock cat"});
  return {command, [options] { return Find(*options); }};
}

}  // namespace penstock::cli
