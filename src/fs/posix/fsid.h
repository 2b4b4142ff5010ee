// The identifier (fsid) that attributes give for a file system. It stays the same when the file system is attached
// again or differently.
#pragma once

#include <sys/statfs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "fs/types.h"

namespace penstock::fs::posix {

// The kernel's information about a file system.
struct FileSystemFacts {
  // f_fsid of statfs(). ext4, btrfs and tmpfs derive it from their UUID, btrfs also from the subvolume's number. XFS,
  // FAT, ISO 9660 and many others report the device number, and FUSE reports zero.
  uint64_t kernel_fsid = 0;
  Device device;                  // st_dev
  std::vector<std::byte> uuid{};  // mostly 16 octets; empty if it is unknown
};

// Returns the fsid. It is not zero for a file system that has a device. The UUID is used if f_fsid changes when a
// disk is attached again; without a UUID, the device number is used.
uint64_t FsidOf(const FileSystemFacts& facts);

// Whether f_fsid is only the device number in another form.
bool IsDeviceNumber(uint64_t kernel_fsid, const Device& device);

// Finds the UUID of the file system of `fd`, which is open for reading. Asks the kernel (FS_IOC_GETFSUUID of Linux
// 6.9 and later, XFS of any version), and then looks for the device in `by_uuid`, which udev maintains.
std::vector<std::byte> FindUuid(int fd, const Device& device,
                                const std::filesystem::path& by_uuid = "/dev/disk/by-uuid");

uint64_t KernelFsidOf(const struct statfs& of);

// Returns the device number of the whole file system of `fd`. If parts of it have their own numbers (btrfs), no file
// has this number as its st_dev. Returns no value if /proc does not tell it.
std::optional<uint64_t> SuperblockOf(int fd);

}  // namespace penstock::fs::posix
