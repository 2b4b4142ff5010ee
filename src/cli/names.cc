// The commands that make and change names: mkdir, mv, ln.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/modes.h"
#include "cli/mounts.h"
#include "cli/walk.h"
#include "client/url.h"

namespace penstock::cli {
namespace {

using client::Mount;
using client::Result;

bool IsMissing(const client::Error& error) { return error.status == client::Status::kNotFound; }

// ---- the target of mv and ln ----

// Returns the text of a target, a path on the server of `source` or a URL, as a place of the same mount.
Task<Result<Mounted>> TargetOf(Mounts& mounts, const Mounted& source, std::string text,
                               const std::optional<client::Url>& url) {
  if (url) {
    PENSTOCK_CO_TRY(Mounted target, co_await mounts.At(*url));
    if (target.mount == source.mount) co_return target;
    constexpr auto kWhy = "it is on another server or in another export than the source, or has other options";
    co_return std::unexpected(client::Error{fmt::format("{}: {}", target.name, kWhy), std::nullopt, EXDEV});
  }
  const auto below = text.starts_with('/') ? source.mount->PathBelowRoot(text) : std::nullopt;
  if (!below) {
    co_return std::unexpected(
        client::Error{fmt::format("{}: not a path below the mounted export", text), std::nullopt, EINVAL});
  }
  client::Url named = source.mount->url();
  named.path = text;
  co_return Mounted{source.mount, *below, text, NameOf(named)};
}

// Returns the entry `name` of the target if the target is a directory, and otherwise the target itself, unless it must
// be a directory.
Task<Result<Mount::Place>> PlaceOf(const Mounted& target, std::string name, bool must_be_directory,
                                   bool follow = true) {
  const auto there = co_await target.Resolve(follow);
  if (there && IsDirectory(there->attributes)) co_return Mount::Place{there->handle, name};
  if (!there && (must_be_directory || !IsMissing(there.error()))) co_return std::unexpected(there.error());
  if (must_be_directory) co_return std::unexpected(client::ErrorOf(client::Status::kNotDirectory, target.name));
  co_return co_await target.ResolvePlace();
}

// ---- mkdir ----

struct MakeDirectoryOptions : ClientOptions {
  std::vector<std::string> urls;
  std::string mode = "755";
  bool parents = false;
};

Task<Result<void>> MakeOne(const Mounted& at, uint32_t mode) {
  PENSTOCK_CO_TRY(const Mount::Place place, co_await at.ResolvePlace());
  const auto made = co_await at.mount->MakeDirectory(place.directory, place.name, mode);
  if (!made) co_return std::unexpected(made.error());
  co_return Result<void>();
}

// Makes the directory and those above it that do not exist. Another client may make them at the same time.
Task<Result<void>> MakeWithParents(const Mounted& at, uint32_t mode) {
  const std::string path = at.path.substr(0, at.path.find_last_not_of('/') + 1);
  Mounted part = at;
  size_t end = 0;
  do {
    end = path.find('/', path.find_first_not_of('/', end));
    part.path = path.substr(0, end);
    auto there = co_await part.mount->Resolve(part.path);
    if (!there && IsMissing(there.error())) {
      const uint32_t its_mode = end == path.npos ? mode : 0755;
      const auto made = co_await MakeOne(part, its_mode);
      if (!made && made.error().status != client::Status::kExists) co_return made;
      there = co_await part.mount->Resolve(part.path);
    }
    if (!there) co_return std::unexpected(part.Named(there.error()));
    if (!IsDirectory(there->attributes)) {
      // Above the last name, a file is in the way.
      const auto status = end == path.npos ? client::Status::kExists : client::Status::kNotDirectory;
      co_return std::unexpected(client::ErrorOf(status, at.name));
    }
  } while (end != path.npos);
  co_return Result<void>();
}

int MakeDirectory(const MakeDirectoryOptions& options) {
  const auto change = ModeChange::Parse(options.mode);
  if (!change) return PrintUsageError(WrongMode(options.mode));
  const uint32_t mode = change->Apply(0777, true, ProcessUmask());
  return RunOnMounts(options.urls, options, [&](ClientRuntime&, const Mounted& at) {
    return options.parents ? MakeWithParents(at, mode) : MakeOne(at, mode);
  });
}

// ---- mv ----

struct MoveOptions : ClientOptions {
  std::vector<std::string> names;  // the sources, and the target at the end
  bool no_clobber = false;
};

// Renames without replacing anything. A directory replaces at most an empty directory that another client makes now.
Task<Result<void>> RenameToNew(Mount& mount, const client::Node& node, const Mount::Place& from,
                               const Mount::Place& to) {
  if (!IsDirectory(node.attributes)) {
    PENSTOCK_CO_CHECK(co_await mount.Link(node.handle, to.directory, to.name));
    co_return co_await mount.Remove(from.directory, from.name);
  }
  const auto there = co_await mount.Lookup(to.directory, to.name);
  if (there) co_return std::unexpected(client::ErrorOf(client::Status::kExists, to.name));
  if (!IsMissing(there.error())) co_return std::unexpected(there.error());
  co_return co_await mount.Rename(from.directory, from.name, to.directory, to.name);
}

// The arguments of mv and ln.
struct Targeted {
  std::string target;              // as it was given
  std::optional<client::Url> url;  // of the target
  std::vector<client::Url> sources;
  bool many() const { return sources.size() > 1; }
};

// Splits parsed URLs: those of the sources, and that of the target if it is one.
Targeted Split(std::string target, std::vector<client::Url> urls) {
  Targeted split{.target = std::move(target), .url = {}, .sources = std::move(urls)};
  if (client::Url::LooksLikeOne(split.target)) {
    split.url = std::move(split.sources.back());
    split.sources.pop_back();
  }
  return split;
}

// Runs `use` with each source and the target, and goes on after an error.
using UsePair = std::function<Task<Result<void>>(const Mounted& from, const Mounted& to)>;
Task<Result<void>> ForEachSource(ClientRuntime& runtime, Mounts& mounts, Targeted arguments, UsePair use) {
  for (const client::Url& url : arguments.sources) {
    const auto from = co_await mounts.At(url);
    if (!from) {
      runtime.Report(from.error());
      continue;
    }
    const auto to = co_await TargetOf(mounts, *from, arguments.target, arguments.url);
    if (!to) {
      runtime.Report(to.error());
      continue;
    }
    const auto done = co_await use(*from, *to);
    if (!done) runtime.Report(done.error());
  }
  co_return Result<void>();
}

bool AreSame(const client::Node& one, const client::Node& other) {
  return one.handle == other.handle || client::AreOneFile(one.attributes, other.attributes);
}

// Fails if both places are names of one file: a rename would do nothing, and succeed (RFC 1813 §3.3.14, RFC 8881
// §18.26.3). A server that ignores case finds the file by a name that it does not have yet.
Task<Result<void>> CheckNotTheSame(Mount& mount, const client::Node& node, const Mount::Place& from,
                                   const Mount::Place& to, const std::string& to_name) {
  const bool is_itself = from.directory == to.directory && from.name == to.name;
  if (!is_itself && node.attributes.links < 2) co_return Result<void>();
  const auto there = co_await mount.Lookup(to.directory, to.name);
  if (!there || !AreSame(*there, node)) co_return Result<void>();
  co_return std::unexpected(client::Error{fmt::format("it and {} are the same file", to_name), std::nullopt, EINVAL});
}

Task<Result<void>> MoveOne(const Mounted& at, const Mounted& to, const MoveOptions& options, bool many) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve(false));
  PENSTOCK_CO_TRY(const Mount::Place from, co_await at.ResolvePlace());
  PENSTOCK_CO_TRY(const Mount::Place place, co_await PlaceOf(to, from.name, many));
  const auto differ = co_await CheckNotTheSame(*at.mount, node, from, place, to.name);
  if (!differ) co_return std::unexpected(at.Named(differ.error()));
  Task<Result<void>> rename = options.no_clobber
                                  ? RenameToNew(*at.mount, node, from, place)
                                  : at.mount->Rename(from.directory, from.name, place.directory, place.name);
  Result<void> renamed = co_await std::move(rename);
  if (!renamed && renamed.error().status == client::Status::kInvalid && IsDirectory(node.attributes)) {
    const client::Error below{fmt::format("a directory cannot be moved into itself: {}", to.name),
                              client::Status::kInvalid, EINVAL};
    co_return std::unexpected(at.Named(below));
  }
  // The target is what a rename finds in its way.
  if (!renamed && renamed.error().message.starts_with(place.name + ": ")) {
    co_return std::unexpected(to.Named(std::move(renamed).error()));
  }
  if (!renamed) co_return std::unexpected(at.Named(std::move(renamed).error()));
  co_return renamed;
}

