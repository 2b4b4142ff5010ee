// The commands that change attributes: chmod, chown, touch, truncate.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/dates.h"
#include "cli/host_owners.h"
#include "cli/interface.h"
#include "cli/modes.h"
#include "cli/mounts.h"
#include "cli/sizes.h"
#include "cli/walk.h"

namespace penstock::cli {
namespace {

using client::NewAttributes;
using client::Result;

// ---- trees ----

// The new attributes for an object, or nothing if it stays as it is.
using Change = std::function<std::optional<NewAttributes>(const client::Attributes&)>;

struct TreeOptions : ClientOptions {
  std::vector<std::string> urls;
  bool recursive = false;
  unsigned jobs = 16;
};

void AddTreeOptions(CLI::App& command, TreeOptions& options) {
  command.add_flag("-R,--recursive", options.recursive,
                   "Change directories and all that is in them. Symbolic links are not followed");
  command.add_option("--jobs", options.jobs, "With -R: the number of objects that are changed at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  AddClientOptions(command, options);
}

Task<Result<void>> ChangeEntry(const Mounted& at, const client::Handle& directory, std::string name,
                               const std::string& path, const Change& change) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.mount->Lookup(directory, name));
  const auto attributes = change(node.attributes);
  if (!attributes) co_return Result<void>();
  co_return co_await at.mount->SetAttributes(node.handle, path, *attributes);
}

// Changes a directory before the walk lists it, since the change may be what lets the caller list it.
Task<Result<void>> ChangeTree(ClientRuntime& runtime, const Mounted& at, client::Node root, const Change& change,
                              unsigned jobs) {
  DirectoryWalk directories(at, std::move(root), {.jobs = 0, .sort = {}, .descend = {}, .follow_referrals = false});
  for (;;) {
    const auto directory = co_await directories.Next();
    if (!directory) co_return Result<void>();
    if (directory->error) runtime.Report(*directory->error);
    const auto change_entry = [&](size_t index) -> Task<void> {
      const client::Entry& entry = directory->entries[index];
      if (entry.is_referral) co_return;
      const std::string path = JoinPath(JoinPath(at.name, directory->path), entry.name);
      const auto changed = co_await ChangeEntry(at, directory->node.handle, entry.name, path, change);
      if (changed) co_return;
      client::Error error = changed.error();
      if (error.message.starts_with(entry.name + ": ")) error.message.replace(0, entry.name.size(), path);
      runtime.Report(at.Named(std::move(error)));
    };
    co_await ForEachIndex(directory->entries.size(), jobs, change_entry);
  }
}

Task<Result<void>> ChangeOne(ClientRuntime& runtime, const Mounted& at, const TreeOptions& options, bool follow,
                             const Change& change) {
  PENSTOCK_CO_TRY(client::Node node, co_await at.Resolve(follow));
  const auto attributes = change(node.attributes);
  if (attributes) PENSTOCK_CO_CHECK(co_await at.mount->SetAttributes(node.handle, at.name, *attributes));
  if (!options.recursive || !IsDirectory(node.attributes)) co_return Result<void>();
  co_return co_await ChangeTree(runtime, at, std::move(node), change, options.jobs);
}

// ---- chmod ----

struct ChangeModeOptions : TreeOptions {
  std::string mode;
};

int ChangeMode(const ChangeModeOptions& options) {
  const auto mode = ModeChange::Parse(options.mode);
  if (!mode) return PrintUsageError(WrongMode(options.mode));
  const uint32_t umask = ProcessUmask();
  const Change change = [&](const client::Attributes& attributes) -> std::optional<NewAttributes> {
    if (attributes.type == client::FileType::kSymlink) return std::nullopt;
    NewAttributes changed;
    changed.mode = mode->Apply(attributes.mode, IsDirectory(attributes), umask);
    return changed;
  };
  return RunOnMounts(options.urls, options, [&](ClientRuntime& runtime, const Mounted& at) {
    return ChangeOne(runtime, at, options, true, change);
  });
}

// ---- chown ----

struct ChangeOwnerOptions : TreeOptions {
  std::string owners;
  bool no_dereference = false;
  OwnerOptions names;
};

Task<Result<void>> ChangeOwners(ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls,
                                const ChangeOwnerOptions& options) {
  const size_t colon = options.owners.find(':');
  const std::string owner = options.owners.substr(0, colon);
  const std::string group = colon == options.owners.npos ? "" : options.owners.substr(colon + 1);
  co_await runtime.MapOwners(options.names.nfs4_domain);
  HostOwners names(runtime, options.names);
  const auto find = [&](idmap::Kind kind, std::string name, std::optional<std::string>& number) -> Task<Result<void>> {
    if (name.empty()) co_return Result<void>();
    auto found = co_await names.NumberOf(kind, std::move(name));
    if (!found) {
      client::Error error = std::move(found).error();
      error.message = fmt::format("chown {}: {}", options.owners, error.message);
      co_return std::unexpected(std::move(error));
    }
    number = *std::move(found);
    co_return Result<void>();
  };
  NewAttributes changed;
  PENSTOCK_CO_CHECK(co_await find(idmap::Kind::kUser, owner, changed.owner));
  PENSTOCK_CO_CHECK(co_await find(idmap::Kind::kGroup, group, changed.group));
  const Change change = [&](const client::Attributes&) { return std::optional(changed); };
  const bool follow = !options.no_dereference && !options.recursive;
  const UseMount use = [&](ClientRuntime& where, const Mounted& at) {
    return ChangeOne(where, at, options, follow, change);
  };
  co_return co_await ForEachMounted(runtime, mounts, urls, use);
}

int ChangeOwner(ChangeOwnerOptions options) {
  if (const auto wrong = PrintWrongDomain(options.names)) return *wrong;
  if (options.owners.empty() || options.owners == ":") {
    return PrintUsageError("chown: OWNER is a user, a user and a group as USER:GROUP, or a group as :GROUP");
  }
  return RunWithMounts(options.urls, options,
                       [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) {
                         return ChangeOwners(runtime, mounts, urls, options);
                       });
}

// ---- new files ----

// Returns the object, which is made as an empty file if it does not exist. Returns nothing in place of making it.
Task<Result<std::optional<client::Node>>> FindOrCreate(const Mounted& at, bool follow, bool no_create) {
  auto node = co_await at.Resolve(follow);
  if (node) co_return *std::move(node);
  if (node.error().status != client::Status::kNotFound) co_return std::unexpected(std::move(node).error());
  if (no_create) co_return std::nullopt;
  PENSTOCK_CO_TRY(const client::Mount::Place place, co_await at.ResolvePlace());
  const uint32_t mode = 0666 & ~ProcessUmask();
  const auto how = client::CreateMode::kKeep;
  PENSTOCK_CO_TRY(const auto file, co_await at.mount->CreateFile(place.directory, place.name, mode, how));
  client::Node made = file->node();
  PENSTOCK_CO_CHECK(co_await file->Close());
  co_return made;
}

// ---- touch ----

struct TouchOptions : ClientOptions {
  std::vector<std::string> urls;
  bool no_create = false;
  bool accessed = false;
  bool modified = false;
  bool no_dereference = false;
  std::string date;
  std::string reference;  // a local file or a URL
};

// The times to set. Absent: the time of the server.
struct NewTimes {
  std::optional<client::Time> accessed{};
  std::optional<client::Time> modified{};
};

Result<NewTimes> TimesOfLocalFile(const std::string& name) {
  struct stat status{};
  if (::stat(name.c_str(), &status) != 0) {
    return std::unexpected(client::Error{fmt::format("{}: {}", name, DescribeErrno(errno)), std::nullopt, errno});
  }
  const auto time_of = [](const timespec& time) {
    return client::Time{time.tv_sec, static_cast<uint32_t>(time.tv_nsec)};
  };
  return NewTimes{time_of(status.st_atim), time_of(status.st_mtim)};
}

Task<Result<void>> TouchOne(const Mounted& at, const TouchOptions& options, const NewTimes& times) {
  PENSTOCK_CO_TRY(const auto node, co_await FindOrCreate(at, !options.no_dereference, options.no_create));
  if (!node) co_return Result<void>();
  using SetTime = std::variant<client::ServerTime, client::Time>;
  const auto to_set = [](const std::optional<client::Time>& time) {
    return time ? SetTime(*time) : SetTime(client::ServerTime());
  };
  NewAttributes changed;
  if (options.accessed || !options.modified) changed.accessed = to_set(times.accessed);
  if (options.modified || !options.accessed) changed.modified = to_set(times.modified);
  co_return co_await at.mount->SetAttributes(node->handle, at.name, changed);
}

Task<Result<void>> TouchAll(ClientRuntime& runtime, Mounts& mounts, std::vector<client::Url> urls,
                            const TouchOptions& options, NewTimes times) {
  if (client::Url::LooksLikeOne(options.reference)) {
    // The reference is behind the others.
    PENSTOCK_CO_TRY(const Mounted reference, co_await mounts.At(urls.back()));
    urls.pop_back();
    PENSTOCK_CO_TRY(const client::Node node, co_await reference.Resolve());
    times = {node.attributes.accessed, node.attributes.modified};
  }
  const UseMount use = [&](ClientRuntime&, const Mounted& at) { return TouchOne(at, options, times); };
  co_return co_await ForEachMounted(runtime, mounts, urls, use);
}

int Touch(const TouchOptions& options) {
  NewTimes times;
  if (!options.date.empty()) {
    const auto date = ParseDate(options.date);
    if (!date) {
      return PrintUsageError(options.date + ": neither a date such as \"2026-11-28 02:15\" nor @SECONDS since 1970");
    }
    times = {*date, *date};
  }
  std::vector<std::string> urls = options.urls;
  if (client::Url::LooksLikeOne(options.reference)) {
    urls.push_back(options.reference);
  } else if (!options.reference.empty()) {
    const auto read = TimesOfLocalFile(options.reference);
    if (!read) return PrintError(read.error().message);
    times = *read;
  }
  return RunWithMounts(urls, options,
                       [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& parsed) {
                         return TouchAll(runtime, mounts, parsed, options, times);
                       });
}

// ---- truncate ----

struct TruncateOptions : ClientOptions {
  std::vector<std::string> urls;
  std::string size;
  bool no_create = false;
};

// The new size of a file that has `size` octets, or nothing if it has more than 64 bits. `how` is one of + - < > / % =.
std::optional<uint64_t> NewSize(char how, uint64_t number, uint64_t size) {
  uint64_t sum = 0;
  switch (how) {
    case '+':
      if (__builtin_add_overflow(size, number, &sum)) return std::nullopt;
      return sum;
    case '-':
      return size - std::min(size, number);
    case '<':
      return std::min(size, number);
    case '>':
      return std::max(size, number);
    case '/':
      return size / number * number;
    case '%':
      if (size % number == 0) return size;
      if (__builtin_add_overflow(size, number - size % number, &sum)) return std::nullopt;
      return sum;
    default:
      return number;
  }
}

Task<Result<void>> TruncateOne(const Mounted& at, const TruncateOptions& options, char how, uint64_t number) {
  PENSTOCK_CO_TRY(const auto node, co_await FindOrCreate(at, true, options.no_create));
  if (!node) co_return Result<void>();
  PENSTOCK_CO_CHECK(client::CheckRegular(*node, at.name));
  NewAttributes changed;
  changed.size = NewSize(how, number, node->attributes.size);
  if (!changed.size) co_return std::unexpected(client::Error{at.name + ": file too large", std::nullopt, EFBIG});
  co_return co_await at.mount->SetAttributes(node->handle, at.name, changed);
}

int Truncate(const TruncateOptions& options) {
  std::string_view text = options.size;
  char how = '=';
  if (!text.empty() && std::string_view("+-<>/%").contains(text.front())) {
    how = text.front();
    text.remove_prefix(1);
  }
  const auto number = ParseSize(text);
  if (!number || ((how == '/' || how == '%') && *number == 0)) {
    return PrintUsageError(options.size + ": not a size such as 4096, 1M, +1G or -512");
  }
  return RunOnMounts(options.urls, options,
                     [&](ClientRuntime&, const Mounted& at) { return TruncateOne(at, options, how, *number); });
}

}  // namespace

