#include "fs/posix/kernel_handles.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include "base/result.h"
#include "fs/errno.h"
#include "fs/export_key.h"
#include "fs/posix/path.h"

namespace penstock::fs::posix {
namespace {

// { kind: 1, tag of the rest: 8, digest of the covered directories: 4, the kernel's handle type: 1, the kernel's
// handle }
constexpr size_t kSignedAt = 9;
constexpr size_t kTypeAt = 13;
constexpr size_t kOctetsAt = 14;
constexpr size_t kMaxOctets = Handle::kMaxSize - kOctetsAt;

struct KernelHandle {
  alignas(struct file_handle) std::byte bytes[sizeof(struct file_handle) + kMaxOctets];
  struct file_handle& get() { return *reinterpret_cast<struct file_handle*>(bytes); }
};

// The pauses before each further attempt to open a handle. Another file is created within microseconds, or within
// milliseconds if the disk or the processors are busy.
constexpr std::chrono::microseconds kPauses[] = {std::chrono::microseconds(100), std::chrono::milliseconds(1),
                                                 std::chrono::milliseconds(10)};

// The time by the clock of the kernel's own file systems.
Timestamp Now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return {now.tv_sec, static_cast<uint32_t>(now.tv_nsec)};
}

}  // namespace

Result<std::unique_ptr<KernelHandles>> KernelHandles::Make(int root, const Volume& volume, const SipKey& key,
                                                           std::string_view export_name, Covers covers,
                                                           std::shared_ptr<KnownHandles> known,
                                                           OpenByHandle open_by_handle) {
  std::unique_ptr<KernelHandles> handles(
      new KernelHandles(root, volume, std::move(open_by_handle), std::move(covers), std::move(known)));
  PENSTOCK_TRY(const Handle unsigned_root, handles->Sign(root));
  handles->key_ = KeyOfExport(key, export_name, unsigned_root.bytes().subspan(kTypeAt));
  const std::vector<std::byte> covered = handles->covers_.identity();
  if (!covered.empty()) handles->covered_ = static_cast<uint32_t>(SipHash(handles->key_, covered));
  PENSTOCK_TRY(handles->root_handle_, handles->Sign(root));
  if (!handles->Open(handles->root_handle_)) return std::unexpected(Error::kNotSupported);
  return handles;
}

Result<Handle> KernelHandles::Sign(int fd) const {
  KernelHandle kernel;
  kernel.get().handle_bytes = kMaxOctets;
  int mount_id;
  if (::name_to_handle_at(fd, "", &kernel.get(), &mount_id, AT_EMPTY_PATH) != 0) return LastError();
  const int type = kernel.get().handle_type;
  const size_t octets = kernel.get().handle_bytes;
  if (type < 0 || type > 255) return std::unexpected(Error::kNotSupported);
  std::byte bytes[Handle::kMaxSize];
  bytes[0] = static_cast<std::byte>(HandleKind::kKernel);
  bytes[kTypeAt] = static_cast<std::byte>(type);
  std::memcpy(bytes + kOctetsAt, kernel.get().f_handle, octets);
  StoreBig<uint32_t>(bytes + kSignedAt, covered_);
  const ConstBytes whole = ConstBytes(bytes).first(kOctetsAt + octets);
  StoreBig<uint64_t>(bytes + kTagAt, SipHash(key_, whole.subspan(kSignedAt)));
  return *Handle::FromBytes(whole);
}

// Asks the kernel also if the handle is known: a handle that has become stale is replaced by the next look-up.
Result<Handle> KernelHandles::HandleOf(int fd, const Stat& stat) {
  PENSTOCK_TRY(const Handle handle, Sign(fd));
  if (remembers_ && stat.device == 0) known_->Keep(owner_, stat, handle, Now());
  return handle;
}

std::optional<Handle> KernelHandles::KnownHandleOf(const Stat& stat) {
  assert(stat.device == 0);  // that of StatOfEntry()
  return known_->Find(owner_, stat);
}

Result<Handle> KernelHandles::HandleOf(int fd, const Stat& stat, const Handle&, std::string_view) {
  return HandleOf(fd, stat);
}
Result<Handle> KernelHandles::HandleOfParent(int fd, const Stat& stat) { return HandleOf(fd, stat); }

Result<Identity> KernelHandles::Identify(const Handle& handle) const {
  const ConstBytes bytes = handle.bytes();
  PENSTOCK_CHECK(CheckKind(bytes, HandleKind::kKernel, kOctetsAt + 1));
  // The handle is forged, is another export's, or was signed with a lost key.
  if (LoadBig<uint64_t>(bytes.data() + kTagAt) != SipHash(key_, bytes.subspan(kSignedAt))) {
    return std::unexpected(Error::kBadHandle);
  }
  // The file of the handle may be covered now.
  if (LoadBig<uint32_t>(bytes.data() + kSignedAt) != covered_) return std::unexpected(Error::kStale);
  return Identity{superblock_, *Handle::FromBytes(bytes.subspan(kTypeAt))};
}

Result<FileDescriptor> KernelHandles::Open(const Handle& handle) {
  if (const auto known = Identify(handle); !known) return std::unexpected(known.error());
  const ConstBytes bytes = handle.bytes();
  const ConstBytes octets = bytes.subspan(kOctetsAt);
  KernelHandle kernel;
  kernel.get().handle_bytes = static_cast<unsigned>(octets.size());
  kernel.get().handle_type = std::to_integer<int>(bytes[kTypeAt]);
  std::memcpy(kernel.get().f_handle, octets.data(), octets.size());
  std::expected<FileDescriptor, int> opened = OpenPatiently(kernel.get());
  if (!opened) {
    // The kernel rejects a valid handle if its inode is gone.
    if (opened.error() == EINVAL || opened.error() == ENOENT) return std::unexpected(Error::kStale);
    return std::unexpected(FromErrno(opened.error()));
  }
  FileDescriptor fd = *std::move(opened);
  struct stat stat;
  if (::fstat(fd.get(), &stat) != 0) return LastError();
  if (!S_ISDIR(stat.st_mode)) return fd;
  if (!IsBeneath(fd.get(), root_)) return std::unexpected(Error::kStale);
  PENSTOCK_TRY(const bool covered, covers_.Hold(fd.get(), root_));
  if (covered) return std::unexpected(Error::kStale);
  return fd;
}

// ENOMEM has two meanings. Either the kernel has no memory, or the file is gone and another file with its inode
// number is being created at this moment (Linux: an inode in the state I_CREATING). The second case ends soon, and
// then the handle is stale. So the function tries several times before it returns the error.
std::expected<FileDescriptor, int> KernelHandles::OpenPatiently(struct file_handle& handle) const {
  constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  for (auto pause = std::begin(kPauses);; ++pause) {
    const int fd = open_by_handle_(root_, &handle, kFlags);
    if (fd >= 0) return FileDescriptor(fd);
    const int error = errno;
    if (error != ENOMEM || pause == std::end(kPauses)) return std::unexpected(error);
    std::this_thread::sleep_for(*pause);
  }
}

}  // namespace penstock::fs::posix
