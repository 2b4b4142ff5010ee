#include "fs/ceph/module/client.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mix.h"
#include "fs/ceph/module/cluster.h"
#include "fs/ceph/module/libcephfs.h"
#include "fs/file_mode.h"

namespace penstock::fs::ceph {

// A directory that is being listed, and the memory of its current entry.
struct OpenDirectory {
  ceph_dir_result* stream = nullptr;
  uint64_t snapshot = kNoSnapshot;
  dirent entry{};
};

namespace {

constexpr unsigned kWanted = CEPH_STATX_ALL_STATS;

::Inode* Raw(Inode* inode) { return reinterpret_cast<::Inode*>(inode); }
::Fh* Raw(OpenFile* file) { return reinterpret_cast<::Fh*>(file); }

Timestamp TimeOf(const timespec& time) { return {time.tv_sec, static_cast<uint32_t>(time.tv_nsec)}; }
timespec SpecOf(const Timestamp& time) { return {time.seconds, static_cast<long>(time.nanoseconds)}; }

// An object has the same inode number in every snapshot, but NFS knows no snapshots.
uint64_t FileidOf(const InodeNumber& number) {
  return number.snapshot == kNoSnapshot ? number.ino : Mix(Mix(0, number.ino), number.snapshot);
}

// The user of a call.
class Perms {
 public:
  explicit Perms(const Credentials& caller)
      : perms_(::ceph_userperm_new(UidOf(caller), GidOf(caller), static_cast<int>(caller.groups.size()),
                                   const_cast<gid_t*>(caller.groups.data()))) {
    if (!perms_) throw std::bad_alloc();
  }
  Perms(const Perms&) = delete;
  Perms& operator=(const Perms&) = delete;
  ~Perms() { ::ceph_userperm_destroy(perms_); }
  operator const ::UserPerm*() const { return perms_; }

 private:
  ::UserPerm* perms_;
};

struct Facts {
  uint64_t fsid = 0;
  uint64_t max_file_size = 0;
};

class MountedClient final : public Client {
 public:
  MountedClient(std::unique_ptr<Cluster> cluster, ceph_mount_info* mount, const Facts& facts)
      : cluster_(std::move(cluster)), mount_(mount), facts_(facts) {}
  ~MountedClient() override {
    if (::ceph_unmount(mount_) != 0) ::ceph_abort_conn(mount_);
    ::ceph_release(mount_);
  }

  uint64_t fsid() const override { return facts_.fsid; }
  uint64_t max_file_size() const override { return facts_.max_file_size; }

  int Root(Inode*& root) override { return ::ceph_ll_lookup_root(mount_, Out(root)); }
  int Find(const InodeNumber& number, Inode*& inode) override {
    if (number.snapshot != kSnapshotDirectory) return Find(number.ino, number.snapshot, inode);
    // The MDS knows these by their names alone.
    Inode* directory = nullptr;
    if (const int code = Find(number.ino, kNoSnapshot, directory); code < 0) return code;
    Stat stat;
    const int code = Lookup(kAsRoot, directory, ".snap", inode, stat);
    Put(directory);
    return code;
  }
  void Put(Inode* inode) override { ::ceph_ll_put(mount_, Raw(inode)); }