Command AddChangeMode(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("chmod", "Set the mode of files on an NFS server");
  const auto options = std::make_shared<ChangeModeOptions>();
  command->add_option("MODE", options->mode, "The new mode in octal, or changes such as u+x,g=rw or a+rX")->required();
  command->add_option("URL", options->urls, "The files or directories")->required();
  AddTreeOptions(*command, *options);
  SetFooter(*command, "",
            {"# Let only the owner read and write a file", "penstock chmod 600 nfs://server.example/key",
             "# Let everybody read a tree", "penstock chmod -R a+rX nfs://server.example/photos"});
  return {command, [options] { return ChangeMode(*options); }};
}

Command AddChangeOwner(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("chown", "Set owner and group of files on an NFS server");
  const auto options = std::make_shared<ChangeOwnerOptions>();
  command->set_help_flag("--help", "Print this help message and exit");
  command
      ->add_option("OWNER", options->owners,
                   "The user, USER:GROUP, or :GROUP. Each is a number, a name of this host, or NAME@DOMAIN, which the\n"
                   "server must know")
      ->required();
  command->add_option("URL", options->urls, "The files or directories")->required();
  command->add_flag("-h,--no-dereference", options->no_dereference,
                    "Change a symbolic link itself; it is always so with -R");
  AddDomainOption(*command, options->names);
  AddTreeOptions(*command, *options);
  SetFooter(*command, "",
            {"# Give a file to a user and a group", "penstock chown ann:staff nfs://server.example/notes.txt",
             "# Give a tree to a group", "penstock chown -R :1000 nfs://server.example/photos"});
  return {command, [options] { return ChangeOwner(*options); }};
}