// Runs a command whose last name is the target and may be a URL.
int RunWithTarget(const std::vector<std::string>& names, const ClientOptions& options,
                  const std::function<UsePair(bool many)>& use) {
  const std::string& target = names.back();
  std::vector<std::string> urls(names.begin(), names.end());
  if (!client::Url::LooksLikeOne(target)) urls.pop_back();
  return RunWithMounts(urls, options,
                       [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& parsed) {
                         Targeted arguments = Split(target, parsed);
                         const bool many = arguments.many();
                         return ForEachSource(runtime, mounts, std::move(arguments), use(many));
                       });
}

int Move(const MoveOptions& options) {
  return RunWithTarget(options.names, options, [&](bool many) -> UsePair {
    return [&options, many](const Mounted& from, const Mounted& to) { return MoveOne(from, to, options, many); };
  });
}

// ---- ln ----

struct LinkOptions : ClientOptions {
  std::vector<std::string> names;
  bool symbolic = false;
  bool force = false;
  bool no_dereference = false;
};

// Makes a name by `make`. With --force, an existing name is replaced at once: the new object gets a temporary name.
using MakeName = std::function<Task<Result<void>>(const Mount::Place& place)>;
Task<Result<void>> MakeLink(Mount& mount, Mount::Place place, bool force, MakeName make) {
  Result<void> made = co_await make(place);
  if (made || !force || made.error().status != client::Status::kExists) co_return made;
  const Mount::Place temporary{place.directory, fmt::format(".penstock-{:08x}", std::random_device()())};
  PENSTOCK_CO_CHECK(co_await make(temporary));
  Result<void> renamed = co_await mount.Rename(temporary.directory, temporary.name, place.directory, place.name);
  // After an error, and if both names already were names of one file, the temporary name is left.
  const Result<void> removed = co_await mount.Remove(temporary.directory, temporary.name);
  if (renamed && !removed && !IsMissing(removed.error())) co_return removed;
  co_return renamed;
}