  int Lookup(const Credentials& caller, Inode* directory, const std::string& name, Inode*& found, Stat& stat) override {
    struct ceph_statx got{};
    const int code =
        ::ceph_ll_lookup(mount_, Raw(directory), name.c_str(), Out(found), &got, kWanted, 0, Perms(caller));
    return Finish(code, got, stat);
  }
  int SetAttributes(const Credentials& caller, Inode* inode, const NewStat& values) override {
    struct ceph_statx to{};
    int mask = 0;
    if (values.mode) to.stx_mode = static_cast<uint16_t>(*values.mode), mask |= CEPH_SETATTR_MODE;
    if (values.uid) to.stx_uid = *values.uid, mask |= CEPH_SETATTR_UID;
    if (values.gid) to.stx_gid = *values.gid, mask |= CEPH_SETATTR_GID;
    if (values.size) to.stx_size = *values.size, mask |= CEPH_SETATTR_SIZE;
    if (values.atime) to.stx_atime = SpecOf(*values.atime), mask |= CEPH_SETATTR_ATIME;
    if (values.mtime) to.stx_mtime = SpecOf(*values.mtime), mask |= CEPH_SETATTR_MTIME;
    return ::ceph_ll_setattr(mount_, Raw(inode), &to, mask, Perms(caller));
  }
  int Create(const Credentials& caller, Inode* directory, const std::string& name, uint32_t mode, Inode*& made,
             OpenFile*& file, Stat& stat) override {
    struct ceph_statx got{};
    ::Fh* opened = nullptr;
    const int code = ::ceph_ll_create(mount_, Raw(directory), name.c_str(), mode, O_CREAT | O_EXCL | O_RDWR, Out(made),
                                      &opened, &got, kWanted, 0, Perms(caller));
    file = reinterpret_cast<OpenFile*>(opened);
    return Finish(code, got, stat);
  }
  int MakeDirectory(const Credentials& caller, Inode* directory, const std::string& name, uint32_t mode, Inode*& made,
                    Stat& stat) override {
    struct ceph_statx got{};
    const int code =
        ::ceph_ll_mkdir(mount_, Raw(directory), name.c_str(), mode, Out(made), &got, kWanted, 0, Perms(caller));
    return Finish(code, got, stat);
  }
  int MakeSymlink(const Credentials& caller, Inode* directory, const std::string& name, const std::string& target,
                  Inode*& made, Stat& stat) override {
    struct ceph_statx got{};
    const int code = ::ceph_ll_symlink(mount_, Raw(directory), name.c_str(), target.c_str(), Out(made), &got, kWanted,
                                       0, Perms(caller));
    return Finish(code, got, stat);
  }
  int MakeNode(const Credentials& caller, Inode* directory, const std::string& name, uint32_t mode,
               const Device& device, Inode*& made, Stat& stat) override {
    struct ceph_statx got{};
    const int code = ::ceph_ll_mknod(mount_, Raw(directory), name.c_str(), mode, makedev(device.major, device.minor),
                                     Out(made), &got, kWanted, 0, Perms(caller));
    return Finish(code, got, stat);
  }
  int Unlink(const Credentials& caller, Inode* directory, const std::string& name) override {
    return ::ceph_ll_unlink(mount_, Raw(directory), name.c_str(), Perms(caller));
  }
  int RemoveDirectory(const Credentials& caller, Inode* directory, const std::string& name) override {
    return ::ceph_ll_rmdir(mount_, Raw(directory), name.c_str(), Perms(caller));
  }
  int Rename(const Credentials& caller, Inode* from, const std::string& from_name, Inode* to,
             const std::string& to_name) override {
    Inode* moved = nullptr;
    Stat stat;
    int code = Lookup(caller, from, from_name, moved, stat);
    if (code == -ENOENT) return code;
    if (code >= 0) Put(moved);
    code = ::ceph_ll_rename(mount_, Raw(from), from_name.c_str(), Raw(to), to_name.c_str(), Perms(caller));
    if (code == -ENOENT) ForgetNames();
    return code;
  }
  int Link(const Credentials& caller, Inode* inode, Inode* directory, const std::string& name) override {
    return ::ceph_ll_link(mount_, Raw(inode), Raw(directory), name.c_str(), Perms(caller));
  }
  int OpenDir(const Credentials& caller, Inode* directory, OpenDirectory*& opened) override {
    Stat stat;
    if (const int code = GetAttributes(directory, stat, Freshness::kCached); code < 0) return code;
    auto made = std::make_unique<OpenDirectory>();
    made->snapshot = stat.number.snapshot;
    const int code = ::ceph_ll_opendir(mount_, Raw(directory), &made->stream, Perms(caller));
    if (code >= 0) opened = made.release();
    return code;
  }
  int GetXattr(const Credentials& caller, Inode* inode, const std::string& name,
               std::vector<std::byte>& value) override {
    const Perms perms(caller);
    // The value may grow between the two calls.
    for (int attempt = 0; attempt < 8; ++attempt) {
      const int size = ::ceph_ll_getxattr(mount_, Raw(inode), name.c_str(), nullptr, 0, perms);
      if (size < 0) return size;
      value.resize(static_cast<size_t>(size));
      // A size of zero would ask for the size again.
      if (size == 0) return 0;
      const int got = ::ceph_ll_getxattr(mount_, Raw(inode), name.c_str(), value.data(), value.size(), perms);
      if (got == -ERANGE) continue;
      if (got >= 0) value.resize(static_cast<size_t>(got));
      return std::min(got, 0);
    }
    return -EAGAIN;
  }
  int SetXattr(const Credentials& caller, Inode* inode, const std::string& name, ConstBytes value, int flags) override {
    // Without a value, libcephfs would remove the attribute.
    const void* const octets = value.empty() ? static_cast<const void*>("") : value.data();
    return ::ceph_ll_setxattr(mount_, Raw(inode), name.c_str(), octets, value.size(), flags, Perms(caller));
  }
  int RemoveXattr(const Credentials& caller, Inode* inode, const std::string& name) override {
    return ::ceph_ll_removexattr(mount_, Raw(inode), name.c_str(), Perms(caller));
  }
  int ListXattrs(const Credentials& caller, Inode* inode, std::vector<std::string>& names) override {
    const Perms perms(caller);
    for (int attempt = 0; attempt < 8; ++attempt) {
      size_t size = 0;
      if (const int code = ::ceph_ll_listxattr(mount_, Raw(inode), nullptr, 0, &size, perms); code < 0) return code;
      std::string text(size, '\0');
      if (size != 0) {
        const int code = ::ceph_ll_listxattr(mount_, Raw(inode), text.data(), text.size(), &size, perms);
        if (code == -ERANGE) continue;
        if (code < 0) return code;
        text.resize(size);
      }
      names.clear();
      for (size_t at = 0; at < text.size(); at += names.back().size() + 1) names.emplace_back(text.c_str() + at);
      return 0;
    }
    return -EAGAIN;
  }

