#include "fs/faulty/process.h"

#include <unistd.h>

#include <csignal>
#include <random>
#include <utility>

#include "fs/faulty/file_system.h"

namespace penstock::fs::faulty {

SetupResult<std::shared_ptr<fs::FileSystem>> WithFaults(std::shared_ptr<fs::FileSystem> files, std::string_view text) {
  if (text.empty()) return files;
  PENSTOCK_TRY(std::vector<Fault> faults, ParseFaults(text));
  return std::make_shared<FileSystem>(
      std::move(files), faults,
      Surroundings{.random = [engine = std::mt19937_64()]() mutable { return engine(); },
                   .kill = [] { ::kill(::getpid(), SIGKILL); }});
}

}  // namespace penstock::fs::faulty
