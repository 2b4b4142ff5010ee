// The commands that make, change and remove names: mkdir, rmdir, rm, mv, ln, chmod.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Mount;
using client::Result;

// Parses an octal mode like "755".
std::optional<uint32_t> ParseMode(const std::string& text) {
  uint32_t mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > 07777) return std::nullopt;
  return mode;
}

// Returns the target of mv or ln for `path`, a path on the mount's server. If `path` is a directory, the target is the
// entry `source` in it; otherwise it is `path` itself.
Task<Result<Mount::Place>> PlaceOf(Mount& mount, std::string path, std::string source) {
  const auto below = path.starts_with('/') ? mount.PathBelowRoot(path) : std::nullopt;
  if (!below) {
    co_return std::unexpected(Error{fmt::format("{}: not a path below the mounted export", path), std::nullopt});
  }
  const auto there = co_await mount.Resolve(*below);
  if (there && there->attributes.type == client::FileType::kDirectory) co_return Mount::Place{there->handle, source};
  co_return co_await mount.ResolvePlace(*below);
}

Task<Result<void>> MakeOne(const Mounted& at, uint32_t mode) {
  PENSTOCK_CO_TRY(const Mount::Place place, co_await at.ResolvePlace());
  const auto made = co_await at.mount->MakeDirectory(place.directory, place.name, mode);
  if (!made) co_return std::unexpected(made.error());
  co_return Result<void>();
}

Task<Result<void>> RemoveOne(const Mounted& at, bool directory) {
  PENSTOCK_CO_TRY(const Mount::Place place, co_await at.ResolvePlace());
  if (directory) co_return co_await at.mount->RemoveDirectory(place.directory, place.name);
  co_return co_await at.mount->Remove(place.directory, place.name);
}

Task<Result<void>> MoveOne(const Mounted& at, std::string to) {
  PENSTOCK_CO_TRY(const Mount::Place from, co_await at.ResolvePlace());
  PENSTOCK_CO_TRY(const Mount::Place place, co_await PlaceOf(*at.mount, to, from.name));
  co_return co_await at.mount->Rename(from.directory, from.name, place.directory, place.name);
}

Task<Result<void>> LinkOne(const Mounted& at, std::string to) {
  PENSTOCK_CO_TRY(const client::Node file, co_await at.Resolve(false));
  PENSTOCK_CO_TRY(const Mount::Place place, co_await PlaceOf(*at.mount, to, file.name));
  co_return co_await at.mount->Link(file.handle, place.directory, place.name);
}

Task<Result<void>> LinkSymbolically(const Mounted& at, std::string target) {
  PENSTOCK_CO_TRY(const Mount::Place place, co_await at.ResolvePlace());
  const auto made = co_await at.mount->MakeSymlink(place.directory, place.name, target);
  if (!made) co_return std::unexpected(made.error());
  co_return Result<void>();
}

Task<Result<void>> ChangeOne(const Mounted& at, uint32_t mode) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve());
  client::NewAttributes attributes;
  attributes.mode = mode;
  co_return co_await at.mount->SetAttributes(node.handle, at.name, attributes);
}

int WrongMode(const std::string& mode) {
  return PrintUsageError(fmt::format("{}: a mode is an octal number of at most four digits", mode));
}

struct MakeDirectoryOptions : ClientOptions {
  std::vector<std::string> urls;
  std::string mode = "755";
};

int MakeDirectory(const MakeDirectoryOptions& options) {
  const auto mode = ParseMode(options.mode);
  if (!mode) return WrongMode(options.mode);
  return RunOnMounts(options.urls, options, [&](ClientRuntime&, const Mounted& at) { return MakeOne(at, *mode); });
}

struct RemoveOptions : ClientOptions {
  std::vector<std::string> urls;
};

int Remove(const RemoveOptions& options, bool directories) {
  return RunOnMounts(options.urls, options,
                     [&](ClientRuntime&, const Mounted& at) { return RemoveOne(at, directories); });
}

Command AddRemoveCommand(CLI::App& program, std::string name, std::string help, bool directories,
                         const std::vector<std::string>& examples) {
  CLI::App* const command = program.add_subcommand(std::move(name), std::move(help));
  const auto options = std::make_shared<RemoveOptions>();
  command->add_option("URL", options->urls, "The files or directories to remove")->required();
  AddClientOptions(*command, *options);
  SetFooter(*command, "", examples);
  return {command, [options, directories] { return Remove(*options, directories); }};
}

