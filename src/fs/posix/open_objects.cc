#include "fs/posix/open_objects.h"

#include <sys/stat.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <ranges>

#include "base/descriptor_limit.h"
#include "base/log.h"

namespace penstock::fs::posix {
namespace {

// The number of descriptors to close when the kernel has no more. It is more than one, because other calls need
// descriptors too.
constexpr size_t kRoom = 16;
// The number of objects in use per shard that are searched for unneeded descriptors.
constexpr size_t kBusyLookedAt = 64;

// The parts of a shard that CloseRemoved() looks at one after the other.
constexpr size_t kParts = 16;
// An object that no call has used for this time may be closed if it was removed.
constexpr auto kIdle = std::chrono::seconds(10);

// A descriptor that counts until it is closed.
struct CountedFile {
  CountedFile(FileDescriptor opened, std::shared_ptr<std::atomic<size_t>> counted)
      : file(std::move(opened)), count(std::move(counted)) {
    count->fetch_add(1, std::memory_order_relaxed);
  }
  ~CountedFile() { count->fetch_sub(1, std::memory_order_relaxed); }

  const FileDescriptor file;
  const std::shared_ptr<std::atomic<size_t>> count;
};

}  // namespace

OpenObjects::~OpenObjects() {
  assert(std::ranges::all_of(shards_, [](const Shard& shard) { return shard.by_key.empty(); }));
}

size_t OpenObjects::MaxDescriptors(size_t others) {
  constexpr size_t kAtMost = 192 << 10;
  const size_t all = DescriptorLimit();
  const size_t used_otherwise = std::min(others + kOtherDescriptors, all / 2);
  return std::min(all - used_otherwise, kAtMost);
}

SharedFile OpenObjects::Share(FileDescriptor file) {
  auto counted = std::make_shared<const CountedFile>(std::move(file), descriptors_);
  const FileDescriptor* const shared = &counted->file;
  return SharedFile(std::move(counted), shared);
}

SharedFile OpenObjects::ShareFor(Purpose purpose, FileDescriptor file) {
  Part& part = parts_[static_cast<size_t>(purpose)];
  const size_t most = purpose == Purpose::kLocks ? max_descriptors_ / 4 : max_descriptors_ / 8;
  if (part.descriptors->fetch_add(1) < most) {
    SharedFile shared = Share(std::move(file));
    const FileDescriptor* const counted = shared.get();
    return SharedFile(counted, [shared, count = part.descriptors](const void*) { count->fetch_sub(1); });
  }
  part.descriptors->fetch_sub(1);
  if (part.told.Allows(std::chrono::steady_clock::now())) {
    log::warn("clients hold too many {}: programs of this host do not see all of them. {}",
              purpose == Purpose::kLocks ? "locks" : "delegations", kRaiseTheDescriptorLimit);
  }
  return nullptr;
}

bool OpenObjects::MakeRoom() {
  const int error = errno;
  const bool made = GiveUp(kRoom) > 0;
  errno = error;
  return made;
}

void OpenObjects::TellShortage() {
  const int error = errno;
  if (told_.Allows(std::chrono::steady_clock::now())) {
    log::warn(
        "a file cannot be opened and its client must try again later: the kernel has no more descriptors ({} are open "
        "for served files). {}",
        descriptors(), kRaiseTheDescriptorLimit);
  }
  errno = error;
}

// Closes a few more than necessary, so that not every opened object has to search for one to close.
void OpenObjects::Trim() {
  const size_t now = descriptors();
  if (now > max_descriptors_) GiveUp(now - max_descriptors_ + std::min(max_descriptors_ / 64, kRoom));
}

size_t OpenObjects::GiveUp(size_t count) {
  size_t given = 0;
  while (given < count) {
    const ObjectRef oldest = TakeOldest();
    if (!oldest) return given + CloseUnusedOfBusy(count - given);
    given += oldest->CountUnused();
  }
  return given;
}

OpenObjects::Entries::iterator OpenObjects::OldestOf(Shard& shard) {
  // No other thread can get a reference meanwhile: that needs the lock, or an existing reference.
  for (size_t left = shard.by_use.size(); left > 0; --left) {
    const auto last = std::prev(shard.by_use.end());
    if (last->object.use_count() == 1) return last;
    Use(shard, last);
  }
  return shard.by_use.end();
}

ObjectRef OpenObjects::TakeOldest() {
  Shard* oldest = nullptr;
  TimePoint used;
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    const auto entry = OldestOf(shard);
    if (entry == shard.by_use.end() || (oldest && entry->used >= used)) continue;
    oldest = &shard;
    used = entry->used;
  }
  if (!oldest) return nullptr;
  const std::lock_guard lock(oldest->mutex);
  const auto entry = OldestOf(*oldest);
  if (entry == oldest->by_use.end()) return nullptr;
  ObjectRef taken = std::move(entry->object);
  oldest->by_key.erase(entry->key);
  oldest->by_use.erase(entry);
  return taken;
}

