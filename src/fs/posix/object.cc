#include "fs/posix/object.h"

#include <sys/xattr.h>

#include <cerrno>

#include "fs/posix/acl_octets.h"

namespace penstock::fs::posix {

std::unique_lock<std::mutex> Object::Lock(Patience patience) {
  return patience == Patience::kNone ? std::unique_lock(mutex_, std::try_to_lock) : std::unique_lock(mutex_);
}

// O_NONBLOCK: somebody's lease on the file makes us try again later, not wait.
std::optional<Result<SharedFile>> Object::OpenOnce(SharedFile& file, int flags, Patience patience) {
  const std::unique_lock lock = Lock(patience);
  if (!lock) return std::nullopt;
  if (!file) {
    if (patience == Patience::kNone) return std::nullopt;
    Result<FileDescriptor> opened = Reopen(fd(), flags | O_NONBLOCK);
    if (!opened) return std::unexpected(opened.error());
    file = std::make_shared<const FileDescriptor>(*std::move(opened));
  }
  return file;
}

std::optional<Result<SharedFile>> Object::Reader(Patience patience) { return OpenOnce(reader_, O_RDONLY, patience); }
std::optional<Result<SharedFile>> Object::Writer(Patience patience) { return OpenOnce(writer_, O_WRONLY, patience); }

void Object::Adopt(SharedFile file) {
  std::lock_guard lock(mutex_);
  if (!reader_) reader_ = file;
  if (!writer_) writer_ = std::move(file);
}

void Object::DropWriter() {
  std::lock_guard lock(mutex_);
  // An adopted file serves both.
  if (reader_ == writer_) reader_.reset();
  writer_.reset();
}

std::optional<bool> Object::HasAcl(const Timestamp& ctime, Patience patience) {
  if (type_ == FileType::kSymlink) return false;
  const std::unique_lock lock = Lock(patience);
  if (!lock) return std::nullopt;
  if (!acl_known_ || acl_ctime_ != ctime) {
    if (patience == Patience::kNone && !acl_read_) return std::nullopt;
    has_acl_ = ::getxattr(ProcPath(fd()).c_str(), kAccessAcl, nullptr, 0) > 0;
    acl_ctime_ = ctime;
    acl_known_ = acl_read_ = true;
  }
  return has_acl_;
}

void Object::ForgetAcl() {
  std::lock_guard lock(mutex_);
  acl_known_ = false;
}

namespace {
constexpr size_t kShards = 16;
size_t ShardsFor(size_t capacity) { return capacity >= 64 * kShards ? kShards : 1; }
}  // namespace

ObjectCache::ObjectCache(size_t capacity)
    : shards_(ShardsFor(capacity)), shard_capacity_(capacity / ShardsFor(capacity)) {}

ObjectRef ObjectCache::Find(const Handle& handle) {
  Shard& shard = ShardOf(handle);
  std::lock_guard lock(shard.mutex);
  const auto found = shard.by_handle.find(handle);
  if (found == shard.by_handle.end()) {
    const auto pinned = shard.pinned.find(handle);
    return pinned == shard.pinned.end() ? nullptr : pinned->second.object;
  }
  shard.by_use.splice(shard.by_use.begin(), shard.by_use, found->second);
  return *found->second;
}

ObjectRef ObjectCache::Insert(ObjectRef object) {
  Shard& shard = ShardOf(object->handle());
  ObjectRef evicted;  // closes its descriptors when the lock is gone
  std::lock_guard lock(shard.mutex);
  if (const auto pinned = shard.pinned.find(object->handle()); pinned != shard.pinned.end()) {
    object = pinned->second.object;
  }
  const auto [at, is_new] = shard.by_handle.try_emplace(object->handle());
  if (!is_new) {
    shard.by_use.splice(shard.by_use.begin(), shard.by_use, at->second);
    return *at->second;
  }
  shard.by_use.push_front(object);
  at->second = shard.by_use.begin();
  if (shard.by_use.size() > shard_capacity_) {
    evicted = std::move(shard.by_use.back());
    shard.by_use.pop_back();
    shard.by_handle.erase(evicted->handle());
  }
  return object;
}

void ObjectCache::Erase(const Handle& handle) {
  Shard& shard = ShardOf(handle);
  ObjectRef erased;
  std::lock_guard lock(shard.mutex);
  const auto found = shard.by_handle.find(handle);
  if (found == shard.by_handle.end()) return;
  erased = std::move(*found->second);
  shard.by_use.erase(found->second);
  shard.by_handle.erase(found);
}

bool ObjectCache::Pin(const ObjectRef& object) {
  Shard& shard = ShardOf(object->handle());
  std::lock_guard lock(shard.mutex);
  if (shard.pinned.size() >= shard_capacity_ && !shard.pinned.contains(object->handle())) return false;
  const auto [at, is_new] = shard.pinned.try_emplace(object->handle());
  if (is_new) {
    // `object` may have been evicted meanwhile, and opened once more.
    const auto cached = shard.by_handle.find(object->handle());
    at->second.object = cached == shard.by_handle.end() ? object : *cached->second;
    at->second.object->pinned_ = true;
  }
  ++at->second.pins;
  return true;
}

void ObjectCache::Unpin(const Handle& handle) {
  Shard& shard = ShardOf(handle);
  ObjectRef last;
  std::lock_guard lock(shard.mutex);
  const auto found = shard.pinned.find(handle);
  if (--found->second.pins != 0) return;
  last = std::move(found->second.object);
  last->pinned_ = false;
  shard.pinned.erase(found);
}

size_t ObjectCache::size() const {
  size_t size = 0;
  for (const Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    size += shard.by_use.size();
  }
  return size;
}

}  // namespace penstock::fs::posix
