#include "fs/posix/kernel_handles.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/random.h"
#include "base/result.h"
#include "base/state_directory.h"
#include "fs/posix/error.h"
#include "fs/posix/path.h"

namespace penstock::fs::posix {
namespace {

// { kind: 1, tag: 8, the kernel's type: 1, the kernel's octets }
constexpr size_t kTagAt = 1;
constexpr size_t kTypeAt = 9;
constexpr size_t kOctetsAt = 10;
constexpr size_t kMaxOctets = Handle::kMaxSize - kOctetsAt;

struct KernelHandle {
  alignas(struct file_handle) std::byte bytes[sizeof(struct file_handle) + kMaxOctets];
  struct file_handle& get() { return *reinterpret_cast<struct file_handle*>(bytes); }
};

// How long to wait before each further try to open a handle. Another file takes microseconds to make, and milliseconds
// where the disk or the processors are busy.
constexpr std::chrono::microseconds kPauses[] = {std::chrono::microseconds(100), std::chrono::milliseconds(1),
                                                 std::chrono::milliseconds(10)};

}  // namespace

Result<std::unique_ptr<KernelHandles>> KernelHandles::Make(int root, const SipKey& key, OpenByHandle open_by_handle,
                                                           Covers covers) {
  std::unique_ptr<KernelHandles> handles(new KernelHandles(root, key, std::move(open_by_handle), std::move(covers)));
  // The root's own signature cannot include it; what is hashed before every other handle is its unsigned form.
  PENSTOCK_TRY(const Handle unbound, handles->Sign(root));
  const ConstBytes identity = unbound.bytes().subspan(kTypeAt);
  handles->root_identity_.assign(identity.begin(), identity.end());
  if (!handles->covers_.empty()) {
    std::vector<std::byte> text = handles->covers_.identity();
    text.insert(text.begin(), identity.begin(), identity.end());
    std::byte hash[sizeof(uint64_t)];
    StoreBig(hash, SipHash(key, text));
    handles->root_identity_.assign(std::begin(hash), std::end(hash));
  }
  PENSTOCK_TRY(handles->root_handle_, handles->Sign(root));
  if (!handles->Open(handles->root_handle_)) return std::unexpected(Error::kNotSupported);
  return handles;
}

uint64_t KernelHandles::Tag(ConstBytes kernel_part) const {
  std::byte text[1 + 2 * (1 + kMaxOctets)];
  size_t size = 0;
  const auto append = [&](ConstBytes bytes) {
    CopyBytes(Bytes(text).subspan(size), bytes);
    size += bytes.size();
  };
  text[size++] = static_cast<std::byte>(root_identity_.size());
  append(root_identity_);
  append(kernel_part);
  return SipHash(key_, ConstBytes(text).first(size));
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
  StoreBig<uint64_t>(bytes + kTagAt, Tag(ConstBytes(bytes).subspan(kTypeAt, 1 + octets)));
  return *Handle::FromBytes(ConstBytes(bytes).first(kOctetsAt + octets));
}

Result<Handle> KernelHandles::HandleOf(int fd, const Stat&, const Handle&, std::string_view) { return Sign(fd); }
Result<Handle> KernelHandles::HandleOfParent(int fd, const Stat&) { return Sign(fd); }

Result<FileDescriptor> KernelHandles::Open(const Handle& handle) {
  const ConstBytes bytes = handle.bytes();
  if (bytes.size() <= kOctetsAt || bytes[0] != static_cast<std::byte>(HandleKind::kKernel)) {
    return std::unexpected(Error::kBadHandle);
  }
  const ConstBytes octets = bytes.subspan(kOctetsAt);
  // Forged, another export's, or signed with a key that is lost.
  if (LoadBig<uint64_t>(bytes.data() + kTagAt) != Tag(bytes.subspan(kTypeAt))) return std::unexpected(Error::kStale);

  KernelHandle kernel;
  kernel.get().handle_bytes = static_cast<unsigned>(octets.size());
  kernel.get().handle_type = std::to_integer<int>(bytes[kTypeAt]);
  std::memcpy(kernel.get().f_handle, octets.data(), octets.size());
  FileDescriptor fd = OpenPatiently(kernel.get());
  if (!fd) {
    // The kernel finds fault with a handle of ours where its inode is gone.
    if (errno == EINVAL || errno == ENOENT) return std::unexpected(Error::kStale);
    return LastError();
  }
  struct stat stat;
  if (::fstat(fd.get(), &stat) != 0) return LastError();
  if (!S_ISDIR(stat.st_mode)) return fd;
  if (!IsBeneath(fd.get(), root_)) return std::unexpected(Error::kStale);
  PENSTOCK_TRY(const bool covered, covers_.Hold(fd.get(), root_));
  if (covered) return std::unexpected(Error::kStale);
  return fd;
}

// ENOMEM has two meanings. Either the kernel has no memory; or the file is gone, and another file with its inode number
// is being made at this moment (Linux: an inode in the state I_CREATING). The second one is over soon, and then the
// handle is stale. So try again a few times before the caller hears of it; errno is that of the last try.
FileDescriptor KernelHandles::OpenPatiently(struct file_handle& handle) const {
  constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor fd(open_by_handle_(root_, &handle, kFlags));
  for (const auto pause : kPauses) {
    if (fd || errno != ENOMEM) break;
    std::this_thread::sleep_for(pause);
    fd = FileDescriptor(open_by_handle_(root_, &handle, kFlags));
  }
  return fd;
}

SetupResult<SipKey> LoadHandleKey(const std::filesystem::path& directory) {
  constexpr const char* kLoss = "without it, clients must mount again";
  const std::filesystem::path path = directory / "handle-key";
  SipKey key;
  const Bytes octets(reinterpret_cast<std::byte*>(key.data()), sizeof key);
  PENSTOCK_TRY(const std::optional<std::string> kept, ReadStateFile(path, sizeof key, kLoss));
  if (kept) {
    if (kept->size() != sizeof key) return std::unexpected(DamagedStateFile(path, "too short", kLoss));
    CopyBytes(octets, AsBytes(*kept));
    return key;
  }
  FillRandomly(octets);
  PENSTOCK_CHECK(WriteStateFile(path, AsText(octets)));
  return key;
}

}  // namespace penstock::fs::posix
