// penstock rm and rmdir: remove files and trees from a server.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"
#include "cli/walk.h"

namespace penstock::cli {
namespace {

using client::Result;

struct RemoveOptions : ClientOptions {
  std::vector<std::string> urls;
  bool recursive = false;
  bool force = false;  // what does not exist is no error
  bool no_preserve_root = false;
  unsigned jobs = 16;
};

bool IsAbsent(const client::Error& error) {
  return error.status == client::Status::kNotFound || error.status == client::Status::kStale;
}

// Removes a tree: the files of a directory at the same time, then its subdirectories, then itself. It stays in one file
// system, and follows no symbolic link. Prints an error for each object that stays.
class TreeRemoval {
 public:
  TreeRemoval(ClientRuntime& runtime, const Mounted& at, const RemoveOptions& options)
      : runtime_(runtime), at_(at), options_(options) {}

  // `keeps_root`: empties the directory only.
  Task<void> Run(client::Node root, bool keeps_root);

 private:
  // A directory that is removed after those below it.
  struct Level {
    std::string path;
    client::Handle parent;
    std::string name;
    bool keeps = false;  // something in it stays
  };

  void Report(const std::string& path, client::Error error);
  Task<bool> RemoveEntry(const WalkedDirectory& directory, const client::Entry& entry);
  Task<void> LeaveLevel();

