#include "fs/posix/fsid.h"

#include <fcntl.h>
#include <linux/ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/bytes.h"
#include "base/siphash.h"

namespace penstock::fs::posix {
namespace {

constexpr size_t kUuidSize = 16;

// Defined by Linux 6.9 and later in <linux/fs.h>.
struct KernelUuid {
  uint8_t size;
  uint8_t octets[kUuidSize];
};
constexpr unsigned long kGetUuid = _IOR(0x15, 0, KernelUuid);

// XFS_IOC_FSGEOMETRY_V1 with the place of the UUID. The kernel's headers do not define it.
struct XfsGeometry {
  uint32_t counts[8];
  uint64_t blocks[4];
  std::byte uuid[kUuidSize];
  uint32_t rest[8];
};
static_assert(sizeof(XfsGeometry) == 112);
constexpr unsigned long kXfsGetGeometry = _IOR('X', 100, XfsGeometry);
constexpr long kXfsMagic = 0x58465342;

uint64_t Fold(ConstBytes uuid) {
  if (uuid.size() != kUuidSize) return SipHash({0, 0}, uuid);
  // Computes the value as the kernel does for f_fsid.
  uint64_t halves[2];
  std::memcpy(halves, uuid.data(), sizeof halves);
  return halves[0] ^ halves[1];
}

// Parses "1b4e28ba-2fa1-11d2-883f-0016d3cca427", and the shorter identifiers of FAT and others.
std::vector<std::byte> ParseUuid(std::string_view text) {
  std::vector<std::byte> octets;
  int high = -1;
  for (const char c : text) {
    if (c == '-') continue;
    const size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
    if (digit == std::string_view::npos) return {};
    if (high < 0) {
      high = static_cast<int>(digit);
    } else {
      octets.push_back(static_cast<std::byte>(high << 4 | static_cast<int>(digit)));
      high = -1;
    }
  }
  return octets;
}

}  // namespace

bool IsDeviceNumber(uint64_t kernel_fsid, const Device& device) {
  // The encoding is that of the kernel's new_encode_dev().
  const uint64_t encoded = (device.minor & 0xff) | uint64_t{device.major} << 8 | uint64_t{device.minor & ~0xffu} << 12;
  return kernel_fsid == encoded;
}

uint64_t FsidOf(const FileSystemFacts& facts) {
  if (facts.kernel_fsid != 0 && !IsDeviceNumber(facts.kernel_fsid, facts.device)) return facts.kernel_fsid;
  const uint64_t folded = facts.uuid.empty() ? 0 : Fold(facts.uuid);
  return folded != 0 ? folded : makedev(facts.device.major, facts.device.minor);
}

std::vector<std::byte> FindUuid(int fd, const Device& device, const std::filesystem::path& by_uuid) {
  KernelUuid uuid{};
  if (::ioctl(fd, kGetUuid, &uuid) == 0 && uuid.size <= kUuidSize) {
    const ConstBytes octets = AsBytes(std::string_view(reinterpret_cast<const char*>(uuid.octets), uuid.size));
    return {octets.begin(), octets.end()};
  }
  struct statfs fs{};
  XfsGeometry geometry{};
  if (::fstatfs(fd, &fs) == 0 && fs.f_type == kXfsMagic && ::ioctl(fd, kXfsGetGeometry, &geometry) == 0) {
    return {std::begin(geometry.uuid), std::end(geometry.uuid)};
  }
  std::error_code error;
  std::vector<std::byte> found;
  for (auto at = std::filesystem::directory_iterator(by_uuid, error); !error && at != decltype(at)();
       at.increment(error)) {
    struct stat stat{};
    const bool is_it = ::stat(at->path().c_str(), &stat) == 0 && S_ISBLK(stat.st_mode) &&
                       stat.st_rdev == makedev(device.major, device.minor);
    if (is_it) found = std::max(found, ParseUuid(at->path().filename().native()));
  }
  return found;
}

uint64_t KernelFsidOf(const struct statfs& of) {
  uint64_t fsid;
  static_assert(sizeof fsid == sizeof of.f_fsid);
  std::memcpy(&fsid, &of.f_fsid, sizeof fsid);
  return fsid;
}

std::optional<uint64_t> SuperblockOf(int fd) {
  struct statx stat{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stat) != 0 || (stat.stx_mask & STATX_MNT_ID) == 0)
    return std::nullopt;
  // A line is "36 35 98:0 /root /mnt ...": the mount, its parent, and the device of the superblock.
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    uint64_t id = 0, parent = 0;
    unsigned major = 0, minor = 0;
    char colon = 0;
    if (words >> id >> parent >> major >> colon >> minor && id == stat.stx_mnt_id) return makedev(major, minor);
  }
  return std::nullopt;
}

}  // namespace penstock::fs::posix