Task<Result<void>> LinkOne(const Mounted& at, const Mounted& to, const LinkOptions& options, bool many) {
  PENSTOCK_CO_TRY(const client::Node file, co_await at.Resolve(false));
  PENSTOCK_CO_TRY(const Mount::Place place, co_await PlaceOf(to, file.name, many, !options.no_dereference));
  const MakeName make = [&](const Mount::Place& where) {
    return at.mount->Link(file.handle, where.directory, where.name);
  };
  const Result<void> made = co_await MakeLink(*at.mount, place, options.force, make);
  if (!made) co_return std::unexpected(to.Named(made.error()));
  co_return made;
}

Task<Result<void>> MakeSymlinkAt(Mount& mount, const Mount::Place& place, const std::string& target) {
  const auto made = co_await mount.MakeSymlink(place.directory, place.name, target);
  if (!made) co_return std::unexpected(made.error());
  co_return Result<void>();
}

Task<Result<void>> LinkSymbolically(const Mounted& to, const LinkOptions& options) {
  const std::string& target = options.names.front();
  const std::string trimmed = target.substr(0, target.find_last_not_of('/') + 1);
  const std::string last = trimmed.substr(trimmed.rfind('/') + 1);
  PENSTOCK_CO_TRY(const Mount::Place place, co_await PlaceOf(to, last, false, !options.no_dereference));
  const MakeName make = [&](const Mount::Place& where) { return MakeSymlinkAt(*to.mount, where, target); };
  co_return co_await MakeLink(*to.mount, place, options.force, make);
}

