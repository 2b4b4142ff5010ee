// Gives finished files of this machine their names. A file gets its name only when its data are on the disk. So that
// 100,000 small files do not need 100,000 fsyncs, the publisher collects files and makes them stable together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/data.h"
#include "base/loop.h"
#include "base/workers.h"
#include "copying/tree.h"

namespace penstock::copying {

// A directory with its descriptor. Work on threads shares it.
struct HeldDirectory {
  FileDescriptor fd;
  uint64_t device = 0;
  uint64_t inode = 0;
};

// Belongs to the loop.
class Publisher {
 public:
  Publisher(Loop& loop, Workers& workers);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // See Directory::Publish(). Waits until enough files have come, or a second has passed, or Flush() is called.
  Task<Result<void>> Publish(std::shared_ptr<const HeldDirectory> directory, std::string temporary, std::string name,
                             uint64_t octets);
  // Ends the wait of those that wait, or, if none does, of the next one.
  void Flush();
  // The directory has changed: Finish() must make it stable.
  void Touch(const std::shared_ptr<const HeldDirectory>& directory);
  Task<Result<void>> Finish();

 private:
  struct Waiting {
    std::shared_ptr<const HeldDirectory> directory;
    std::string temporary;
    std::string name;
    OneShot<int> published{};  // errno, or 0
    int error = 0;
  };

  Task<void> Run();
  static void PublishAll(const std::vector<Waiting*>& batch);

  Loop& loop_;
  Workers& workers_;
  const std::unique_ptr<Timer> timer_;
  std::vector<Waiting*> waiting_;
  uint64_t octets_ = 0;  // of the files that wait
  bool running_ = false;
  bool flush_ = false;
  bool flush_next_ = false;
  // Directories that have changed, while there are few; beyond that, one for each file system.
  std::set<std::shared_ptr<const HeldDirectory>> touched_;
  std::map<uint64_t, std::shared_ptr<const HeldDirectory>> file_systems_;
};

}  // namespace penstock::copying
