// The mounted tree: it answers the kernel's requests by calls of client::Mount.
//
// The kernel caches names, attributes and data. A file's data are those that the server had when the file was opened,
// or newer ones (close-to-open consistency): open() asks for the attributes, and the kernel drops its data if they show
// a change; close() and fsync() return when the server has all data on stable storage.
#pragma once

#include <limits.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"
#include "base/under_way.h"
#include "base/workers.h"
#include "client/mount.h"
#include "fuse/inodes.h"
#include "fuse/interrupts.h"
#include "fuse/open_file.h"
#include "fuse/owners.h"
#include "fuse/request.h"
#include "fuse/users.h"
#include "fuse/write_behind.h"

namespace penstock::fuse {

struct FileSystemOptions {
  CacheTimes times;
  // The kernel checks permissions by owners and modes, because it shares what it has cached between users.
  bool checks_modes = false;
  uint32_t longest_name = 0;        // octets; zero: the server refuses names that are too long
  bool caches_names = true;         // lookupcache: names that exist
  bool caches_absent_names = true;  // lookupcache=all: and names that do not
  bool close_to_open = true;        // cto
  // The server has the locks. Otherwise the kernel keeps them, for this host alone.
  bool posix_locks = true;
  bool flock_locks = true;
  bool writes_behind = true;        // otherwise a write ends when its data are on stable storage
  size_t write_memory = 256 << 20;  // octets that wait for stable storage
  size_t read_window = 8 << 20;     // octets that are read ahead in each file
};

// The longest name that programs may give, in octets. Some servers say more than their file systems and Linux have.
inline uint32_t LongestName(const client::Space& space) { return std::min<uint32_t>(space.longest_name, NAME_MAX); }

// The kernel's cache of files.
class KernelCache {
 public:
  virtual ~KernelCache() = default;
  // Drops the attributes and the data of a file. Blocks, perhaps until the kernel has the replies to requests for that
  // file, so it must not run on the loop. Any thread.
  virtual void DropFile(uint64_t inode) = 0;
  // Drops the attributes. Does not block.
  virtual void DropAttributes(uint64_t inode) = 0;
};

// Belongs to the loop. Each function answers its request, perhaps after it has returned: it is a coroutine, and copies
// what it needs of its arguments before it waits.
class FileSystem {
 public:
  using RequestPointer = std::unique_ptr<Request>;

  // All arguments outlive the file system.
  FileSystem(Loop& loop, Workers& workers, Users& users, Owners& owners, const client::Node& root,
             const FileSystemOptions& options);
  ~FileSystem();
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  RequestPointer Own(fuse_req_t request) { return std::make_unique<Request>(request, interrupts_, under_way_); }
  const FileSystemOptions& options() const { return options_; }
  // Waits for the end of all requests, sends all data to the server, and closes all files. Call it when no request can
  // come any more. The error names the files of which data are lost that no program was told of, now or before.
  Task<client::Result<void>> Finish();
  // `cache` outlives the file system, or is replaced by null. Null: the kernel caches nothing.
  void set_kernel_cache(KernelCache* cache) { kernel_cache_ = cache; }

  // ---- names ----
  Task<void> Lookup(RequestPointer request, uint64_t parent, std::string name);
  void Forget(uint64_t inode, uint64_t count) { inodes_.Forget(inode, count); }
  Task<void> ReadLink(RequestPointer request, uint64_t inode);
  Task<void> MakeNode(RequestPointer request, uint64_t parent, std::string name, mode_t mode, dev_t device);
  Task<void> MakeDirectory(RequestPointer request, uint64_t parent, std::string name, mode_t mode);
  Task<void> MakeSymlink(RequestPointer request, std::string target, uint64_t parent, std::string name);
  Task<void> Unlink(RequestPointer request, uint64_t parent, std::string name);
  Task<void> RemoveDirectory(RequestPointer request, uint64_t parent, std::string name);
  Task<void> Rename(RequestPointer request, uint64_t from_parent, std::string from, uint64_t to_parent, std::string to,
                    unsigned flags);
  Task<void> Link(RequestPointer request, uint64_t inode, uint64_t parent, std::string name);
  Task<void> OpenDirectoryAt(RequestPointer request, uint64_t inode, fuse_file_info info);
  Task<void> ReadDirectory(RequestPointer request, size_t size, uint64_t offset, fuse_file_info info,
                           bool with_attributes);
  Task<void> ReleaseDirectory(RequestPointer request, fuse_file_info info);

  // ---- attributes ----
  Task<void> GetAttributes(RequestPointer request, uint64_t inode);
  Task<void> SetAttributes(RequestPointer request, uint64_t inode, struct stat attributes, int to_set,
                           std::optional<fuse_file_info> info);
  Task<void> CheckAccess(RequestPointer request, uint64_t inode, int mask);
  Task<void> GetRoom(RequestPointer request, uint64_t inode);
  Task<void> SetXattr(RequestPointer request, uint64_t inode, std::string name, std::vector<std::byte> value,
                      int flags);
  Task<void> GetXattr(RequestPointer request, uint64_t inode, std::string name, size_t size);
  Task<void> ListXattrs(RequestPointer request, uint64_t inode, size_t size);
  Task<void> RemoveXattr(RequestPointer request, uint64_t inode, std::string name);

