#include "fs/ceph/covers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/bytes.h"
#include "fs/errno.h"

namespace penstock::fs::ceph {
namespace {

namespace stdfs = std::filesystem;

struct PutBack {
  Client* client;
  void operator()(Inode* inode) const { client->Put(inode); }
};

}  // namespace

int Covers::Find(Client& client, Inode* root, const std::string& path, Covered& covered) {
  const stdfs::path whole(path);
  std::unique_ptr<Inode, PutBack> at(nullptr, {&client});
  Stat stat;
  const auto step = [&](const std::string& name) {
    Inode* found = nullptr;
    const int code = client.Lookup(kAsRoot, at ? at.get() : root, name, found, stat);
    if (code >= 0) at.reset(found);
    return code;
  };
  if (const int code = client.GetAttributes(root, stat, Client::Freshness::kCurrent); code < 0) return code;
  for (const stdfs::path& name : whole.parent_path()) {
    if (const int code = step(name.string()); code < 0) return code;
  }
  covered = {.parent = stat.number.ino, .name = whole.filename().string(), .ino = {}};
  const int code = step(covered.name);
  if (code >= 0) covered.ino = stat.number.ino;
  return code == -ENOENT ? 0 : code;
}

SetupResult<Covers> Covers::Make(Client& client, Inode* root, std::span<const std::string> paths) {
  Covers covers;
  for (const std::string& path : paths) {
    Covered covered;
    const int code = Find(client, root, path, covered);
    if (code == -ENOENT || code == -ENOTDIR) continue;
    if (code < 0) {
      return std::unexpected(
          SetupError{fmt::format("the directory {} in it, of another export: {}", path, DescribeErrno(-code)), -code});
    }
    covers.covered_.push_back(std::move(covered));
  }
  std::ranges::sort(covers.covered_, {}, &Covered::ino);
  return covers;
}

bool Covers::Has(const InodeNumber& object) const {
  return std::ranges::find(covered_, object.ino, &Covered::ino) != covered_.end();
}

bool Covers::HasPlace(const InodeNumber& directory, std::string_view name) const {
  return std::ranges::any_of(covered_,
                             [&](const Covered& each) { return each.parent == directory.ino && each.name == name; });
}

std::vector<std::byte> Covers::identity() const {
  std::vector<std::byte> octets;
  for (const Covered& each : covered_) {
    if (!each.ino) continue;
    octets.resize(octets.size() + 8);
    StoreBig<uint64_t>(octets.data() + octets.size() - 8, *each.ino);
  }
  return octets;
}

}  // namespace penstock::fs::ceph
