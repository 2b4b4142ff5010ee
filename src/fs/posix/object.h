// An object of the served tree that is open, and the cache of them: a handle finds its descriptors in one hash look-up.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "fs/posix/path.h"
#include "fs/posix/stat.h"

namespace penstock::fs::posix {

using SharedFile = std::shared_ptr<const FileDescriptor>;

// Any thread. Up to three descriptors: the object itself (O_PATH), and, from first use on, one to read and one to
// write.
class Object {
 public:
  Object(const Handle& handle, FileDescriptor path, FileType type)
      : handle_(handle), path_(std::move(path)), type_(type) {}

  const Handle& handle() const { return handle_; }
  int fd() const { return path_.get(); }
  FileType type() const { return type_; }
  bool is_directory() const { return type_ == FileType::kDirectory; }

  // For regular files and directories; opened with the server's own rights. Absent where impatient and it is not open yet:
  // quotas, say, are read from the disk then.
  std::optional<Result<SharedFile>> Reader(Patience patience);
  Result<SharedFile> Reader() { return *Reader(Patience::kMayBlock); }
  // For regular files.
  std::optional<Result<SharedFile>> Writer(Patience patience);
  Result<SharedFile> Writer() { return *Writer(Patience::kMayBlock); }
  // A file that was made just now is open already, whatever its mode allows.
  void Adopt(SharedFile file);
  // A file that is open for writing cannot be executed on the server's machine.
  void DropWriter();

  // Whether an access control list says more than the mode does. Known for as long as the ctime does not move. Absent where
  // impatient and the kernel may not have it in memory: it does once it was asked, since we have the object open.
  std::optional<bool> HasAcl(const Timestamp& ctime, Patience patience);
  // It is about to be changed here, perhaps faster than the kernel's clock shows.
  void ForgetAcl();

  // Whether it is to stay although its last name goes.
  bool pinned() const { return pinned_.load(std::memory_order_relaxed); }

  // Held around a change and the attributes before and after it (wcc_data), so that no other change of this server's
  // gets between them. Best effort: of others on the server's machine it knows nothing.
  std::mutex changing;
  // Held while a directory is read: its descriptor has one position.
  std::mutex listing;

 private:
  std::optional<Result<SharedFile>> OpenOnce(SharedFile& file, int flags, Patience patience);
  // Owns nothing where impatient and another thread has it, perhaps while it waits for the disk.
  std::unique_lock<std::mutex> Lock(Patience patience);

  const Handle handle_;
  const FileDescriptor path_;
  const FileType type_;
  friend class ObjectCache;
  std::atomic<bool> pinned_ = false;

  std::mutex mutex_;  // guards what follows
  SharedFile reader_;
  SharedFile writer_;
  bool acl_read_ = false;  // at some time
  bool acl_known_ = false;
  bool has_acl_ = false;
  Timestamp acl_ctime_;
};

using ObjectRef = std::shared_ptr<Object>;

// The least recently used go when there are too many. An object that is in use meanwhile stays open until that ends. Those that are
// pinned stay in any case: the cache has no other object of their handle.
class ObjectCache {
 public:
  explicit ObjectCache(size_t capacity);

  // Null where it is not there.
  ObjectRef Find(const Handle& handle);
  // `object`, or the one of the same handle that came first.
  ObjectRef Insert(ObjectRef object);
  // Forgets it, unless it is pinned.
  void Erase(const Handle& handle);
  // The object of that handle is found until Unpin, which is called as often. False where as many are pinned as may be cached.
  bool Pin(const ObjectRef& object);
  void Unpin(const Handle& handle);
  size_t size() const;

 private:
  struct PinnedObject {
    ObjectRef object;
    size_t pins = 0;
  };
  struct Shard {
    mutable std::mutex mutex;
    std::list<ObjectRef> by_use;  // the most recent first
    std::unordered_map<Handle, std::list<ObjectRef>::iterator> by_handle;
    std::unordered_map<Handle, PinnedObject> pinned;
  };
  Shard& ShardOf(const Handle& handle) { return shards_[(std::hash<Handle>{}(handle) >> 32) % shards_.size()]; }

  std::vector<Shard> shards_;
  const size_t shard_capacity_;
};

}  // namespace penstock::fs::posix