size_t OpenObjects::CloseUnusedOfBusy(size_t count) {
  size_t closed = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[next_busy_.fetch_add(1) % shards_.size()];
    std::vector<ObjectRef> busy;
    {
      const std::lock_guard lock(shard.mutex);
      for (Entries* entries : {&shard.pinned, &shard.by_use}) {
        const size_t some = std::min(entries->size(), kBusyLookedAt);
        for (size_t left = some; left > 0; --left) {
          busy.push_back(entries->back().object);
          entries->splice(entries->begin(), *entries, std::prev(entries->end()));
        }
      }
    }
    for (const ObjectRef& object : busy) {
      closed += object->CloseUnused();
      if (closed >= count) return closed;
    }
  }
  return closed;
}

void OpenObjects::NoteWriter(std::weak_ptr<Object> object) {
  const std::lock_guard lock(writers_mutex_);
  writers_.push_back(std::move(object));
}

void OpenObjects::CloseUnusedWriters() {
  std::vector<std::weak_ptr<Object>> writers;
  {
    const std::lock_guard lock(writers_mutex_);
    writers.swap(writers_);
  }
  const TimePoint now = std::chrono::steady_clock::now();
  std::erase_if(writers, [now](const std::weak_ptr<Object>& writer) {
    const ObjectRef object = writer.lock();
    return !object || object->CloseUnusedWriter(now);
  });
  const std::lock_guard lock(writers_mutex_);
  writers_.insert(writers_.end(), std::make_move_iterator(writers.begin()), std::make_move_iterator(writers.end()));
}

void OpenObjects::CloseIdle() {
  CloseUnusedWriters();
  CloseRemoved(std::chrono::steady_clock::now() - kIdle);
}

// Another program of the host may have removed what is open here. The kernel does not tell.
void OpenObjects::CloseRemoved(TimePoint idle_since) {
  const size_t call = removed_looked_at_.fetch_add(1);
  Shard& shard = shards_[call % shards_.size()];
  const size_t part = call / shards_.size() % kParts;
  std::vector<std::pair<Key, ObjectRef>> idle;
  {
    const std::lock_guard lock(shard.mutex);
    const size_t buckets = shard.by_key.bucket_count();
    for (size_t bucket = part; bucket < buckets; bucket += kParts) {
      for (auto at = shard.by_key.begin(bucket); at != shard.by_key.end(bucket); ++at) {
        const Entry& entry = *at->second;
        const bool is_idle = entry.pins == 0 && entry.used <= idle_since && entry.object.use_count() == 1;
        if (is_idle) idle.emplace_back(entry.key, entry.object);
      }
    }
  }
  for (const auto& [key, object] : idle) {
    struct stat status{};
    if (::fstat(object->fd(), &status) == 0 && status.st_nlink == 0) Erase(key);
  }
}