  // ---- data ----
  Task<void> Open(RequestPointer request, uint64_t inode, fuse_file_info info);
  Task<void> Create(RequestPointer request, uint64_t parent, std::string name, mode_t mode, fuse_file_info info);
  Task<void> Read(RequestPointer request, uint64_t inode, size_t size, uint64_t offset, fuse_file_info info);
  // The octets lie in `buffer`.
  Task<void> Write(RequestPointer request, uint64_t inode, uint64_t offset, BufferRef buffer, Bytes octets,
                   fuse_file_info info);
  Task<void> Flush(RequestPointer request, uint64_t inode, fuse_file_info info);
  Task<void> Fsync(RequestPointer request, uint64_t inode, fuse_file_info info);
  Task<void> Release(RequestPointer request, uint64_t inode, fuse_file_info info);
  Task<void> Allocate(RequestPointer request, uint64_t inode, int mode, uint64_t offset, uint64_t length,
                      fuse_file_info info);
  Task<void> CopyRange(RequestPointer request, uint64_t from_inode, uint64_t from, fuse_file_info from_info,
                       uint64_t to_inode, uint64_t to, fuse_file_info to_info, size_t length);
  Task<void> Seek(RequestPointer request, uint64_t inode, uint64_t offset, int whence, fuse_file_info info);
  Task<void> TestLock(RequestPointer request, uint64_t inode, fuse_file_info info, struct flock lock);
  Task<void> SetLock(RequestPointer request, uint64_t inode, fuse_file_info info, struct flock lock, bool waits);
  Task<void> Flock(RequestPointer request, uint64_t inode, fuse_file_info info, int operation);

 private:
  // The inode of a request, and the mount of its user.
  struct Target {
    Inodes::Pin inode;
    Users::MountPointer held;
    client::Mount& mount = *held;
  };
  // Answers the request if there is no target.
  Task<std::optional<Target>> Find(Request& request, uint64_t inode);
  client::Handle DirectoryOf(const Inode& inode);
  std::string PathOf(const Inode& inode);

  // names
  Task<fuse_entry_param> EntryOf(const Inode& inode);
  Task<client::Result<client::Node>> LookUp(client::Mount& mount, const Inode& directory, std::string name);
  Task<void> ReplyNode(Request& request, client::Node node, uint64_t parent, std::string name);
  // While a name of an inode is being removed, the file is not opened: it may end. `inode` may be null.
  class Removal {
   public:
    Removal(FileSystem& files, Inode* inode);
    Removal(const Removal&) = delete;
    Removal& operator=(const Removal&) = delete;
    ~Removal();

   private:
    FileSystem& files_;
    const std::optional<Inodes::Pin> inode_;
  };
  // An open file whose name has been replaced by one that programs do not see.
  struct Hidden {
    Inodes::Pin inode;
    HiddenName name;
  };
  Task<client::Result<std::optional<Hidden>>> HideOpenFile(client::Mount& mount, const Inode& directory,
                                                           std::string name, const Inode* moved);
  Task<void> KeepHidden(client::Mount& mount, Hidden hidden);
  Task<void> ShowAgain(client::Mount& mount, Hidden hidden, std::string name);
  Task<client::Result<client::Listing>> ReadPage(OpenDirectory& directory, uint64_t index, bool with_attributes);

  // attributes
  Task<struct stat> StatOf(const Inode& inode);
  double TimeoutOf(const Inode& inode) const;
  Task<client::Result<void>> Refresh(client::Mount& mount, Inode& inode);
  // The same for a request whose reply tells the kernel no attributes: if there are other ones, the kernel asks.
  Task<client::Result<void>> RefreshAll(client::Mount& mount, Inode& inode);
  Task<client::Result<void>> ChangeSize(const Target& target, uint64_t size, OpenFile* file);

  // data
  Task<void> OpenNow(RequestPointer request, const Target& target, fuse_file_info info);
  OpenFile& Opened(Users::MountPointer mount, Inode& inode, std::unique_ptr<client::File> file, int flags);
  Task<void> CloseFile(OpenFile* file);
  Task<void> ReleaseFile(OpenFile* file);
  Task<void> RemoveHidden(client::Mount& mount, Inodes::Pin inode);
  bool MayKeepData(Inode& inode);
  void ForgetData(Inode& inode, uint64_t offset, uint64_t end);
  Task<void> ReplyOctets(Request& request, std::vector<Slice> pieces);
  Task<client::Result<void>> CommitData(OpenFile& file);
  // Returns the end of a file for a program that appends to it.
  Task<client::Result<uint64_t>> EndOf(OpenFile& file);
  void HandleLoss(uint64_t inode);
  void HandleTold(Inode& inode);
  // Fails the request with the error of data that programs have written, if there is one. Then `file` is not told of it
  // again.
  bool FailedToWrite(Request& request, OpenFile& file, const client::Result<void>& written);
  Task<void> ForgetLostData(uint64_t inode);
  Task<void> DropCache(uint64_t inode);
  OpenFile& LockFile(OpenFile& file, const std::string& owner);
  Task<client::Result<void>> Unlock(Inode& inode, std::string owner);
  Task<void> Lock(RequestPointer request, OpenFile& file, std::string owner, client::ByteRange range, int type,
                  bool waits);

  Loop& loop_;
  Workers& workers_;
  Users& users_;
  Owners& owners_;
  const FileSystemOptions options_;
  const uint64_t first_file_system_;  // of the root when the tree was mounted: it may move
  Interrupts interrupts_;
  WriteMemory write_memory_;
  Inodes inodes_;
  std::map<uint64_t, std::string> lost_;  // files of which data are lost that no program was told of
  KernelCache* kernel_cache_ = nullptr;
  UnderWay under_way_;
  Signal removed_;
};

}  // namespace penstock::fuse