  ClientRuntime& runtime_;
  const Mounted& at_;
  const RemoveOptions& options_;
  uint64_t file_system_ = 0;
  std::vector<Level> levels_;
};

void TreeRemoval::Report(const std::string& path, client::Error error) {
  Mounted named = at_;
  named.path = JoinPath(at_.path, path);
  named.server_path = JoinPath(at_.server_path, path);
  named.name = JoinPath(at_.name, path);
  runtime_.Report(named.Named(std::move(error)));
}

Task<void> TreeRemoval::Run(client::Node root, bool keeps_root) {
  file_system_ = root.attributes.file_system;
  WalkOptions walk{.jobs = 8, .sort = {}, .descend = {}, .follow_referrals = false};
  walk.descend = [this](const client::Entry& entry, unsigned) {
    return entry.attributes && entry.attributes->file_system == file_system_;
  };
  DirectoryWalk directories(at_, std::move(root), std::move(walk));
  for (;;) {
    auto directory = co_await directories.Next();
    if (!directory) break;
    while (levels_.size() > directory->depth) co_await LeaveLevel();
    Level level{directory->path, directory->parent, directory->node.name};
    level.keeps = keeps_root && levels_.empty();
    if (directory->error && !IsAbsent(*directory->error)) {
      runtime_.Report(*directory->error);
      level.keeps = true;
    }
    const auto remove = [&](size_t index) -> Task<void> {
      const bool removed = co_await RemoveEntry(*directory, directory->entries[index]);
      if (!removed) level.keeps = true;
    };
    co_await ForEachIndex(directory->entries.size(), options_.jobs, remove);
    levels_.push_back(std::move(level));
  }
  while (!levels_.empty()) co_await LeaveLevel();
}

// Returns false if the entry stays. Directories of this file system go later.
Task<bool> TreeRemoval::RemoveEntry(const WalkedDirectory& directory, const client::Entry& entry) {
  const std::string path = JoinPath(directory.path, entry.name);
  if (entry.is_referral || (entry.attributes && entry.attributes->file_system != file_system_)) {
    Report(path, {path + ": it belongs to another file system, and stays", std::nullopt, EXDEV});
    co_return false;
  }
  if (entry.attributes && IsDirectory(*entry.attributes)) co_return true;
  const auto removed = co_await at_.mount->Remove(directory.node.handle, entry.name);
  if (removed || IsAbsent(removed.error())) co_return true;
  Report(path, removed.error());
  co_return false;
}

Task<void> TreeRemoval::LeaveLevel() {
  const Level level = std::move(levels_.back());
  levels_.pop_back();
  bool stays = level.keeps;
  if (!stays) {
    const auto removed = co_await at_.mount->RemoveDirectory(level.parent, level.name);
    if (!removed && !IsAbsent(removed.error())) {
      Report(level.path, removed.error());
      stays = true;
    }
  }
  if (stays && !levels_.empty()) levels_.back().keeps = true;
}

Task<Result<void>> RemoveTree(ClientRuntime& runtime, const Mounted& at, const RemoveOptions& options) {
  PENSTOCK_CO_TRY(client::Node node, co_await at.Resolve(false));
  if (!IsDirectory(node.attributes)) co_return co_await at.mount->Remove(node.directory, node.name);
  bool is_root = node.handle == at.mount->root() || node.name.empty();
  if (!is_root) {
    // The export of a server of version 4 is a file system in the server's tree.
    const auto above = co_await at.mount->GetAttributes(node.directory, at.name);
    if (!above) co_return std::unexpected(above.error());
    is_root = above->file_system != node.attributes.file_system;
  }
  if (is_root && !options.no_preserve_root) {
    constexpr auto kWhy = "this is the root of an export; --no-preserve-root removes what is in it";
    co_return std::unexpected(client::Error{kWhy, std::nullopt, EBUSY});
  }
  TreeRemoval removal(runtime, at, options);
  co_await removal.Run(std::move(node), is_root);
  co_return Result<void>();
}

Task<Result<void>> RemoveOne(ClientRuntime& runtime, const Mounted& at, const RemoveOptions& options) {
  const size_t slash = at.server_path.find_last_not_of('/');
  const std::string trimmed = at.server_path.substr(0, slash + 1);
  const std::string last = trimmed.substr(trimmed.rfind('/') + 1);
  if (last == "." || last == "..") {
    co_return std::unexpected(client::Error{"a name . or .. cannot be removed", std::nullopt, EINVAL});
  }
  Result<void> removed{};
  if (options.recursive) {
    removed = co_await RemoveTree(runtime, at, options);
  } else {
    const auto place = co_await at.ResolvePlace();
    if (place) {
      removed = co_await at.mount->Remove(place->directory, place->name);
    } else {
      removed = std::unexpected(place.error());
    }
  }
  if (!removed && options.force && removed.error().status == client::Status::kNotFound) removed = Result<void>();
  co_return removed;
}

Task<Result<void>> RemoveDirectoryOne(const Mounted& at) {
  PENSTOCK_CO_TRY(const client::Mount::Place place, co_await at.ResolvePlace());
  co_return co_await at.mount->RemoveDirectory(place.directory, place.name);
}

}  // namespace

Command AddRemove(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("rm", "Remove files and trees from an NFS server");
  const auto options = std::make_shared<RemoveOptions>();
  command->add_option("URL", options->urls, "The files to remove; with -r, also directories")->required();
  command->add_flag("-r,-R,--recursive", options->recursive,
                    "Remove directories with all that is in them. Symbolic links are removed, not followed. What\n"
                    "belongs to another file system stays");
  command->add_flag("-f,--force", options->force, "What does not exist is no error");
  command->add_flag("--no-preserve-root", options->no_preserve_root,
                    "With -r: if a URL leads to the root of an export, remove all that is in it");
  command->add_option("--jobs", options->jobs, "With -r: the number of files that are removed at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1u, 64u));
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Remove a file", "penstock rm nfs://server.example/old.log", "# Remove two files over RDMA",
             "penstock rm 'nfs://server.example/a?proto=rdma' 'nfs://server.example/b?proto=rdma'", "# Remove a tree",
             "penstock rm -r nfs://server.example/photos/2019"});
  return {command, [options] {
            return RunOnMounts(options->urls, *options, [&](ClientRuntime& runtime, const Mounted& at) {
              return RemoveOne(runtime, at, *options);
            });
          }};
}

Command AddRemoveDirectory(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("rmdir", "Remove empty directories from an NFS server");
  struct Options : ClientOptions {
    std::vector<std::string> urls;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("URL", options->urls, "The directories to remove")->required();
  AddClientOptions(*command, *options);
  SetFooter(
      *command, "",
      {"# Remove an empty directory", "penstock rmdir nfs://server.example/photos/2019",
       "# Remove a directory and the one above it", "penstock rmdir nfs://server.example/a/b nfs://server.example/a"});
  return {command, [options] {
            return RunOnMounts(options->urls, *options,
                               [](ClientRuntime&, const Mounted& at) { return RemoveDirectoryOne(at); });
          }};
}

}  // namespace penstock::cli
