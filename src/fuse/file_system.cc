#include "fuse/file_system.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/mix.h"

namespace penstock::fuse {

using client::Result;

// The most files that an error names.
constexpr size_t kMostNames = 8;

FileSystem::FileSystem(Loop& loop, Workers& workers, Users& users, Owners& owners, const client::Node& root,
                       const FileSystemOptions& options)
    : loop_(loop),
      workers_(workers),
      users_(users),
      owners_(owners),
      options_(options),
      first_file_system_(root.attributes.file_system),
      interrupts_(loop),
      write_memory_(options.write_memory),
      inodes_(root, options.times) {
  users_.first()->set_names(&inodes_);
}

FileSystem::~FileSystem() { users_.first()->set_names(nullptr); }

Task<std::optional<FileSystem::Target>> FileSystem::Find(Request& request, uint64_t inode) {
  Inode* const found = inodes_.Find(inode);
  if (!found) {
    request.Status(ESTALE);
    co_return std::nullopt;
  }
  Inodes::Pin pin(inodes_, *found);
  if (users_.is_single()) co_return Target{.inode = std::move(pin), .held = users_.first()};
  User user{.uid = request.uid(), .gid = request.gid(), .groups = request.groups()};
  auto mount = co_await users_.MountOf(std::move(user));
  if (Failed(request, mount)) co_return std::nullopt;
  co_return Target{.inode = std::move(pin), .held = *std::move(mount)};
}

client::Handle FileSystem::DirectoryOf(const Inode& inode) {
  Inode* const parent = inodes_.Find(inode.parent);
  return parent ? parent->handle : client::Handle();
}

std::string FileSystem::PathOf(const Inode& inode) {
  if (inode.number == Inodes::kRoot) return "/";
  std::string path;
  int depth = 0;
  for (const Inode* at = &inode; at && at->number != Inodes::kRoot && depth < 100; ++depth) {
    path.insert(0, "/" + at->name);
    at = inodes_.Find(at->parent);
  }
  return path;
}

Task<Result<void>> FileSystem::Finish() {
  co_await under_way_.Ended();
  // The end of the tree has surprised the programs that have these files open.
  while (!inodes_.open().empty()) co_await ReleaseFile((*inodes_.open().begin())->opens.front());
  co_await under_way_.Ended();
  if (lost_.empty()) co_return Result<void>();
  std::string names;
  size_t count = 0;
  for (const auto& [inode, path] : lost_) {
    if (count++ < kMostNames) names += (names.empty() ? "" : ", ") + path;
  }
  if (count > kMostNames) names += fmt::format(" and {} more", count - kMostNames);
  co_return std::unexpected(client::Error{
      fmt::format("data are lost, and the programs that have written them do not know: {}", names), std::nullopt, EIO});
}

// ---- attributes ----

namespace {

mode_t TypeBits(client::FileType type) {
  using enum client::FileType;
  switch (type) {
    case kDirectory:
      return S_IFDIR;
    case kSymlink:
      return S_IFLNK;
    case kBlockDevice:
      return S_IFBLK;
    case kCharacterDevice:
      return S_IFCHR;
    case kSocket:
      return S_IFSOCK;
    case kFifo:
      return S_IFIFO;
    default:
      return S_IFREG;
  }
}

timespec TimespecOf(const client::Time& time) { return {time.seconds, static_cast<long>(time.nanoseconds)}; }

double SecondsOf(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Task<struct stat> FileSystem::StatOf(const Inode& inode) {
  const client::Attributes a = inode.attributes;
  struct stat stat{};
  stat.st_ino = a.file_id;
  // Files of the server's other file systems may have the same numbers, and programs would take them for one file.
  if (a.file_system != first_file_system_) stat.st_ino ^= Mix(a.file_system, first_file_system_);
  stat.st_mode = TypeBits(a.type) | a.mode;
  // Programs have removed the name that the server still has.
  stat.st_nlink = a.links - (inode.hidden && a.links > 0 ? 1 : 0);
  stat.st_size = static_cast<off_t>(a.size);
  stat.st_blocks = static_cast<blkcnt_t>((a.used + 511) / 512);
  stat.st_rdev = makedev(a.device_major, a.device_minor);
  stat.st_atim = TimespecOf(a.accessed);
  stat.st_mtim = TimespecOf(a.modified);
  stat.st_ctim = TimespecOf(a.changed);
  stat.st_uid = co_await owners_.NumberOf(idmap::Kind::kUser, a.owner);
  stat.st_gid = co_await owners_.NumberOf(idmap::Kind::kGroup, a.group);
  co_return stat;
}

double FileSystem::TimeoutOf(const Inode& inode) const { return SecondsOf(inode.validity); }

// The attributes of a file whose data have not all been sent would be those of before.
Task<Result<void>> FileSystem::Refresh(client::Mount& mount, Inode& inode) {
  if (inode.writes && inode.writes->unsent_end() > 0) co_await inode.writes->Send();
  const FileEnd::Question question = inode.AskForEnd();
  PENSTOCK_CO_TRY(const client::Attributes attributes, co_await mount.GetAttributes(inode.handle, PathOf(inode)));
  inodes_.Update(inode, attributes);
  inode.end.HandleAnswer(question, attributes.size, loop_.Now());
  co_return Result<void>();
}

Task<Result<void>> FileSystem::RefreshAll(client::Mount& mount, Inode& inode) {
  const uint64_t before = inode.attributes.change;
  PENSTOCK_CO_CHECK(co_await Refresh(mount, inode));
  if (inode.attributes.change != before && kernel_cache_) kernel_cache_->DropAttributes(inode.number);
  co_return Result<void>();
}

Task<void> FileSystem::GetAttributes(RequestPointer request, uint64_t inode) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  if (Failed(*request, co_await Refresh(target->mount, *target->inode))) co_return;
  const struct stat stat = co_await StatOf(*target->inode);
  request->Attributes(stat, TimeoutOf(*target->inode));
}

namespace {

std::variant<client::ServerTime, client::Time> NewTime(bool now, const timespec& time) {
  if (now) return client::ServerTime();
  return client::Time{time.tv_sec, static_cast<uint32_t>(time.tv_nsec)};
}

// All but the size.
client::NewAttributes NewAttributesOf(const struct stat& attributes, int to_set) {
  client::NewAttributes set;
  if (to_set & FUSE_SET_ATTR_MODE) set.mode = attributes.st_mode & 07777;
  if (to_set & FUSE_SET_ATTR_UID) set.owner = std::to_string(attributes.st_uid);
  if (to_set & FUSE_SET_ATTR_GID) set.group = std::to_string(attributes.st_gid);
  if (to_set & FUSE_SET_ATTR_ATIME) {
    set.accessed = NewTime((to_set & FUSE_SET_ATTR_ATIME_NOW) != 0, attributes.st_atim);
  }
  if (to_set & FUSE_SET_ATTR_MTIME) {
    set.modified = NewTime((to_set & FUSE_SET_ATTR_MTIME_NOW) != 0, attributes.st_mtim);
  }
  return set;
}

bool IsEmpty(const client::NewAttributes& set) {
  return !set.mode && !set.owner && !set.group && !set.accessed && !set.modified;
}

}  // namespace

Task<Result<void>> FileSystem::ChangeSize(const Target& target, uint64_t size, OpenFile* file) {
  Inode& inode = *target.inode;
  ForgetData(inode, 0, ~uint64_t{0});
  inode.end.Forget();
  if (file) co_return co_await file->file->SetSize(size);
  const client::NewAttributes set{.size = size};
  co_return co_await target.mount.SetAttributes(inode.handle, PathOf(inode), set);
}

Task<void> FileSystem::SetAttributes(RequestPointer request, uint64_t inode, struct stat attributes, int to_set,
                                     std::optional<fuse_file_info> info) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  Inode& at = *target->inode;
  std::optional<Used::Use> use;
  if (info) use.emplace(*reinterpret_cast<OpenFile*>(info->fh));
  // Data on their way must neither come behind the new size nor change the new times.
  if (at.writes) co_await at.writes->Send();
  if (to_set & FUSE_SET_ATTR_SIZE) {
    OpenFile* file = info ? reinterpret_cast<OpenFile*>(info->fh) : nullptr;
    if (file && !file->writes) file = nullptr;
    const auto size = static_cast<uint64_t>(attributes.st_size);
    if (at.writes) co_await at.writes->Settle();
    if (Failed(*request, co_await ChangeSize(*target, size, file))) co_return;
  }
  const client::NewAttributes set = NewAttributesOf(attributes, to_set);
  if (!IsEmpty(set)) {
    if (Failed(*request, co_await target->mount.SetAttributes(at.handle, PathOf(at), set))) co_return;
  }
  if (Failed(*request, co_await Refresh(target->mount, at))) co_return;
  const struct stat stat = co_await StatOf(at);
  request->Attributes(stat, TimeoutOf(at));
}

Task<void> FileSystem::CheckAccess(RequestPointer request, uint64_t inode, int mask) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  const bool is_directory = target->inode->type == client::FileType::kDirectory;
  uint32_t rights = 0;
  if (mask & R_OK) rights |= client::right::kRead;
  if (mask & W_OK) {
    rights |= client::right::kModify | client::right::kExtend | (is_directory ? client::right::kDelete : 0);
  }
  if (mask & X_OK) rights |= is_directory ? client::right::kLookup : client::right::kExecute;
  auto granted = co_await target->mount.CheckAccess(target->inode->handle, PathOf(*target->inode), rights);
  if (Failed(*request, granted)) co_return;
  // Of the rights to write, a server may know only some.
  const bool may_write = !(mask & W_OK) || (granted->rights & (client::right::kModify | client::right::kExtend)) != 0;
  const uint32_t others = rights & (client::right::kRead | client::right::kLookup | client::right::kExecute);
  request->Status(may_write && (granted->rights & others) == others ? 0 : EACCES);
}

Task<void> FileSystem::GetRoom(RequestPointer request, uint64_t inode) {
  auto target = co_await Find(*request, inode);
  if (!target) co_return;
  auto space = co_await target->mount.GetSpace(target->inode->handle, PathOf(*target->inode));
  if (Failed(*request, space)) co_return;
  constexpr uint64_t kUnit = 4096;
  struct statvfs room{};
  room.f_bsize = target->mount.sizes().write;
  room.f_frsize = kUnit;
  room.f_blocks = space->total / kUnit;
  room.f_bfree = space->free / kUnit;
  room.f_bavail = space->available / kUnit;
  room.f_files = space->total_files;
  room.f_ffree = space->free_files;
  room.f_favail = space->available_files;
  room.f_namemax = LongestName(*space);
  request->FileSystem(room);
}

}  // namespace penstock::fuse
