#include "fs/ceph/covers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

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
  std::unique_ptr<Inode, PutBack> at(nullptr, {&client});
  Stat stat;
  if (const int code = client.GetAttributes(root, stat, Client::Freshness::kCurrent); code < 0) return code;
  for (const stdfs::path& name : stdfs::path(path)) {
    covered.parent = stat.number.ino;
    covered.above.push_back(stat.number.ino);
    covered.name = name.string();
    Inode* found = nullptr;
    const int code = client.Lookup(kAsRoot, at ? at.get() : root, covered.name, found, stat);
    if (code == -ENOENT || code == -ENOTDIR) return 0;
    if (code < 0) return code;
    at.reset(found);
  }
  covered.ino = stat.number.ino;
  return 0;
}

SetupResult<Covers> Covers::Make(Client& client, Inode* root, std::span<const std::string> paths) {
  Covers covers;
  for (const std::string& path : paths) {
    Covered covered;
    const int code = Find(client, root, path, covered);
    if (code < 0) {
      return std::unexpected(
          SetupError{fmt::format("the directory {} in it, of another export: {}", path, DescribeErrno(-code)), -code});
    }
    covers.covered_.push_back(std::move(covered));
  }
  return covers;
}

bool Covers::Has(const InodeNumber& object) const {
  return std::ranges::find(covered_, object.ino, &Covered::ino) != covered_.end();
}

bool Covers::HasPlace(const InodeNumber& directory, std::string_view name) const {
  return std::ranges::any_of(covered_, [&](const Covered& each) { return each.name == name && each.IsIn(directory); });
}

bool Covers::IsAbove(const InodeNumber& directory) const {
  return std::ranges::any_of(
      covered_, [&](const Covered& each) { return std::ranges::find(each.above, directory.ino) != each.above.end(); });
}

int Covers::CheckPlaces(Client& client, Inode* directory, const InodeNumber& number, const InodeNumber& object) const {
  for (const Covered& each : covered_) {
    if (!each.IsIn(number)) continue;
    Inode* found = nullptr;
    Stat stat;
    const int code = client.Lookup(kAsRoot, directory, each.name, found, stat);
    if (code == -ENOENT) continue;
    if (code < 0) return code;
    client.Put(found);
    if (stat.number == object) return -ESTALE;
  }
  return 0;
}

}  // namespace penstock::fs::ceph
