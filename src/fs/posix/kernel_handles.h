// Handles made of the kernel's own (name_to_handle_at): they survive renames and restarts by themselves, and know when
// an inode number has been used again. They need CAP_DAC_READ_SEARCH.
#pragma once

#include <fcntl.h>

#include <expected>
#include <functional>
#include <memory>
#include <string_view>

#include "base/siphash.h"
#include "fs/posix/covers.h"
#include "fs/posix/handles.h"

namespace penstock::fs::posix {

// The kernel opens any file of the file system for whoever can name its inode, so a handle is signed with the export's own
// key. Nobody without it makes a handle of a file that the server never showed in this export. The key is made of
// the one that is kept in the state directory, the export's name, and the exported directory's identity. A handle says
// besides which directories were covered by other exports when it was given, and is stale once others are. A directory is besides looked for beneath the root
// whenever it is opened anew, which costs two readlinks and is remembered for as long as its descriptor is cached; a
// file needs none (the kernel may not even know its name then), so one that was moved out of the tree stays open to
// those who had its handle, as with the kernel server's no_subtree_check.
class KernelHandles final : public HandleSource {
 public:
  using OpenByHandle = std::function<int(int mount_fd, struct file_handle* handle, int flags)>;

  // kNotSupported where the kernel or our rights do not allow it. `root` is open for reading and outlives this.
  // `open_by_handle` is the system call; tests pass one that fails.
  static Result<std::unique_ptr<KernelHandles>> Make(int root, const Volume& volume, const SipKey& key,
                                                     std::string_view export_name, Covers covers = {},
                                                     OpenByHandle open_by_handle = ::open_by_handle_at);

  Handle Root() const override { return root_handle_; }
  bool may_block() const override { return false; }
  Result<Identity> Identify(const Handle& handle) const override;
  Result<Handle> HandleOf(int fd, const Stat& stat, const Handle& parent, std::string_view name) override;
  Result<Handle> HandleOfParent(int fd, const Stat& stat) override;
  Result<FileDescriptor> Open(const Handle& handle) override;
  void NameRemoved(const Handle&, std::string_view, const Handle&, bool) override {}
  void NameMoved(const Handle&, std::string_view, const Handle&, std::string_view) override {}

 private:
  KernelHandles(int root, uint64_t superblock, OpenByHandle open_by_handle, Covers covers)
      : root_(root), superblock_(superblock), open_by_handle_(std::move(open_by_handle)), covers_(std::move(covers)) {}
  Result<Handle> Sign(int fd) const;
  // Or the errno of the last try.
  std::expected<FileDescriptor, int> OpenPatiently(struct file_handle& handle) const;

  const int root_;
  const uint64_t superblock_;
  const OpenByHandle open_by_handle_;
  const Covers covers_;
  SipKey key_{};
  uint32_t covered_ = 0;  // a digest of what Covers has; zero for nothing
  Handle root_handle_;
};

}  // namespace penstock::fs::posix
