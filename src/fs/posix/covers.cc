#include "fs/posix/covers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "base/bytes.h"
#include "base/data.h"
#include "base/result.h"
#include "fs/errno.h"
#include "fs/posix/fsid.h"
#include "fs/posix/path.h"

namespace penstock::fs::posix {
namespace {

struct Inode {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Inode&) const = default;
};

std::optional<Inode> InodeOf(int fd) {
  struct stat stat{};
  if (::fstat(fd, &stat) != 0) return std::nullopt;
  return Inode{stat.st_dev, stat.st_ino};
}

FileDescriptor OpenParent(int directory) {
  return FileDescriptor(::openat(directory, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Calls `look(fd, identity)` for the directory and each directory above it until it returns true. Returns whether it
// did, or kDelay if no descriptor is left for the next directory.
template <class Function>
Result<bool> AnyUpwards(int directory, Function look) {
  auto identity = InodeOf(directory);
  if (!identity) return false;
  if (look(directory, *identity)) return true;
  FileDescriptor at = OpenParent(directory);
  for (; at; at = OpenParent(at.get())) {
    const auto above = InodeOf(at.get());
    if (!above || above == identity) return false;
    if (look(at.get(), *above)) return true;
    identity = above;
  }
  if (FromErrno(errno) == Error::kDelay) return std::unexpected(Error::kDelay);
  return false;
}

// Opens the same directory in the mount of the root, if the kernel can.
FileDescriptor SeenFrom(int root, int directory) {
  alignas(struct file_handle) std::byte bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
  auto& handle = *reinterpret_cast<struct file_handle*>(bytes);
  handle.handle_bytes = MAX_HANDLE_SZ;
  int mount_id = 0;
  if (::name_to_handle_at(directory, "", &handle, &mount_id, AT_EMPTY_PATH) != 0) return FileDescriptor(-1);
  return FileDescriptor(::open_by_handle_at(root, &handle, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

Covers::Covers(int root, const Volume& volume, std::span<const std::filesystem::path> others,
               std::span<const std::filesystem::path> hidden)
    : volume_(volume) {
  for (const std::filesystem::path& each : others) Add(root, each, true);
  for (const std::filesystem::path& each : hidden) Add(root, each, false);
  std::ranges::sort(covered_, {}, [](const Covered& each) { return std::pair(each.device, each.inode); });
}

void Covers::Add(int root, const std::filesystem::path& directory, bool is_served) {
  const auto top = InodeOf(root);
  FileDescriptor fd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto identity = fd ? InodeOf(fd.get()) : std::nullopt;
  if (!identity || identity == top) return;
  // Subvolumes of btrfs have devices of their own, and the kernel's handles are valid for the whole file system. Only
  // then is /proc read for each of the other exports.
  const bool has_subvolumes = volume_.superblock != volume_.device;
  const bool same_file_system =
      identity->device == top->device || (has_subvolumes && SuperblockOf(fd.get()) == volume_.superblock);
  const auto is_top = [&](int, const Inode& above) { return above == top; };
  if (!AnyUpwards(fd.get(), is_top).value_or(false)) {
    FileDescriptor seen = same_file_system ? SeenFrom(root, fd.get()) : FileDescriptor(-1);
    if (!seen || !AnyUpwards(seen.get(), is_top).value_or(false)) return;
    fd = std::move(seen);
  }
  const Result<Stat> stat = posix::StatOf(fd.get(), volume_);
  const FileDescriptor parent = OpenParent(fd.get());
  const Result<Stat> above = parent ? posix::StatOf(parent.get(), volume_) : std::unexpected(Error::kIo);
  if (!stat || !above) return;
  std::error_code error;
  const auto path = std::filesystem::read_symlink(std::string(ProcPath(fd.get()).c_str()), error);
  covered_.push_back({.device = stat->device,
                      .inode = stat->attributes.fileid,
                      .parent_device = above->device,
                      .parent_inode = above->attributes.fileid,
                      .name = path.filename().string(),
                      .in_identity = is_served && same_file_system});
}

bool Covers::Has(const Stat& found) const {
  return std::ranges::any_of(covered_, [&](const Covered& each) {
    return each.device == found.device && each.inode == found.attributes.fileid;
  });
}

bool Covers::HasPlace(int directory, std::string_view name) const {
  if (std::ranges::find(covered_, name, &Covered::name) == covered_.end()) return false;
  const Result<Stat> stat = posix::StatOf(directory, volume_);
  return stat && std::ranges::any_of(covered_, [&](const Covered& each) {
           return each.name == name && each.parent_device == stat->device &&
                  each.parent_inode == stat->attributes.fileid;
         });
}

Result<bool> Covers::Hold(int directory, int root) const {
  if (empty()) return false;
  const auto top = InodeOf(root);
  bool held = false;
  const auto look = [&](int fd, const Inode& identity) {
    const Result<Stat> stat = posix::StatOf(fd, volume_);
    held = held || !stat || Has(*stat);
    return held || identity == top;
  };
  PENSTOCK_TRY(const bool reached, AnyUpwards(directory, look));
  return held || !reached;
}

std::vector<std::byte> Covers::identity() const {
  std::vector<std::byte> octets;
  for (const Covered& each : covered_) {
    if (!each.in_identity) continue;
    octets.resize(octets.size() + 16);
    StoreBig(octets.data() + octets.size() - 16, each.device);
    StoreBig(octets.data() + octets.size() - 8, each.inode);
  }
  return octets;
}

}  // namespace penstock::fs::posix
