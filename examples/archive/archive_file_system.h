// An archive as a file system that servers of libpenstock can export.
#pragma once

#include <penstock/server.hpp>
#include <utility>

#include "archive_tree.h"

namespace archive_server {

using penstock::Caller;
using penstock::Handle;
using penstock::Result;

// Any thread: the archive never changes, so that no method needs a lock or waits (PENSTOCK_FS_NONBLOCKING). A handle is
// the archive's fingerprint and the number of a node. So handles stay good when the server starts again with the same
// archive, and are stale if the archive has changed.
class ArchiveFileSystem final : public penstock::BasicFileSystem {
 public:
  explicit ArchiveFileSystem(Archive archive) : archive_(std::move(archive)) {}

  Result<Handle> Root() override { return HandleOf(Archive::kRoot); }
  Result<penstock_attributes> GetAttributes(const Caller& caller, const Handle& object) override;
  Result<Handle> Lookup(const Caller& caller, const Handle& directory, const char* name) override;
  Result<std::string> ReadLink(const Caller& caller, const Handle& symlink) override;
  Result<size_t> Read(const Caller& caller, const Handle& file, std::span<std::byte> buffer, uint64_t offset) override;
  Result<void> ReadDirectory(const Caller& caller, const Handle& directory, uint64_t cookie, const Add& add) override;

 private:
  struct Name {
    uint64_t fingerprint = 0;
    uint64_t index = 0;
  };
  Handle HandleOf(size_t index) const { return Handle::Of(Name{archive_.fingerprint(), index}); }
  // Null for a handle of another archive.
  const Node* Find(const Handle& handle) const;

  const Archive archive_;
};

}  // namespace archive_server
