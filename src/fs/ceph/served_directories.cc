#include "fs/ceph/served_directories.h"

#include <fmt/format.h>

#include <optional>
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

// A directory that is being opened.
struct Opening {
  Options options;
  std::shared_ptr<FileSystem> known;
  SetupResult<std::unique_ptr<Client>> mounted = nullptr;
  SetupResult<std::shared_ptr<FileSystem>> result = nullptr;

  std::optional<uint64_t> fsid() const {
    if (known) return known->fsid();
    if (mounted && *mounted) return (*mounted)->fsid();
    return std::nullopt;
  }
};

}  // namespace

std::shared_ptr<FileSystem> ServedDirectories::Known(const DirectoryToServe& directory) const {
  for (const auto& each : opened_) {
    std::shared_ptr<FileSystem> known = each.lock();
    if (known && known->location() == directory.location && known->options().export_name == directory.export_name) {
      return known;
    }
  }
  return nullptr;
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
    if (!one.known) one.mounted = (*module)->Mount(directories[i].location, one.options.patience);
  });
  // Locations with different texts may name one file system. Of one that cannot be mounted, only the text is known.
  const auto same_file_system = [&](size_t a, size_t b) {
    const auto one = openings[a].fsid(), other = openings[b].fsid();
    if (one && other) return *one == *other;
    const Location &outer = directories[a].location, &inner = directories[b].location;
    return outer.conf == inner.conf && outer.fs == inner.fs;
  };
  for (size_t i = 0; i < openings.size(); ++i) {
    Options& options = openings[i].options;
    options.export_name = directories[i].export_name;
    for (size_t j = 0; j < openings.size(); ++j) {
      const auto path = PathBetween(directories[i].location, directories[j].location);
      if (path && same_file_system(i, j)) options.others.push_back(*path);
    }
  }
  ForEach(openings.size(), [&](size_t i) {
    Opening& one = openings[i];
    if (one.known && one.known->options().others == one.options.others) {
      one.result = one.known;
    } else if (one.mounted) {
      one.result = FileSystem::Open(directories[i].location, **module, one.options, *std::move(one.mounted));
    } else {
      one.result = std::unexpected(std::move(one.mounted).error());
    }
  });
  for (Opening& each : openings) {
    if (each.result && *each.result != each.known) opened_.push_back(*each.result);
    results.push_back(std::move(each.result));
  }
  return results;
}

}  // namespace penstock::fs::ceph
