#include "fs/ceph/served_directories.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/thread.h"

namespace penstock::fs::ceph {
namespace {

// The path from `outer` to a directory below it.
std::optional<std::string> PathBetween(const Location& outer, const Location& inner) {
  const std::string_view top = outer.path == "/" ? std::string_view() : outer.path;
  const std::string_view path = inner.path;
  if (!path.starts_with(top) || path.size() <= top.size() + 1 || path[top.size()] != '/') return std::nullopt;
  return std::string(path.substr(top.size() + 1));
}

// Runs function(i) for each i below `count`, at the same time if the system has threads for that.
template <class Function>
void ForEach(size_t count, Function function) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    try {
      threads.push_back(StartThread("penstock-ceph", [&function, i] { function(i); }));
    } catch (const std::system_error&) {
      function(i);
    }
  }
  for (std::thread& each : threads) each.join();
}

// Sorts the paths, and leaves out those below another.
void Normalize(std::vector<std::string>& paths) {
  std::ranges::sort(paths);
  const auto is_below = [](const std::string& upper, const std::string& lower) {
    return lower.starts_with(upper) && (lower.size() == upper.size() || lower[upper.size()] == '/');
  };
  std::vector<std::string> kept;
  for (std::string& path : paths) {
    if (std::ranges::none_of(kept, [&](const std::string& upper) { return is_below(upper, path); })) {
      kept.push_back(std::move(path));
    }
  }
  paths = std::move(kept);
}

// A directory that is being opened.
struct Opening {
  Options options;
  std::vector<std::shared_ptr<FileSystem>> known;  // of this location and name, the last one first
  SetupResult<std::unique_ptr<Client>> mounted = nullptr;
  SetupResult<std::shared_ptr<FileSystem>> result = nullptr;

  std::optional<uint64_t> fsid() const {
    if (!known.empty()) return known.front()->fsid();
    if (mounted && *mounted) return (*mounted)->fsid();
    return std::nullopt;
  }
};

}  // namespace

std::vector<std::shared_ptr<FileSystem>> ServedDirectories::Known(const DirectoryToServe& directory) const {
  std::vector<std::shared_ptr<FileSystem>> all;
  for (const auto& each : std::views::reverse(opened_)) {
    std::shared_ptr<FileSystem> known = each.lock();
    if (known && known->location() == directory.location && known->options().export_name == directory.export_name) {
      all.push_back(std::move(known));
    }
  }
  return all;
}

std::string ServedDirectories::NameFor(const DirectoryToServe& directory,
                                       std::span<const std::shared_ptr<FileSystem>> known) const {
  if (server_.empty()) return "";
  for (int number = 0;; ++number) {
    std::string name = fmt::format("{}:{}:{}", server_, directory.export_name, number);
    const auto has_it = [&](const auto& each) { return each->options().mount_name == name; };
    if (std::ranges::none_of(known, has_it)) return name;
  }
}

std::vector<SetupResult<std::shared_ptr<FileSystem>>> ServedDirectories::Open(
    std::span<const DirectoryToServe> directories) {
  std::vector<SetupResult<std::shared_ptr<FileSystem>>> results;
  if (directories.empty()) return results;
  std::erase_if(opened_, [](const auto& each) { return each.expired(); });
  const SetupResult<Module*> module = load_();
  if (!module) {
    for (const DirectoryToServe& each : directories) {
      results.emplace_back(
          std::unexpected(SetupError{fmt::format("{}: {}", ToString(each.location), module.error().message)}));
    }
    return results;
  }

  std::vector<Opening> openings(directories.size());
  ForEach(openings.size(), [&](size_t i) {
    Opening& one = openings[i];
    one.known = Known(directories[i]);
    one.options.mount_name = NameFor(directories[i], one.known);
    if (one.known.empty()) {
      one.mounted = (*module)->Mount(directories[i].location, one.options.mount_name, one.options.patience);
    }
  });
  // Locations with different texts may name one file system. One that cannot be mounted may be any.
  const auto may_be_same = [&](size_t a, size_t b) {
    const auto one = openings[a].fsid(), other = openings[b].fsid();
    return !one || !other || *one == *other;
  };
  for (size_t i = 0; i < openings.size(); ++i) {
    Options& options = openings[i].options;
    options.export_name = directories[i].export_name;
    for (size_t j = 0; j < openings.size(); ++j) {
      const auto path = PathBetween(directories[i].location, directories[j].location);
      if (path && may_be_same(i, j)) options.others.push_back(*path);
    }
    Normalize(options.others);
  }
  ForEach(openings.size(), [&](size_t i) {
    Opening& one = openings[i];
    // If the cluster does not tell, an export with the same paths stays.
    const auto fits = [&](const auto& known) { return known->StillCovers(one.options.others).value_or(true); };
    const auto known = std::ranges::find_if(one.known, fits);
    if (known != one.known.end()) {
      one.result = *known;
    } else if (one.mounted) {
      one.result = FileSystem::Open(directories[i].location, **module, one.options, *std::move(one.mounted));
    } else {
      one.result = std::unexpected(std::move(one.mounted).error());
    }
  });
  for (Opening& each : openings) {
    if (each.result && std::ranges::find(each.known, *each.result) == each.known.end()) opened_.push_back(*each.result);
    results.push_back(std::move(each.result));
  }
  return results;
}

}  // namespace penstock::fs::ceph
