// The open objects of all exports. A handle finds its descriptors in one hash look-up, and all objects share the
// descriptors of the process.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log_limit.h"
#include "base/timer.h"
#include "fs/open_files.h"
#include "fs/posix/object.h"

namespace penstock::fs::posix {

// Any thread. The process has one instance. If it has more open descriptors than allowed, or if the kernel refuses
// more, unused objects of all exports are closed, the least recently used first. An object that is in use or pinned
// stays; its additional descriptors are closed if they are unused and can be opened again.
class OpenObjects final : public OpenFiles {
 public:
  // Allows this number of descriptors, if the process can spare them.
  explicit OpenObjects(size_t max_descriptors) : max_descriptors_(max_descriptors) {}
  ~OpenObjects() override;

  // The number of descriptors that the process may open, less `others` for connections and other uses, and at least
  // half of it.
  static size_t MaxDescriptors(size_t others);

  size_t max_descriptors() const { return max_descriptors_; }
  size_t descriptors() const override { return descriptors_->load(std::memory_order_relaxed); }

  // Closes up to `count` unused descriptors and returns their number. May block for a short time, without a lock.
  size_t GiveUp(size_t count) override;
  void CloseIdle() override;
  // Closes the descriptors for writing that were not used since the last call.
  void CloseUnusedWriters();
  // Closes objects that have no name any more, if no call has used them after `idle_since`. One call looks at a part of
  // the objects, so that some hundred calls look at all of them.
  void CloseRemoved(TimePoint idle_since);

  // Calls `open`, which returns a descriptor, or -1 and sets errno. If no descriptor is left, closes some and calls
  // it once more. The caller reads errno.
  template <class Function>
  FileDescriptor Open(Function open) {
    int fd = open();
    if (fd < 0 && IsShortage(errno) && MakeRoom()) fd = open();
    if (fd < 0 && IsShortage(errno)) TellShortage();
    return FileDescriptor(fd);
  }
  // The same for a function that returns a Result. kDelay has other causes too, as another program's lease. errno
  // distinguishes them, so `open` must leave errno as the failed system call set it.
  template <class Function>
  auto OpenResult(Function open) {
    const auto is_shortage = [](const auto& opened) {
      return !opened && opened.error() == Error::kDelay && IsShortage(errno);
    };
    auto opened = open();
    if (is_shortage(opened) && MakeRoom()) opened = open();
    if (is_shortage(opened)) TellShortage();
    return opened;
  }

  // The descriptor is counted until its last holder releases it.
  SharedFile Share(FileDescriptor file);
  // The same for a file that is open for its locks or its lease. At most a quarter of all descriptors is used for
  // locks, and an eighth for leases. Returns null if there are too many.
  enum class Purpose : uint8_t { kLocks, kLeases };
  SharedFile ShareFor(Purpose purpose, FileDescriptor file);

 private:
  friend class Object;
  friend class ObjectCache;

  // A handle is unique within its export only.
  struct Key {
    const void* owner = nullptr;
    Handle handle;
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    size_t operator()(const Key& key) const {
      return std::hash<Handle>{}(key.handle) ^ (std::hash<const void*>{}(key.owner) * 0x9e37'79b9'7f4a'7c15u);
    }
  };
  struct Entry {
    Key key;
    ObjectRef object;
    TimePoint used;
    size_t pins = 0;
    bool erased = false;  // removed with its last pin
  };
  using Entries = std::list<Entry>;
  struct Shard {
    mutable std::mutex mutex;
    Entries by_use;  // the most recently used first
    Entries pinned;  // the most recently used first
    std::unordered_map<Key, Entries::iterator, HashKey> by_key;
  };

  static bool IsShortage(int error) { return error == EMFILE || error == ENFILE; }
  // Returns false if no descriptor could be closed. Keeps errno.
  bool MakeRoom();
  // Keeps errno.
  void TellShortage();
  // Closes descriptors beyond the allowed number.
  void Trim();
  void Count() { descriptors_->fetch_add(1, std::memory_order_relaxed); }
  void Uncount() { descriptors_->fetch_sub(1, std::memory_order_relaxed); }
  // Records that the object has a descriptor for writing.
  void NoteWriter(std::weak_ptr<Object> object);

  ObjectRef Find(const Key& key);
  ObjectRef Insert(const Key& key, ObjectRef object);
  void Erase(const Key& key);
  bool Pin(const Key& key, ObjectRef& object);
  ObjectRef Unpin(const Key& key, ObjectRef object);
  void Forget(const void* owner);
  size_t CountOf(const void* owner) const;

  Shard& ShardOf(const Key& key) { return shards_[(HashKey{}(key) >> 32) % shards_.size()]; }
  static Entry& Use(Shard& shard, Entries::iterator entry);
  // Finds the least recently used entry that is unused. Entries in use that it passes become the most recently used.
  static Entries::iterator OldestOf(Shard& shard);
  // Returns null if all objects are in use.
  ObjectRef TakeOldest();
  size_t CloseUnusedOfBusy(size_t count);

  const size_t max_descriptors_;
  const std::shared_ptr<std::atomic<size_t>> descriptors_ = std::make_shared<std::atomic<size_t>>(0);
  struct Part {
    const std::shared_ptr<std::atomic<size_t>> descriptors = std::make_shared<std::atomic<size_t>>(0);
    LogLimit told;
  };
  std::array<Part, 2> parts_;  // indexed by Purpose
  std::array<Shard, 16> shards_;
  std::atomic<size_t> pinned_ = 0;
  std::atomic<size_t> next_busy_ = 0;  // the shard to search first for unneeded descriptors of objects in use
  LogLimit told_;
  std::atomic<size_t> removed_looked_at_ = 0;  // calls of CloseRemoved()

  std::mutex writers_mutex_;  // guards the following members
  std::vector<std::weak_ptr<Object>> writers_;
};

// The open objects of one export. They are closed when it ends, except those that another holder has.
class ObjectCache {
 public:
  explicit ObjectCache(std::shared_ptr<OpenObjects> all) : all_(std::move(all)) {}
  ~ObjectCache() { all_->Forget(this); }
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;

  const std::shared_ptr<OpenObjects>& all() const { return all_; }

  // Returns null if no object has this handle.
  ObjectRef Find(const Handle& handle) { return all_->Find({this, handle}); }
  // Returns `object`, or the object with the same handle that was inserted first.
  ObjectRef Insert(const ObjectRef& object) { return all_->Insert({this, object->handle()}, object); }
  // Removes the object, or if it is pinned, when its last pin is gone.
  void Erase(const Handle& handle) { all_->Erase({this, handle}); }
  // Keeps the object of that handle until Unpin() was called as often as Pin(). If it was closed and opened again
  // meanwhile, `object` becomes the new one. Returns false if too many objects are pinned.
  bool Pin(ObjectRef& object) { return all_->Pin({this, object->handle()}, object); }
  // Ends a pin of the object that Pin() has left. Returns the object if that was its last pin and there may be
  // something to close, which takes time: it was removed or written. Otherwise gives up the reference `object`, which
  // is not the last one then.
  ObjectRef Unpin(ObjectRef object) {
    const Handle handle = object->handle();
    return all_->Unpin({this, handle}, std::move(object));
  }
  size_t size() const { return all_->CountOf(this); }

 private:
  const std::shared_ptr<OpenObjects> all_;
};

}  // namespace penstock::fs::posix
