// What a file system is called in attributes (fsid), so that it has the same name whenever and however it is attached.
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

// What the kernel tells of a file system.
struct FileSystemFacts {
  // statfs()'s f_fsid. ext4, btrfs and tmpfs make it of their UUID, btrfs of the subvolume's number besides. XFS, FAT, ISO 9660
  // and many more give the device number, and FUSE gives zero.
  uint64_t kernel_fsid = 0;
  Device device;                  // st_dev
  std::vector<std::byte> uuid{};  // mostly 16 octets; empty where nobody knows one
};

// Never zero for a file system that has a device. The UUID is used where f_fsid would be another one after a disk is
// attached anew; where there is none, the device number is.
uint64_t FsidOf(const FileSystemFacts& facts);

// Whether f_fsid says no more than the device number does.
bool IsDeviceNumber(uint64_t kernel_fsid, const Device& device);

// The UUID of the file system that `fd` has open for reading. Asks the kernel (FS_IOC_GETFSUUID of Linux 6.9 and later, XFS of
// any version), and then looks for the device in `by_uuid`, which udev keeps.
std::vector<std::byte> FindUuid(int fd, const Device& device,
                                const std::filesystem::path& by_uuid = "/dev/disk/by-uuid");

uint64_t KernelFsidOf(const struct statfs& of);

// The device number of the file system as a whole that `fd` has open. Where parts of it have numbers of their own (btrfs), that is
// not the st_dev of any file. Nothing where /proc does not tell.
std::optional<uint64_t> SuperblockOf(int fd);

}  // namespace penstock::fs::posix