OpenObjects::Entry& OpenObjects::Use(Shard& shard, Entries::iterator entry) {
  Entries& entries = entry->pins > 0 ? shard.pinned : shard.by_use;
  entries.splice(entries.begin(), entries, entry);
  entry->used = std::chrono::steady_clock::now();
  return *entry;
}

ObjectRef OpenObjects::Find(const Key& key) {
  Shard& shard = ShardOf(key);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.by_key.find(key);
  return found == shard.by_key.end() ? nullptr : Use(shard, found->second).object;
}

ObjectRef OpenObjects::Insert(const Key& key, ObjectRef object) {
  {
    Shard& shard = ShardOf(key);
    const std::lock_guard lock(shard.mutex);
    const auto [at, is_new] = shard.by_key.try_emplace(key);
    if (!is_new) return Use(shard, at->second).object;
    shard.by_use.push_front({.key = key, .object = object, .used = std::chrono::steady_clock::now()});
    at->second = shard.by_use.begin();
  }
  Trim();
  return object;
}

void OpenObjects::Erase(const Key& key) {
  Shard& shard = ShardOf(key);
  ObjectRef erased;  // closes its descriptors after the lock is released
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.by_key.find(key);
  if (found == shard.by_key.end()) return;
  Entry& entry = *found->second;
  entry.erased = true;
  if (entry.pins > 0) return;
  erased = std::move(entry.object);
  shard.by_use.erase(found->second);
  shard.by_key.erase(found);
}

// At least half of the descriptors stay available for objects that can be closed.
bool OpenObjects::Pin(const Key& key, ObjectRef& object) {
  Shard& shard = ShardOf(key);
  ObjectRef old;  // closes its descriptors after the lock is released
  const std::lock_guard lock(shard.mutex);
  const auto [at, is_new] = shard.by_key.try_emplace(key);
  if (is_new) {
    shard.by_use.push_front({.key = key, .object = object, .used = std::chrono::steady_clock::now()});
    at->second = shard.by_use.begin();
  }
  Entry& entry = *at->second;
  if (entry.pins == 0) {
    if (pinned_.fetch_add(1) >= (max_descriptors_ + 1) / 2) {
      pinned_.fetch_sub(1);
      return false;
    }
    entry.object->pinned_ = true;
    shard.pinned.splice(shard.pinned.begin(), shard.by_use, at->second);
  }
  ++entry.pins;
  old = std::exchange(object, entry.object);
  return true;
}

ObjectRef OpenObjects::Unpin(const Key& key, ObjectRef object) {
  Shard& shard = ShardOf(key);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.by_key.find(key);
  const auto at = found->second;
  if (--at->pins > 0) {
    object.reset();
    return nullptr;
  }
  pinned_.fetch_sub(1);
  at->object->pinned_ = false;
  if (at->erased) {
    shard.pinned.erase(at);
    shard.by_key.erase(found);
    return object;
  }
  shard.by_use.splice(shard.by_use.begin(), shard.pinned, at);
  // While the lock is held, the entry has another reference.
  if (!object->EndPin()) object.reset();
  return object;
}

void OpenObjects::Forget(const void* owner) {
  for (Shard& shard : shards_) {
    std::vector<ObjectRef> forgotten;
    const std::lock_guard lock(shard.mutex);
    for (Entries* entries : {&shard.by_use, &shard.pinned}) {
      std::erase_if(*entries, [&](Entry& entry) {
        if (entry.key.owner != owner) return false;
        assert(entry.pins == 0);
        shard.by_key.erase(entry.key);
        forgotten.push_back(std::move(entry.object));
        return true;
      });
    }
  }
}

size_t OpenObjects::CountOf(const void* owner) const {
  size_t count = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const Entries* entries : {&shard.by_use, &shard.pinned}) {
      count += static_cast<size_t>(
          std::ranges::count_if(*entries, [&](const Entry& entry) { return entry.key.owner == owner; }));
    }
  }
  return count;
}

}  // namespace penstock::fs::posix
