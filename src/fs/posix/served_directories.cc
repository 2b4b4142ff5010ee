#include "fs/posix/served_directories.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/result.h"
#include "fs/posix/change_counters.h"
#include "fs/posix/identity.h"
#include "fs/posix/known_handles.h"

namespace penstock::fs::posix {

ServedDirectories::ServedDirectories(Workers& pool, const ServedDirectoriesOptions& options)
    : pool_(pool),
      options_(options),
      open_files_(std::make_shared<OpenObjects>(OpenObjects::MaxDescriptors(options.other_descriptors))),
      changes_(std::make_shared<ChangeCounters>()),
      known_handles_(std::make_shared<KnownHandles>()) {}

bool ServedDirectories::ActsAsCallers() { return ServerIdentity().acts_as_callers(); }

SetupResult<std::vector<std::shared_ptr<FileSystem>>> ServedDirectories::Open(
    std::span<const DirectoryToServe> directories, std::span<const std::filesystem::path> hidden) {
  std::vector<std::shared_ptr<FileSystem>> file_systems;
  std::vector<Opened> opened;
  for (const DirectoryToServe& each : directories) {
    Options of_one;
    of_one.state_directory = options_.state_directory;
    of_one.export_name = each.export_name;
    of_one.rights = options_.rights;
    of_one.leases = options_.leases;
    of_one.changes = changes_;
    of_one.known_handles = known_handles_;
    of_one.objects = open_files_;
    of_one.hidden.assign(hidden.begin(), hidden.end());
    for (const DirectoryToServe& other : directories) {
      if (&other != &each) of_one.others.push_back(other.directory);
    }
    std::shared_ptr<FileSystem> file_system;
    for (const Opened& earlier : opened_) {
      if (earlier.of.export_name != each.export_name || earlier.of.directory != each.directory) continue;
      const std::shared_ptr<FileSystem> known = earlier.file_system.lock();
      if (known && known->IsOf(each.directory, of_one)) file_system = known;
    }
    if (!file_system) {
      PENSTOCK_TRY(file_system, FileSystem::Open(each.directory, pool_, of_one));
      opened.push_back({each, file_system});
    }
    file_systems.push_back(std::move(file_system));
  }
  // Those that are served now are remembered, too: the host may not be able to use the new ones.
  std::erase_if(opened_, [](const Opened& earlier) { return earlier.file_system.expired(); });
  std::ranges::move(opened, std::back_inserter(opened_));
  return file_systems;
}

}  // namespace penstock::fs::posix
