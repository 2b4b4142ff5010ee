// Handles made from the kernel's own handles (name_to_handle_at). They survive renames and restarts, and become stale
// when an inode number is reused. They need CAP_DAC_READ_SEARCH.
#pragma once

#include <fcntl.h>

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/siphash.h"
#include "fs/posix/covers.h"
#include "fs/posix/handles.h"
#include "fs/posix/known_handles.h"

namespace penstock::fs::posix {

// The kernel opens any file of the file system for a caller that names its inode, so a handle is signed with the
// export's own key: only the server can make a handle, and only for files that it showed in this export. The key is
// derived from the kept key of the state directory, the export's name, and the identity of the exported directory. A
// handle also contains a digest of the directories that other exports covered when it was given, and is stale once
// that set changes. A directory is checked to be below the root whenever it is opened again; this costs two
// readlinks, and the result holds while its descriptor is cached. A file is not checked (the kernel may not even know
// its name), so a file that was moved out of the tree stays accessible by its handle, as with the kernel server's
// no_subtree_check.
class KernelHandles final : public HandleSource {
 public:
  using OpenByHandle = std::function<int(int mount_fd, struct file_handle* handle, int flags)>;

  // Fails with kNotSupported if the kernel or the server's rights do not allow kernel handles. `root` is open for
  // reading and outlives the instance. `known` may be shared with other exports. `open_by_handle` is the system call;
  // tests pass a function that fails.
  static Result<std::unique_ptr<KernelHandles>> Make(
      int root, const Volume& volume, const SipKey& key, std::string_view export_name, Covers covers = {},
      std::shared_ptr<KnownHandles> known = std::make_shared<KnownHandles>(),
      OpenByHandle open_by_handle = ::open_by_handle_at);

  Handle Root() const override { return root_handle_; }
  bool may_block() const override { return false; }
  Result<Identity> Identify(const Handle& handle) const override;
  Result<Handle> HandleOf(int fd, const Stat& stat, const Handle& parent, std::string_view name) override;
  bool MayKnow(uint64_t fileid) override { return known_->MayKnow(owner_, fileid); }
  std::optional<Handle> KnownHandleOf(const Stat& stat) override;
  Result<Handle> HandleOfParent(int fd, const Stat& stat) override;
  Result<FileDescriptor> Open(const Handle& handle) override;
  void NameRemoved(const Handle&, std::string_view, const Handle&, bool) override {}
  void NameMoved(const Handle&, std::string_view, const Handle&, std::string_view) override {}

 private:
  KernelHandles(int root, const Volume& volume, OpenByHandle open_by_handle, Covers covers,
                std::shared_ptr<KnownHandles> known)
      : root_(root),
        superblock_(volume.superblock),
        remembers_(volume.births_differ),
        open_by_handle_(std::move(open_by_handle)),
        covers_(std::move(covers)),
        known_(std::move(known)),
        owner_(known_->NewOwner()) {}
  // Asks the kernel for the handle of an open object, and signs it.
  Result<Handle> Sign(int fd) const;
  // The same, and remembers the handle.
  Result<Handle> HandleOf(int fd, const Stat& stat);
  // Returns the errno of the last attempt if all fail.
  std::expected<FileDescriptor, int> OpenPatiently(struct file_handle& handle) const;

  const int root_;
  const uint64_t superblock_;
  const bool remembers_;
  const OpenByHandle open_by_handle_;
  const Covers covers_;
  SipKey key_{};
  uint32_t covered_ = 0;  // a digest of the covered directories; zero if there are none
  Handle root_handle_;
  const std::shared_ptr<KnownHandles> known_;
  const KnownHandles::Owner owner_;
};

}  // namespace penstock::fs::posix
