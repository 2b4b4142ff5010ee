#include "fs/posix/served_directories.h"

#include "base/result.h"
#include "fs/posix/change_counters.h"
#include "fs/posix/identity.h"

namespace penstock::fs::posix {

SetupResult<ServedDirectories> OpenDirectories(std::span<const DirectoryToServe> directories, Workers& pool,
                                               const ServedDirectoriesOptions& options) {
  ServedDirectories served;
  served.open_files = std::make_shared<OpenObjects>(OpenObjects::MaxDescriptors(options.other_descriptors));
  const auto changes = std::make_shared<ChangeCounters>();
  for (const DirectoryToServe& each : directories) {
    Options of_one;
    of_one.state_directory = options.state_directory;
    of_one.export_name = each.export_name;
    of_one.leases = options.leases;
    of_one.changes = changes;
    of_one.objects = served.open_files;
    of_one.hidden = options.hidden;
    for (const DirectoryToServe& other : directories) {
      if (&other != &each) of_one.others.push_back(other.directory);
    }
    PENSTOCK_TRY(served.file_systems.emplace_back(), FileSystem::Open(each.directory, pool, of_one));
  }
  served.acts_as_callers = ServerIdentity().acts_as_callers();
  return served;
}

}  // namespace penstock::fs::posix
