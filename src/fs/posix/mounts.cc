#include "fs/posix/mounts.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace penstock::fs::posix {
namespace {

namespace stdfs = std::filesystem;

// Their files belong to the kernel, or wait for a mount.
constexpr std::array<std::string_view, 19> kWithoutUsersFiles = {
    "autofs",  "binfmt_misc", "bpf",    "cgroup", "cgroup2", "configfs", "debugfs",    "devpts", "devtmpfs", "efivarfs",
    "fusectl", "hugetlbfs",   "mqueue", "nsfs",   "proc",    "pstore",   "securityfs", "sysfs",  "tracefs"};

// In mountinfo a space, a tab, a newline and a backslash are octal escapes (proc(5)).
std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && is_octal(i + 1) && is_octal(i + 2) && is_octal(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

SetupResult<std::vector<stdfs::path>> MountsBelow(const stdfs::path& directory) {
  std::error_code error;
  const stdfs::path top = stdfs::canonical(directory, error);
  // Without the directory, everything would seem to be below it.
  if (error) return std::unexpected(SetupError{fmt::format("{}: {}", directory.string(), error.message())});
  std::ifstream file("/proc/self/mountinfo");
  if (!file.is_open()) return std::unexpected(SetupError{"cannot read /proc/self/mountinfo: /proc must be mounted"});
  const std::string prefix = top == "/" ? "/" : top.native() + "/";
  std::set<stdfs::path> found;  // an outer path is less than those below it
  for (std::string line; std::getline(file, line);) {
    // 36 35 98:0 /root /mount/point options [fields] - type source super-options
    std::istringstream words(line);
    std::string id, parent, device, root, point, word, type;
    words >> id >> parent >> device >> root >> point;
    while (words >> word && word != "-") {
    }
    words >> type;
    const std::string path = Unescape(point);
    if (!path.starts_with(prefix) || path == prefix ||
        std::ranges::find(kWithoutUsersFiles, type) != kWithoutUsersFiles.end())
      continue;
    // A file may be a mount point, too.
    if (stdfs::is_directory(path, error)) found.insert(path);
  }
  return std::vector<stdfs::path>(found.begin(), found.end());
}

bool IsMountPoint(const stdfs::path& directory) {
  struct statx stat{};
  if (::statx(AT_FDCWD, directory.c_str(), AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &stat) != 0) return false;
  return (stat.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
         (stat.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 && S_ISDIR(stat.stx_mode);
}

}  // namespace penstock::fs::posix