int Link(const LinkOptions& options) {
  if (!options.symbolic) {
    return RunWithTarget(options.names, options, [&](bool many) -> UsePair {
      return [&options, many](const Mounted& from, const Mounted& to) { return LinkOne(from, to, options, many); };
    });
  }
  if (options.names.size() != 2) return PrintUsageError("ln -s: give the text of the link, and the URL of the link");
  if (options.names.front().empty()) return PrintUsageError("ln -s: the text of the link is empty");
  return RunOnMounts({options.names.back()}, options,
                     [&](ClientRuntime&, const Mounted& to) { return LinkSymbolically(to, options); });
}

}  // namespace

Command AddMakeDirectory(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("mkdir", "Make directories on an NFS server");
  const auto options = std::make_shared<MakeDirectoryOptions>();
  command->add_option("URL", options->urls, "The new directories")->required();
  command->add_option("-m,--mode", options->mode, "The mode of each directory, in octal or as u=rwx,go=rx")
      ->capture_default_str();
  command->add_flag("-p,--parents", options->parents,
                    "Make the directories above as well, with the mode 755. A directory that exists is no error");
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Make a directory, and those above it", "penstock mkdir -p nfs://server.example/photos/2026/11",
             "# Make a directory that only its owner can use",
             "penstock mkdir -m 700 'nfs://server.example/private?proto=rdma'"});
  return {command, [options] { return MakeDirectory(*options); }};
}

Command AddMove(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("mv", "Rename or move files and directories on an NFS server");
  const auto options = std::make_shared<MoveOptions>();
  command
      ->add_option("URL", options->names,
                   "The files or directories, and at the end the target: a path on the same server or a URL. If the\n"
                   "target is a directory, they move into it")
      ->required()
      ->expected(2, CLI::detail::expected_max_vector_size);
  command->add_flag("-n,--no-clobber", options->no_clobber, "Replace nothing: an existing target is an error");
  AddClientOptions(*command, *options);
  SetFooter(
      *command, "",
      {"# Rename a file", "penstock mv nfs://server.example/draft.txt /final.txt", "# Move two files into a directory",
       "penstock mv nfs://server.example/final.txt nfs://server.example/notes.txt /archive"});
  return {command, [options] { return Move(*options); }};
}

Command AddLink(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("ln", "Give files on an NFS server other names, or make a symbolic link");
  const auto options = std::make_shared<LinkOptions>();
  command
      ->add_option("URL", options->names,
                   "The files, and at the end the new name: a path on the same server, a URL, or a directory. With\n"
                   "-s, the text of the link, and the URL of the link")
      ->required()
      ->expected(2, CLI::detail::expected_max_vector_size);
  command->add_flag("-s,--symbolic", options->symbolic, "Make a symbolic link");
  command->add_flag("-f,--force", options->force, "Replace an existing name");
  command->add_flag("-n,--no-dereference", options->no_dereference,
                    "A new name that is a symbolic link to a directory is the name itself, not the directory");
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Give a file a second name", "penstock ln nfs://server.example/data.bin /same-data.bin",
             "# Make a symbolic link, in place of an old one",
             "penstock ln -sfn releases/2026 nfs://server.example/current"});
  return {command, [options] { return Link(*options); }};
}

}  // namespace penstock::cli
