// The objects that are open, of all exports: a handle finds its descriptors in one hash look-up. They share what the process has
// of descriptors.
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

// Any thread. One for the process: where there are more descriptors than it may have, or the kernel gives no more, objects that
// nobody uses are closed, whichever export they belong to, those first that were not used the longest. An object that is in use,
// or pinned, stays: its further descriptors go, where they are unused and can be opened again.
class OpenObjects final : public OpenFiles {
 public:
  // So many descriptors, if that many can be spared.
  explicit OpenObjects(size_t max_descriptors) : max_descriptors_(max_descriptors) {}
  ~OpenObjects() override;

  // What the process may open, less `others` for connections and the like; half of it at least. Raises the process's limit as far as
  // it may.
  static size_t MaxDescriptors(size_t others);

  size_t max_descriptors() const { return max_descriptors_; }
  size_t descriptors() const override { return descriptors_->load(std::memory_order_relaxed); }

  // Closes up to `count` descriptors that nobody uses. How many. May block shortly, holding no lock.
  size_t GiveUp(size_t count) override;
  // Closes those for writing that nobody has asked for since the last call. To be called every second or so.
  void CloseUnusedWriters() override;

  // `open` gives a descriptor, or -1 and errno. Where there is none to be had, it is called once more when some were given up. The
  // caller reads errno.
  template <class Function>
  FileDescriptor Open(Function open) {
    int fd = open();
    if (fd < 0 && IsShortage(errno) && MakeRoom()) fd = open();
    if (fd < 0 && IsShortage(errno)) TellShortage();
    return FileDescriptor(fd);
  }
  // The same for what gives a Result. kDelay has other causes as well, somebody else's lease among them: errno tells, so `open` leaves
  // it as the call did that failed.
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

  // Counted until its last holder lets go.
  SharedFile Share(FileDescriptor file);
  // The same for a file that is kept open for the locks or the lease on it: at most a quarter of all descriptors is for locks, an
  // eighth for leases. Null where there are too many.
  enum class Purpose : uint8_t { kLocks, kLeases };
  SharedFile ShareFor(Purpose purpose, FileDescriptor file);

 private:
  friend class Object;
  friend class ObjectCache;

  // Handles tell objects apart within their export.
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
    bool erased = false;  // goes with its last pin
  };
  using Entries = std::list<Entry>;
  struct Shard {
    mutable std::mutex mutex;
    Entries by_use;  // the most recent first
    Entries pinned;  // the same
    std::unordered_map<Key, Entries::iterator, HashKey> by_key;
  };

  static bool IsShortage(int error) { return error == EMFILE || error == ENFILE; }
  // False where nothing could be given up. Keeps errno.
  bool MakeRoom();
  // Keeps errno.
  void TellShortage();
  // Gives up what is too much.
  void Trim();
  void Count() { descriptors_->fetch_add(1, std::memory_order_relaxed); }
  void Uncount() { descriptors_->fetch_sub(1, std::memory_order_relaxed); }
  // It has a descriptor for writing from now on.
  void NoteWriter(std::weak_ptr<Object> object);

  ObjectRef Find(const Key& key);
  ObjectRef Insert(const Key& key, ObjectRef object);
  void Erase(const Key& key);
  bool Pin(const Key& key, const ObjectRef& object);
  void Unpin(const Key& key);
  void Forget(const void* owner);
  size_t CountOf(const void* owner) const;

  Shard& ShardOf(const Key& key) { return shards_[(HashKey{}(key) >> 32) % shards_.size()]; }
  static Entry& Use(Shard& shard, Entries::iterator entry);
  // The oldest entry that nobody uses; those on the way to it that are in use become the youngest.
  static Entries::iterator OldestOf(Shard& shard);
  // Null where everything is in use.
  ObjectRef TakeOldest();
  size_t CloseUnusedOfBusy(size_t count);

  const size_t max_descriptors_;
  const std::shared_ptr<std::atomic<size_t>> descriptors_ = std::make_shared<std::atomic<size_t>>(0);
  struct Part {
    const std::shared_ptr<std::atomic<size_t>> descriptors = std::make_shared<std::atomic<size_t>>(0);
    LogLimit told;
  };
  std::array<Part, 2> parts_;  // of these, by Purpose
  std::array<Shard, 16> shards_;
  std::atomic<size_t> pinned_ = 0;
  std::atomic<size_t> next_busy_ = 0;  // the shard that is looked at first for what busy objects do not need
  LogLimit told_;

  std::mutex writers_mutex_;  // guards what follows
  std::vector<std::weak_ptr<Object>> writers_;
};

// Those of one export. They are closed when it goes, but for those that somebody still has.
class ObjectCache {
 public:
  explicit ObjectCache(std::shared_ptr<OpenObjects> all) : all_(std::move(all)) {}
  ~ObjectCache() { all_->Forget(this); }
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;

  const std::shared_ptr<OpenObjects>& all() const { return all_; }

  // Null where it is not there.
  ObjectRef Find(const Handle& handle) { return all_->Find({this, handle}); }
  // `object`, or the one of the same handle that came first.
  ObjectRef Insert(const ObjectRef& object) { return all_->Insert({this, object->handle()}, object); }
  // Forgets it, unless it is pinned: then with its last pin.
  void Erase(const Handle& handle) { all_->Erase({this, handle}); }
  // The object of that handle is found until Unpin, which is called as often. False where too many are pinned.
  bool Pin(const ObjectRef& object) { return all_->Pin({this, object->handle()}, object); }
  void Unpin(const Handle& handle) { all_->Unpin({this, handle}); }
  size_t size() const { return all_->CountOf(this); }

 private:
  const std::shared_ptr<OpenObjects> all_;
};

}  // namespace penstock::fs::posix
