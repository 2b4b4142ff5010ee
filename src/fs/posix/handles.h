// How an object gets a handle, and how a handle leads back to its object.
#pragma once

#include <memory>
#include <string_view>

#include "base/data.h"
#include "fs/posix/stat.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Any thread.
class HandleSource {
 public:
  virtual ~HandleSource() = default;

  virtual Handle Root() const = 0;
  // Whether the others wait for a disk, even where the kernel has all about the object in memory.
  virtual bool may_block() const = 0;
  // Of what `fd` (O_PATH will do) has open, which was found as `name` in the directory `parent` just now.
  virtual Result<Handle> HandleOf(int fd, const Stat& stat, const Handle& parent, std::string_view name) = 0;
  // Of a directory that was reached as the ".." of one that has a handle.
  virtual Result<Handle> HandleOfParent(int fd, const Stat& stat) = 0;
  // O_PATH. kBadHandle where the bytes are none of ours, kStale where they lead nowhere or out of the tree.
  virtual Result<FileDescriptor> Open(const Handle& handle) = 0;

  // What the server itself did to names. `last`: the object is gone with this name.
  virtual void NameRemoved(const Handle& parent, std::string_view name, const Handle& object, bool last) = 0;
  virtual void NameMoved(const Handle& from, std::string_view from_name, const Handle& to,
                         std::string_view to_name) = 0;
};

// The first octet of every handle.
enum class HandleKind : uint8_t { kKernel = 1, kTable = 2 };

}  // namespace penstock::fs::posix