Command AddTouch(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("touch", "Make files on an NFS server, or set their times");
  const auto options = std::make_shared<TouchOptions>();
  command->add_option("URL", options->urls, "The files. A file that does not exist is made")->required();
  command->add_flag("-c,--no-create", options->no_create, "Make no file");
  command->add_flag("-a", options->accessed, "Set only the time of the last access");
  command->add_flag("-m", options->modified, "Set only the time of the last change");
  command->set_help_flag("--help", "Print this help message and exit");
  command->add_flag("-h,--no-dereference", options->no_dereference, "Set the times of a symbolic link itself");
  CLI::Option* const date = command->add_option(
      "-d,--date", options->date,
      "Set this time, such as \"2026-11-28 02:15\" in the local time zone, 2026-11-28T02:15:00Z, or\n"
      "@SECONDS since 1970. By default it is the server's time");
  command->add_option("-r,--reference", options->reference, "Set the times of this file, which is local or a URL")
      ->excludes(date);
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Make an empty file", "penstock touch nfs://server.example/done", "# Set the time of the last change",
             "penstock touch -m -d '2026-11-28 02:15' nfs://server.example/notes.txt"});
  return {command, [options] { return Touch(*options); }};
}

Command AddTruncate(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("truncate", "Set the size of files on an NFS server");
  const auto options = std::make_shared<TruncateOptions>();
  command->add_option("URL", options->urls, "The files. A file that does not exist is made")->required();
  command
      ->add_option("-s,--size", options->size,
                   "The new size in octets, with a unit such as K, M or G (powers of 1024) or KB, MB or GB (powers of\n"
                   "1000). Before the number, + adds, - takes away, < makes at most, > makes at least, / rounds down\n"
                   "to a multiple, and % rounds up to a multiple")
      ->required();
  command->add_flag("-c,--no-create", options->no_create, "Make no file");
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Make a file of 10 GiB without data", "penstock truncate -s 10G nfs://server.example/disk.img",
             "# Cut off the last KiB of a file", "penstock truncate --size=-1K nfs://server.example/log"});
  return {command, [options] { return Truncate(*options); }};
}

}  // namespace penstock::cli