  int GetAttributes(Inode* inode, Stat& stat, Freshness freshness) override {
    struct ceph_statx got{};
    const unsigned flags = freshness == Freshness::kCached ? AT_STATX_DONT_SYNC : 0;
    const int code = ::ceph_ll_getattr(mount_, Raw(inode), &got, kWanted, flags, Perms(kAsRoot));
    return Finish(code, got, stat);
  }
  int ReadLink(Inode* inode, std::string& target) override {
    target.resize(PATH_MAX);
    const int size = ::ceph_ll_readlink(mount_, Raw(inode), target.data(), target.size(), Perms(kAsRoot));
    target.resize(static_cast<size_t>(std::max(size, 0)));
    return std::min(size, 0);
  }
  int GetTotals(Inode* inode, Totals& totals) override {
    struct statvfs got{};
    const int code = ::ceph_ll_statfs(mount_, Raw(inode), &got);
    totals = {got.f_frsize, got.f_blocks, got.f_bfree, got.f_bavail, got.f_files};
    return code;
  }
  int SyncInode(Inode* inode) override { return ::ceph_ll_sync_inode(mount_, Raw(inode), 0); }

  int Open(Inode* inode, int flags, OpenFile*& file) override {
    ::Fh* opened = nullptr;
    const int code = ::ceph_ll_open(mount_, Raw(inode), flags, &opened, Perms(kAsRoot));
    file = reinterpret_cast<OpenFile*>(opened);
    return code;
  }
  void Close(OpenFile* file) override { ::ceph_ll_close(mount_, Raw(file)); }
  int64_t Read(OpenFile* file, uint64_t offset, Bytes into) override {
    return ::ceph_ll_read(mount_, Raw(file), static_cast<int64_t>(offset), into.size(),
                          reinterpret_cast<char*>(into.data()));
  }
  int64_t Write(OpenFile* file, uint64_t offset, std::span<const iovec> data) override {
    return ::ceph_ll_writev(mount_, Raw(file), data.data(), static_cast<int>(data.size()),
                            static_cast<int64_t>(offset));
  }
  int Sync(OpenFile* file, bool data_only) override { return ::ceph_ll_fsync(mount_, Raw(file), data_only ? 1 : 0); }
  int PunchHole(OpenFile* file, uint64_t offset, uint64_t length) override {
    return ::ceph_ll_fallocate(mount_, Raw(file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               static_cast<int64_t>(offset), static_cast<int64_t>(length));
  }

  void Seek(OpenDirectory* directory, int64_t position) override {
    ::ceph_seekdir(mount_, directory->stream, position);
  }
  int Next(OpenDirectory* directory, bool with_inode, Entry& entry) override {
    // A directory entry does not tell the snapshot, which is a part of the fileid.
    const bool asks = with_inode || directory->snapshot != kNoSnapshot;
    ::Inode* inode = nullptr;
    struct ceph_statx got{};
    const int code = asks ? ::ceph_readdirplus_r(mount_, directory->stream, &directory->entry, &got, kWanted, 0, &inode)
                          : ::ceph_readdir_r(mount_, directory->stream, &directory->entry);
    if (code <= 0) return code;
    entry.name = directory->entry.d_name;
    entry.position = ::ceph_telldir(mount_, directory->stream);
    if (asks) {
      Finish(0, got, entry.stat);
    } else {
      entry.stat.number = {directory->entry.d_ino, kNoSnapshot};
      entry.stat.attributes.fileid = FileidOf(entry.stat.number);
    }
    entry.inode = nullptr;
    if (inode && with_inode) entry.inode = reinterpret_cast<Inode*>(inode);
    if (inode && !with_inode) ::ceph_ll_put(mount_, inode);
    return 1;
  }
  void CloseDir(OpenDirectory* directory) override {
    ::ceph_ll_releasedir(mount_, directory->stream);
    delete directory;
  }

  void OnWantsFewer(std::function<void()> wants_fewer) override {
    wants_fewer_ = std::move(wants_fewer);
    ceph_client_callback_args callbacks{};
    callbacks.handle = this;
    // The handle is shared with libcephfs's own callback for the umask, which this one replaces: files get the modes
    // that callers ask for.
    callbacks.umask_cb = [](void*) -> mode_t { return 0; };
    callbacks.ino_release_cb = [](void* self, vinodeno_t) { static_cast<MountedClient*>(self)->wants_fewer_(); };
    ::ceph_ll_register_callbacks(mount_, &callbacks);
  }

 private:
  int Find(uint64_t ino, uint64_t snapshot, Inode*& inode) {
    return ::ceph_ll_lookup_vino(mount_, {{ino}, {snapshot}}, Out(inode));
  }
  static ::Inode** Out(Inode*& inode) { return reinterpret_cast<::Inode**>(&inode); }

  int Finish(int code, const struct ceph_statx& got, Stat& stat) const {
    if (code < 0) return code;
    stat.number = {got.stx_ino, got.stx_dev};
    Attributes& to = stat.attributes;
    to.type = TypeOfMode(got.stx_mode);
    to.mode = got.stx_mode & 07777u;
    to.nlink = got.stx_nlink;
    to.uid = got.stx_uid;
    to.gid = got.stx_gid;
    to.size = got.stx_size;
    to.used = got.stx_blocks * 512;
    to.rdev = {major(got.stx_rdev), minor(got.stx_rdev)};
    to.fsid = facts_.fsid;
    to.fileid = FileidOf(stat.number);
    to.atime = TimeOf(got.stx_atime);
    to.mtime = TimeOf(got.stx_mtime);
    to.ctime = TimeOf(got.stx_ctime);
    to.born = TimeOf(got.stx_btime);
    // A rename does not change the version of the directory that it takes the name from, but its ctime (Ceph 16). The
    // sum of the two grows with each of them.
    to.change = got.stx_version + static_cast<uint64_t>(got.stx_ctime.tv_sec) * 1'000'000'000u +
                static_cast<uint64_t>(got.stx_ctime.tv_nsec);
    return code;
  }

  // If another client was faster than a rename, libcephfs 16 marks the new name for ever, and each later call that
  // meets the name waits for the mark to go. It forgets the name when it must make its cache smaller. It looks at that
  // once in a second.
  void ForgetNames() {
    constexpr const char* kCacheSize = "client_cache_size";
    {
      const std::lock_guard lock(shrinking_);
      if (shrinks_++ == 0) {
        char size[32] = {};
        ::ceph_conf_get(mount_, kCacheSize, size, sizeof size);
        cache_size_ = size;
        ::ceph_conf_set(mount_, kCacheSize, "1");
      }
    }
    std::this_thread::sleep_for(std::chrono::seconds(3));
    const std::lock_guard lock(shrinking_);
    if (--shrinks_ == 0) ::ceph_conf_set(mount_, kCacheSize, cache_size_.c_str());
  }

  const std::unique_ptr<Cluster> cluster_;
  ceph_mount_info* const mount_;
  std::mutex shrinking_;  // guards the following
  size_t shrinks_ = 0;
  std::string cache_size_;
  const Facts facts_;
  std::function<void()> wants_fewer_;
};

SetupError ErrorAt(const Location& location, const std::string& what) {
  return SetupError{fmt::format("{}: {}", ToString(location), what)};
}

// A file system of the cluster, as the monitors describe it.
struct FileSystemFacts {
  int64_t id = 0;
  std::string name;
  uint64_t max_file_size = 0;
};
struct FileSystems {
  std::vector<FileSystemFacts> all;
  int64_t default_id = -1;