struct MoveOptions : ClientOptions {
  std::string url;
  std::string to;  // a path on the same server
};

int Move(const MoveOptions& options) {
  return RunOnMounts({options.url}, options,
                     [&](ClientRuntime&, const Mounted& at) { return MoveOne(at, options.to); });
}

struct LinkOptions : ClientOptions {
  std::string from;  // a URL; for a symbolic link, its text
  std::string to;    // a path on the same server; for a symbolic link, a URL
  bool symbolic = false;
};

int Link(const LinkOptions& options) {
  if (options.symbolic) {
    return RunOnMounts({options.to}, options,
                       [&](ClientRuntime&, const Mounted& at) { return LinkSymbolically(at, options.from); });
  }
  return RunOnMounts({options.from}, options,
                     [&](ClientRuntime&, const Mounted& at) { return LinkOne(at, options.to); });
}

struct ChangeModeOptions : ClientOptions {
  std::string mode;
  std::vector<std::string> urls;
};

int ChangeMode(const ChangeModeOptions& options) {
  const auto mode = ParseMode(options.mode);
  if (!mode) return WrongMode(options.mode);
  return RunOnMounts(options.urls, options, [&](ClientRuntime&, const Mounted& at) { return ChangeOne(at, *mode); });
}

}  // namespace

Command AddMakeDirectory(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("mkdir", "Make directories on an NFS server");
  const auto options = std::make_shared<MakeDirectoryOptions>();
  command->add_option("URL", options->urls, "The new directories")->required();
  command->add_option("-m,--mode", options->mode, "The mode of each directory, in octal")->capture_default_str();
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Make a directory", "penstock mkdir nfs://server.example/photos/2026",
             "# Make a directory that only its owner can use",
             "penstock mkdir -m 700 'nfs://server.example/private?proto=rdma'"});
  return {command, [options] { return MakeDirectory(*options); }};
}

Command AddRemove(CLI::App& program) {
  return AddRemoveCommand(
      program, "rm", "Remove files from an NFS server", false,
      {"# Remove a file", "penstock rm nfs://server.example/old.log", "# Remove two files over RDMA",
       "penstock rm 'nfs://server.example/a?proto=rdma' 'nfs://server.example/b?proto=rdma'"});
}

Command AddRemoveDirectory(CLI::App& program) {
  return AddRemoveCommand(
      program, "rmdir", "Remove empty directories from an NFS server", true,
      {"# Remove an empty directory", "penstock rmdir nfs://server.example/photos/2019",
       "# Remove a directory and the one above it", "penstock rmdir nfs://server.example/a/b nfs://server.example/a"});
}

Command AddMove(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("mv", "Rename a file or directory on an NFS server");
  const auto options = std::make_shared<MoveOptions>();
  command->add_option("URL", options->url, "The file or directory to rename")->required();
  command->add_option("PATH", options->to, "The new path on the same server, or a directory to move into")->required();
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Rename a file", "penstock mv nfs://server.example/draft.txt /final.txt", "# Move it into a directory",
             "penstock mv nfs://server.example/final.txt /archive"});
  return {command, [options] { return Move(*options); }};
}

Command AddLink(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("ln", "Give a file on an NFS server another name: ln URL PATH, or ln -s TARGET URL");
  const auto options = std::make_shared<LinkOptions>();
  command->add_option("FROM", options->from, "The URL of a file; with -s, the text of the link")->required();
  command->add_option("TO", options->to, "The new path on the same server; with -s, the URL of the link")->required();
  command->add_flag("-s,--symbolic", options->symbolic, "Make a symbolic link");
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Give a file a second name", "penstock ln nfs://server.example/data.bin /same-data.bin",
             "# Make a symbolic link", "penstock ln -s data.bin nfs://server.example/link"});
  return {command, [options] { return Link(*options); }};
}

Command AddChangeMode(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("chmod", "Set the mode of files on an NFS server");
  const auto options = std::make_shared<ChangeModeOptions>();
  command->add_option("MODE", options->mode, "The new mode, in octal")->required();
  command->add_option("URL", options->urls, "The files or directories")->required();
  AddClientOptions(*command, *options);
  SetFooter(
      *command, "",
      {"# Let only the owner read and write a file", "penstock chmod 600 nfs://server.example/key",
       "# Make two files readable for everybody", "penstock chmod 644 nfs://server.example/a nfs://server.example/b"});
  return {command, [options] { return ChangeMode(*options); }};
}

}  // namespace penstock::cli
