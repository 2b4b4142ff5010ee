// Commands that make, change and remove names: mkdir, rmdir, rm, mv, ln, chmod.
#include <fmt/core.h>

#include <charconv>

#include "cli/client_runtime.h"
#include "cli/commands.h"

namespace penstock::cli {
namespace {

using client::Error;
using client::Mount;
template <class T>
using Result = client::Result<T>;

// "755"
std::optional<uint32_t> ParseMode(const std::string& text) {
  uint32_t mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > 07777) return std::nullopt;
  return mode;
}

// Where `path`, a name on the mount's server, leads to; as mv and ln have it, into the directory that it names, where
// there is one, under the name of `source`.
Task<Result<Mount::Place>> PlaceOf(Mount& mount, std::string path, std::string source) {
  const auto below = path.starts_with('/') ? mount.PathBelowRoot(path) : std::nullopt;
  if (!below) {
    co_return std::unexpected(Error{fmt::format("{}: not a path below what is mounted", path), std::nullopt});
  }
  const auto there = co_await mount.Resolve(*below);
  if (there && there->attributes.type == client::FileType::kDirectory) co_return Mount::Place{there->handle, source};
  co_return co_await mount.ResolvePlace(*below);
}

Task<Result<void>> MakeOne(Mount& mount, uint32_t mode) {
  PENSTOCK_CO_TRY(const Mount::Place place, co_await mount.ResolvePlace(mount.path()));
  const auto made = co_await mount.MakeDirectory(place.directory, place.name, mode);
  if (!made) co_return std::unexpected(made.error());
  co_return Result<void>();
}

Task<Result<void>> RemoveOne(Mount& mount, bool directory) {
  PENSTOCK_CO_TRY(const Mount::Place place, co_await mount.ResolvePlace(mount.path()));
  if (directory) co_return co_await mount.RemoveDirectory(place.directory, place.name);
  co_return co_await mount.Remove(place.directory, place.name);
}

Task<Result<void>> MoveOne(Mount& mount, std::string to) {
  PENSTOCK_CO_TRY(const Mount::Place from, co_await mount.ResolvePlace(mount.path()));
  PENSTOCK_CO_TRY(const Mount::Place place, co_await PlaceOf(mount, to, from.name));
  co_return co_await mount.Rename(from.directory, from.name, place.directory, place.name);
}

Task<Result<void>> LinkOne(Mount& mount, std::string to) {
  PENSTOCK_CO_TRY(const client::Node file, co_await mount.Resolve(mount.path(), false));
  PENSTOCK_CO_TRY(const Mount::Place place, co_await PlaceOf(mount, to, file.name));
  co_return co_await mount.Link(file.handle, place.directory, place.name);
}

Task<Result<void>> LinkSymbolically(Mount& mount, std::string target) {
  PENSTOCK_CO_TRY(const Mount::Place place, co_await mount.ResolvePlace(mount.path()));
  const auto made = co_await mount.MakeSymlink(place.directory, place.name, target);
  if (!made) co_return std::unexpected(made.error());
  co_return Result<void>();
}

Task<Result<void>> ChangeOne(Mount& mount, uint32_t mode) {
  PENSTOCK_CO_TRY(const client::Node node, co_await mount.Resolve(mount.path()));
  client::NewAttributes attributes;
  attributes.mode = mode;
  co_return co_await mount.SetAttributes(node.handle, mount.url().path, attributes);
}

int WrongMode(const std::string& mode) {
  PrintError(fmt::format("{}: a mode is an octal number of at most four digits", mode));
  return 1;
}

}  // namespace

int MakeDirectory(const MakeDirectoryOptions& options) {
  const auto mode = ParseMode(options.mode);
  if (!mode) return WrongMode(options.mode);
  return RunOnMounts(options.urls, options, [&](ClientRuntime&, Mount& mount) { return MakeOne(mount, *mode); });
}

int Remove(const RemoveOptions& options) {
  return RunOnMounts(options.urls, options,
                     [&](ClientRuntime&, Mount& mount) { return RemoveOne(mount, options.directories); });
}

int Move(const MoveOptions& options) {
  return RunOnMounts({options.url}, options, [&](ClientRuntime&, Mount& mount) { return MoveOne(mount, options.to); });
}

int Link(const LinkOptions& options) {
  if (options.symbolic) {
    return RunOnMounts({options.to}, options,
                       [&](ClientRuntime&, Mount& mount) { return LinkSymbolically(mount, options.from); });
  }
  return RunOnMounts({options.from}, options, [&](ClientRuntime&, Mount& mount) { return LinkOne(mount, options.to); });
}

int ChangeMode(const ChangeModeOptions& options) {
  const auto mode = ParseMode(options.mode);
  if (!mode) return WrongMode(options.mode);
  return RunOnMounts(options.urls, options, [&](ClientRuntime&, Mount& mount) { return ChangeOne(mount, *mode); });
}

}  // namespace penstock::cli
