// An open regular file of this machine. See local_tree.h.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>

#include "base/data.h"
#include "copying/budget.h"
#include "copying/local_tree.h"
#include "idmap/database.h"

namespace penstock::copying {

class LocalFile final : public File {
 public:
  LocalFile(LocalTree& tree, FileDescriptor fd, const struct stat& status);

  const void* tree() const override { return &tree_; }
  Task<Result<Slice>> Read(uint64_t offset, Bytes into) override;
  Task<Result<uint32_t>> Write(uint64_t offset, ConstBytes from) override;
  Task<Result<std::vector<Extent>>> DataIn(Extent range) override;
  Task<Result<std::optional<uint64_t>>> CopyFrom(File& source, Extent range) override;
  Task<Result<bool>> Sync() override;
  Task<Result<void>> ForgetCached() override;
  Task<Result<void>> SetSize(uint64_t size) override;
  Task<Result<void>> SetAttributes(const NewAttributes& attributes) override;
  Task<Result<void>> Close() override;

 private:
  LocalTree& tree_;
  FileDescriptor fd_;
  // A file system lets one thread at a time write to a file, and the others would wait at the cost of CPU time.
  Budget writers_{1};
};

// Blocks. Returns the number of an owner or group, which is a number or name@domain, or nothing if it is nobody of this
// host.
std::optional<uint32_t> NumberOf(LocalTree& tree, idmap::Kind kind, const std::string& text);

// These block. They return errno, or 0.

// Sets the attributes of an open file or directory. Owners and groups of another domain are errors, EINVAL.
int ApplyTo(LocalTree& tree, int fd, const NewAttributes& attributes);
// The same for an entry of a directory that may be of any type. Does not follow a symbolic link, whose mode cannot be
// set.
int SetAttributesAt(LocalTree& tree, int directory, const std::string& name, const NewAttributes& attributes);
// Creates and opens a file whose name was free.
struct Created {
  int error = 0;
  FileDescriptor fd{-1};
};
Created CreateAt(int directory, const std::string& name, const NewFile& file);
}  // namespace penstock::copying
