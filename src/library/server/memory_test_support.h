// For tests: file systems in memory that are written against the public headers only (examples/memory_server). This
// header declares C handles, because the names of the public C++ headers are those of the modules within.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "penstock/server.h"

namespace penstock::library {

struct MemoryFiles {
  unsigned flags = 0;
  uint64_t capacity = uint64_t{1} << 40;
  uint32_t root_mode = 0777;
  // Called at the beginning of "read", "write", "create" and "lookup", on the thread that executes it. An errno: the
  // operation fails with it. It may throw.
  std::function<int(std::string_view operation)> hook{};
  // Called when nobody uses the files any more.
  std::function<void()> ended{};
};

struct FreeFileSystem {
  void operator()(penstock_file_system* files) const { penstock_file_system_free(files); }
};
using OwnedFileSystem = std::unique_ptr<penstock_file_system, FreeFileSystem>;

OwnedFileSystem MakeMemoryFiles(MemoryFiles settings = {});

}  // namespace penstock::library
