#include "base/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace penstock {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// Reads "MemTotal:   24576000 kB" in /proc/meminfo.
uint64_t Total(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string name;
  uint64_t kibibytes = 0;
  while (file >> name >> kibibytes) {
    if (name == "MemTotal:") return kibibytes << 10;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kUnlimited;
}

// Reads the number in a file. Version 2 of control groups writes "max" for no limit.
uint64_t LimitIn(const std::filesystem::path& file) {
  std::ifstream stream(file);
  uint64_t octets = 0;
  return stream >> octets ? octets : kUnlimited;
}

// Returns the lowest limit of a group and of its ancestors. A container may see its own group as the root.
uint64_t LimitOfGroup(const std::filesystem::path& mount, std::filesystem::path group, const char* file) {
  uint64_t least = LimitIn(mount / file);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
    least = std::min(least, LimitIn(mount / group / file));
  }
  return least;
}

}  // namespace

uint64_t MachineMemory(const std::filesystem::path& root) {
  uint64_t least = Total(root);
  // Each line is "number:controllers:path".
  std::ifstream groups(root / "proc/self/cgroup");
  const std::filesystem::path mount = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") least = std::min(least, LimitOfGroup(mount, path, "memory.max"));
    if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, LimitOfGroup(mount / "memory", path, "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace penstock
