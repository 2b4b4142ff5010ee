// How an object gets a handle, and how a handle leads back to its object.
#pragma once

#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "base/data.h"
#include "fs/posix/stat.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Any thread.
class HandleSource {
 public:
  virtual ~HandleSource() = default;

  virtual Handle Root() const = 0;
  // As FileSystem has it. Never blocks.
  virtual Result<Identity> Identify(const Handle& handle) const = 0;
  // Whether the others wait for a disk, even where the kernel has all about the object in memory.
  virtual bool may_block() const = 0;
  // Of what `fd` (O_PATH will do) has open, which was found as `name` in the directory `parent` just now.
  virtual Result<Handle> HandleOf(int fd, const Stat& stat, const Handle& parent, std::string_view name) = 0;
  // Of a directory that was reached as the ".." of one that has a handle.
  virtual Result<Handle> HandleOfParent(int fd, const Stat& stat) = 0;
  // O_PATH. The errors of Identify(); kStale where the handle leads nowhere or out of the tree.
  virtual Result<FileDescriptor> Open(const Handle& handle) = 0;

  // What the server itself did to names. `last`: the object is gone with this name.
  virtual void NameRemoved(const Handle& parent, std::string_view name, const Handle& object, bool last) = 0;
  virtual void NameMoved(const Handle& from, std::string_view from_name, const Handle& to,
                         std::string_view to_name) = 0;
};

// The first octet of every handle. 1 and 2 were those of handles that were not bound to their export.
enum class HandleKind : uint8_t { kKernel = 3, kTable = 4 };

// Whether this may be a handle of that kind, by its first octet and its size. kStale for those of earlier versions: their
// clients must mount again.
inline Result<void> CheckKind(ConstBytes handle, HandleKind kind, size_t min_size) {
  constexpr std::byte kUnbound[] = {std::byte{1}, std::byte{2}};
  if (!handle.empty() && (handle[0] == kUnbound[0] || handle[0] == kUnbound[1])) return std::unexpected(Error::kStale);
  if (handle.size() < min_size || handle[0] != static_cast<std::byte>(kind)) return std::unexpected(Error::kBadHandle);
  return {};
}

}  // namespace penstock::fs::posix