  const FileSystemFacts* Find(const std::string& name) const {
    const auto found = std::ranges::find_if(
        all, [&](const FileSystemFacts& each) { return name.empty() ? each.id == default_id : each.name == name; });
    return found == all.end() ? nullptr : &*found;
  }
};

// Returns nothing if the user may not ask.
std::optional<FileSystems> ListFileSystems(rados_t cluster) {
  const char* command[] = {R"({"prefix": "fs dump", "format": "json"})"};
  char* reply = nullptr;
  size_t size = 0;
  std::string text;
  if (::rados_mon_command(cluster, command, 1, "", 0, &reply, &size, nullptr, nullptr) == 0) text.assign(reply, size);
  if (reply) ::rados_buffer_free(reply);
  const nlohmann::json dump = nlohmann::json::parse(text, nullptr, false);
  if (!dump.is_object() || !dump.contains("filesystems") || !dump["filesystems"].is_array()) return std::nullopt;
  FileSystems systems{.all = {}, .default_id = dump.value("default_fscid", int64_t{-1})};
  for (const nlohmann::json& each : dump["filesystems"]) {
    if (!each.is_object() || !each.contains("mdsmap") || !each["mdsmap"].is_object()) continue;
    const nlohmann::json& map = each["mdsmap"];
    systems.all.push_back({.id = each.value("id", int64_t{-1}),
                           .name = map.value("fs_name", ""),
                           .max_file_size = map.value("max_file_size", uint64_t{INT64_MAX})});
  }
  return systems;
}

const Setting kSettings[] = {
    // libcephfs checks the rights of each caller.
    {"client_permissions", "true"},
    {"fuse_default_permissions", "false"},
    {"client_acl_type", "posix_acl"},
    // A directory's size is the number of its entries: the recursive sum changes without a new change attribute.
    {"client_dirsize_rbytes", "false"},
    {"client_snapdir", ".snap"},
};

}  // namespace

SetupResult<std::unique_ptr<Client>> MountClient(const Location& location, std::chrono::seconds patience,
                                                 const std::string& name) {
  auto connected = Connect(location.conf, location.user, patience, kSettings);
  if (!connected) return std::unexpected(ErrorAt(location, connected.error().message));
  std::unique_ptr<Cluster> cluster = *std::move(connected);
  const std::optional<FileSystems> systems = ListFileSystems(cluster->get());
  const FileSystemFacts* const described = systems ? systems->Find(location.fs) : nullptr;
  if (!location.fs.empty() && systems && !described) {
    return std::unexpected(ErrorAt(location, fmt::format("the cluster has no file system {}", location.fs)));
  }
  ceph_mount_info* mount = nullptr;
  if (const int code = ::ceph_create_from_rados(&mount, cluster->get()); code != 0) {
    return std::unexpected(ErrorAt(location, std::strerror(-code)));
  }
  const auto fail = [&](int code, const std::string& meaning) {
    ::ceph_release(mount);
    return std::unexpected(ErrorAt(location, meaning.empty() ? std::strerror(-code) : meaning));
  };
  if (!location.fs.empty()) {
    if (const int code = ::ceph_select_filesystem(mount, location.fs.c_str()); code != 0) return fail(code, "");
  }
  if (!name.empty()) {
    if (const int code = ::ceph_init(mount); code != 0) return fail(code, "");
    // An MDS that does not know this operation lets the earlier mount expire.
    if (::ceph_start_reclaim(mount, name.c_str(), CEPH_RECLAIM_RESET) == 0) ::ceph_finish_reclaim(mount);
    ::ceph_set_uuid(mount, name.c_str());
  }
  if (const int code = ::ceph_mount(mount, location.path.c_str()); code != 0) {
    switch (-code) {
      case ENOENT:
        return fail(code, fmt::format("no directory {}, or no file system, is there", location.path));
      case ENOTDIR:
        return fail(code, fmt::format("{} is not a directory", location.path));
      case EACCES:
      case EPERM:
        return fail(code, fmt::format("{} may not use this directory", UserOf(location.user)));
      case ETIMEDOUT:
      case EHOSTUNREACH:
        return fail(code, fmt::format("no metadata server answers (within {} s)", patience.count()));
      default:
        return fail(code, "");
    }
  }
  // Until OnWantsFewer() registers another callback.
  ::ceph_umask(mount, 0);
  std::string cluster_id(64, '\0');
  const int length = ::rados_cluster_fsid(cluster->get(), cluster_id.data(), cluster_id.size());
  cluster_id.resize(static_cast<size_t>(std::max(length, 0)));
  // libcephfs does not know the number of the default file system (Ceph 16).
  const int64_t number = described ? described->id : ::ceph_get_fs_cid(mount);
  return std::make_unique<MountedClient>(
      std::move(cluster), mount,
      Facts{.fsid = Mix(Mix(0, AsBytes(cluster_id)), static_cast<uint64_t>(number)),
            .max_file_size = described ? described->max_file_size : uint64_t{INT64_MAX}});
}

}  // namespace penstock::fs::ceph
