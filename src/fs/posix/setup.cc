// posix::FileSystem::Open: checks and prepares everything before the first request.
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/log.h"
#include "base/result.h"
#include "base/workers.h"
#include "fs/acl_octets.h"
#include "fs/posix/file_system.h"
#include "fs/posix/handle_key.h"
#include "fs/posix/kernel_handles.h"
#include "fs/posix/path.h"
#include "fs/posix/quota.h"
#include "fs/posix/table_handles.h"

namespace penstock::fs::posix {
namespace {

namespace stdfs = std::filesystem;

template <class... Arguments>
std::unexpected<SetupError> Failure(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return std::unexpected(SetupError{fmt::format(format, std::forward<Arguments>(arguments)...)});
}

SetupResult<FileDescriptor> OpenRoot(const stdfs::path& root) {
  FileDescriptor fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) return fd;
  const int error = errno;
  const auto fail = [&](std::string message) { return std::unexpected(SetupError{std::move(message), error}); };
  switch (error) {
    case ENOENT:
      return fail(fmt::format("no such directory: {}", root.string()));
    case ENOTDIR:
      return fail(fmt::format("not a directory: {}", root.string()));
    case EACCES:
      return fail(fmt::format("no permission to read the directory {}", root.string()));
    default:
      return fail(fmt::format("cannot open the directory {}: {}", root.string(), DescribeErrno(error)));
  }
}

SetupResult<void> CheckKernel(int root) {
  const Result<FileDescriptor> itself = *OpenEntry(root, ".", Patience::kMayBlock);
  if (!itself) return Failure("cannot use openat2(): it needs Linux 5.12 or later, and a container that permits it");
  const Result<FileDescriptor> reopened = Reopen(root, O_PATH);
  if (!reopened || !IsBeneath(root, root)) return Failure("cannot use /proc/self/fd: /proc must be mounted");
  return {};
}

// Names a different table for each export and each directory that it serves.
stdfs::path TableFile(const stdfs::path& state_directory, const stdfs::path& root, std::string_view export_name) {
  std::error_code error;
  const stdfs::path canonical = stdfs::canonical(root, error);
  std::string name = error ? root.native() : canonical.native();
  name += '\0';
  name += export_name;
  return state_directory / fmt::format("handles-{:016x}.sqlite", SipHash({0, 0}, AsBytes(name)));
}

SetupResult<std::unique_ptr<HandleSource>> MakeHandles(const stdfs::path& root, int fd, const Volume& volume,
                                                       const Covers& covers, const Options& options) {
  PENSTOCK_TRY(const SipKey key, LoadHandleKey(options.state_directory));
  if (options.handles != HandleMethod::kTable) {
    Result<std::unique_ptr<KernelHandles>> kernel =
        KernelHandles::Make(fd, volume, key, options.export_name, covers,
                            options.known_handles ? options.known_handles : std::make_shared<KnownHandles>());
    if (kernel) return std::move(*kernel);
    if (options.handles == HandleMethod::kKernel) {
      return Failure(
          "the kernel gives no file handles for {}: it needs CAP_DAC_READ_SEARCH and a file system that can "
          "be exported",
          root.string());
    }
    log::debug("the kernel gives no file handles for {}: the server keeps a table of handles in {}", root.string(),
               options.state_directory.string());
  }
  PENSTOCK_TRY(std::unique_ptr<TableHandles> table,
               TableHandles::Make(fd, volume, key, options.export_name, covers,
                                  TableFile(options.state_directory, root, options.export_name)));
  return table;
}

bool KeepsXattr(int fd, const char* name) { return ::fgetxattr(fd, name, nullptr, 0) >= 0 || errno == ENODATA; }

// Checks whether the file system can clone files, with two files that have no name.
bool CanClone(int directory) {
  const FileDescriptor from(::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  const FileDescriptor to(::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  return from && to && ::ioctl(to.get(), FICLONE, from.get()) == 0;
}

// ext4 lists a directory in the order of the hashes of its names, 31 bits and 32 more bits. A cookie is the hash of the
// next name.
bool HasPositionalCookies(int fd) {
  struct statfs fs;
  return ::fstatfs(fd, &fs) == 0 && fs.f_type == EXT4_SUPER_MAGIC;
}

Properties PropertiesOf(int fd, const Volume& volume) {
  Properties properties;
  properties.read_only = volume.read_only;
  properties.xattrs = KeepsXattr(fd, "user.penstock");
  properties.acls = KeepsXattr(fd, kAccessAcl);
  properties.quotas = KeepsQuotas(fd);
  properties.positional_cookies = HasPositionalCookies(fd);
  struct statvfs fs;
  if (::fstatvfs(fd, &fs) == 0) {
    properties.name_max = static_cast<uint32_t>(fs.f_namemax);
    if (CanClone(fd)) properties.clone_block_size = static_cast<uint32_t>(fs.f_bsize);
  }
  const long link_max = ::fpathconf(fd, _PC_LINK_MAX);
  properties.link_max = link_max > 0 ? static_cast<uint32_t>(std::min<long>(link_max, UINT32_MAX)) : UINT32_MAX;
  return properties;
}

}  // namespace

SetupResult<std::unique_ptr<FileSystem>> FileSystem::Open(const stdfs::path& root, Workers& pool,
                                                          const Options& options) {
  PENSTOCK_TRY(FileDescriptor fd, OpenRoot(root));
  PENSTOCK_CHECK(CheckKernel(fd.get()));
  const Result<Volume> volume =
      VolumeOf(fd.get(), options.changes ? options.changes : std::make_shared<ChangeCounters>());
  if (!volume) return Failure("cannot read the attributes of {}: {}", root.string(), ToString(volume.error()));

  Tree::Parts parts{std::move(fd),         *volume,         nullptr, options.objects,
                    options.sync_metadata, WriteVerifier(), {},      options.rights};
  parts.covers = Covers(parts.root.get(), *volume, options.others, options.hidden);
  PENSTOCK_TRY(parts.handles, MakeHandles(root, parts.root.get(), *volume, parts.covers, options));
  if (!parts.objects) parts.objects = std::make_shared<OpenObjects>(OpenObjects::MaxDescriptors(0));
  uint64_t verifier = 0;
  if (::getrandom(&verifier, sizeof verifier, 0) != sizeof verifier)
    return Failure("cannot get random octets from the kernel");
  parts.verifier = WriteVerifier(verifier);
  Properties properties = PropertiesOf(parts.root.get(), *volume);
  properties.writers_need_pin = !ServerIdentity(options.rights).acts_as_callers();
  return std::unique_ptr<FileSystem>(new FileSystem(std::move(parts), pool, options, properties));
}

bool FileSystem::IsOf(const stdfs::path& root, const Options& options) const {
  const FileDescriptor fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat there{}, here{};
  if (!fd || ::fstat(fd.get(), &there) != 0 || ::fstat(tree_.root_directory().get(), &here) != 0) return false;
  // The same directory may also be reached by another mount, with other options such as "ro".
  const auto mount_of = [](int directory) {
    struct statx stat{};
    return ::statx(directory, "", AT_EMPTY_PATH, STATX_MNT_ID, &stat) == 0 ? stat.stx_mnt_id : 0;
  };
  return there.st_dev == here.st_dev && there.st_ino == here.st_ino &&
         mount_of(fd.get()) == mount_of(tree_.root_directory().get()) &&
         Covers(tree_.root_directory().get(), tree_.volume(), options.others, options.hidden) == tree_.covers();
}

}  // namespace penstock::fs::posix
