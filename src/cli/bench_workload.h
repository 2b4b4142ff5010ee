// The work of `penstock bench` on one connection: it makes objects on the server, and executes operations on them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/task.h"
#include "cli/bench_operation.h"
#include "client/error.h"
#include "client/file.h"
#include "client/mount.h"

namespace penstock::cli {

// Belongs to the loop of its mount. Everything that it makes is in a directory of its own, below that of the URL.
class Workload {
 public:
  struct Settings {
    uint64_t file_size = 64 << 20;  // octets of the file of READs and WRITEs
    unsigned tree_files = 1000;     // of lookup, stat, readdir and open
    unsigned read_percent = 70;     // of mix; the others are WRITEs
  };

  // `number` tells the workloads of one process apart. The mount outlives the workload.
  Workload(client::Mount& mount, unsigned number, const Settings& settings);

  client::Mount& mount() const { return mount_; }

  // Makes what these operations need. Fails if the server has no such operation, or none of the size.
  Task<client::Result<void>> Prepare(const std::vector<Operation>& operations);
  // Removes everything that the workload has made, also after an error.
  Task<client::Result<void>> CleanUp();

  // Returns the octets that one operation moves; 0 for those without a size. The largest operation takes what the
  // server takes.
  uint32_t SizeOf(const Operation& operation) const;

  // Makes `workers` files for rename. Each worker has a number below that.
  Task<client::Result<void>> MakeRenamed(unsigned workers);

  // Executes one operation. Any number may run at the same time, if no two have the same worker. `ticket` is the number
  // of the file that create and remove work with: remove needs a file that create has made. `buffer` has SizeOf()
  // octets.
  Task<client::Result<void>> Execute(Operation operation, unsigned worker, uint64_t ticket, Bytes buffer);

 private:
  struct Renamed {
    std::string name{};
    std::string other{};
  };

  // Returns the most octets that one such operation moves.
  uint32_t Largest(const Operation& operation) const;
  Task<client::Result<void>> MakeFile();
  Task<client::Result<void>> MakeTree();
  Task<client::Result<void>> MakeTreeDirectory(unsigned number);
  // Runs `each` for all numbers below `count`, some at the same time. Returns the first error.
  using Each = std::function<Task<client::Result<void>>(unsigned number)>;
  Task<client::Result<void>> ForAll(unsigned count, Each each);
  Task<client::Result<void>> Empty(const client::Handle& directory);

  Task<client::Result<void>> Create(std::string name);
  Task<client::Result<void>> Transfer(Operation operation, Bytes buffer);
  uint64_t NextOffset(const Operation& operation);
  uint64_t Random();
  size_t RandomBelow(size_t count) { return static_cast<size_t>(Random() % count); }

  client::Mount& mount_;
  const std::string name_;  // of the workload's directory
  const Settings settings_;
  client::Handle parent_;     // the directory of the URL
  client::Handle directory_;  // of the workload; empty until it is made
  client::Handle names_;      // for the operations that change names
  std::unique_ptr<client::File> file_;
  struct TreeDirectory {
    client::Handle handle;
    std::vector<client::Node> files;
  };
  std::vector<TreeDirectory> tree_;
  std::vector<Renamed> renamed_;
  uint64_t sequence_ = 0;
  uint64_t random_;
};

}  // namespace penstock::cli
