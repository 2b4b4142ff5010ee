// The interface that makes handles of objects and finds objects by their handles.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/data.h"
#include "fs/posix/stat.h"
#include "fs/types.h"

namespace penstock::fs::posix {

// Any thread may call any method.
class HandleSource {
 public:
  virtual ~HandleSource() = default;

  virtual Handle Root() const = 0;
  // As FileSystem::Identify. Never blocks.
  virtual Result<Identity> Identify(const Handle& handle) const = 0;
  // Whether the other methods may wait for a disk although the kernel has all about the object in memory.
  virtual bool may_block() const = 0;
  // Returns the handle of the object that `fd` (O_PATH suffices) has open, and that was just found as `name` in the
  // directory `parent`.
  virtual Result<Handle> HandleOf(int fd, const Stat& stat, const Handle& parent, std::string_view name) = 0;
  // Whether KnownHandleOf() may return something for an object with this inode number.
  virtual bool MayKnow(uint64_t /*fileid*/) { return false; }
  // Returns the handle of the object that StatOfEntry() has just found, if HandleOf() has returned it before.
  virtual std::optional<Handle> KnownHandleOf(const Stat& /*stat*/) { return std::nullopt; }
  // Returns the handle of a directory that was reached as ".." of a directory with a handle.
  virtual Result<Handle> HandleOfParent(int fd, const Stat& stat) = 0;
  // Opens the object with O_PATH. Fails as Identify() does, and with kStale if the object is gone or outside the
  // tree.
  virtual Result<FileDescriptor> Open(const Handle& handle) = 0;

  // Report changes of names that the server itself made. `last`: the object lost its last name.
  virtual void NameRemoved(const Handle& parent, std::string_view name, const Handle& object, bool last) = 0;
  virtual void NameMoved(const Handle& from, std::string_view from_name, const Handle& to,
                         std::string_view to_name) = 0;
};

// The first octet of every handle. The values 1 and 2 marked handles that were not bound to their export.
enum class HandleKind : uint8_t { kKernel = 3, kTable = 4 };

// Checks the first octet and the size of a handle of that kind. Handles of earlier versions are kStale: their clients
// must mount again.
inline Result<void> CheckKind(ConstBytes handle, HandleKind kind, size_t min_size) {
  constexpr std::byte kUnbound[] = {std::byte{1}, std::byte{2}};
  if (!handle.empty() && (handle[0] == kUnbound[0] || handle[0] == kUnbound[1])) return std::unexpected(Error::kStale);
  if (handle.size() < min_size || handle[0] != static_cast<std::byte>(kind)) return std::unexpected(Error::kBadHandle);
  return {};
}

}  // namespace penstock::fs::posix
