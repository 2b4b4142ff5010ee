#include "fs/ceph/objects.h"

namespace penstock::fs::ceph {

Object::~Object() {
  reader_.reset();
  writer_.reset();
  client_->Put(inode_);
}

int Object::Open(FileRef& kept, int flags, FileRef& file) {
  {
    const std::lock_guard lock(files_);
    if (kept) {
      file = kept;
      return 0;
    }
  }
  OpenFile* opened = nullptr;
  if (const int code = client_->Open(inode_, flags, opened); code < 0) return code;
  file = std::make_shared<File>(client_, opened);
  FileRef extra;  // closed without the lock
  const std::lock_guard lock(files_);
  if (kept) {
    extra = std::exchange(file, kept);
  } else {
    kept = file;
  }
  return 0;
}

bool Object::has_files() const {
  const std::lock_guard lock(files_);
  return reader_ || writer_;
}

int Object::Sync(bool data_only, std::atomic<uint64_t>& verifier) {
  const std::lock_guard one_at_a_time(syncing_);
  FileRef writer;
  {
    const std::lock_guard lock(files_);
    writer = writer_;
  }
  if (!writer) return 0;
  is_unsynced_ = false;
  const int code = client_->Sync(writer->get(), data_only);
  if (code < 0) {
    losses_.fetch_add(1);
    verifier.fetch_add(1);
  }
  return code;
}

void Object::CloseFiles(std::atomic<uint64_t>& verifier) {
  (void)Sync(false, verifier);
  FileRef reader, writer;  // closed without the lock
  const std::lock_guard lock(files_);
  if (reader_.use_count() == 1) reader = std::move(reader_);
  if (writer_.use_count() == 1 && !is_unsynced_) writer = std::move(writer_);
}

ObjectRef Objects::Find(const InodeNumber& number) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(number);
  if (found == objects_.end()) return nullptr;
  found->second->used = std::chrono::steady_clock::now();
  by_use_.splice(by_use_.end(), by_use_, found->second);
  return found->second->object;
}

ObjectRef Objects::Insert(ObjectRef object) {
  const TimePoint now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = objects_.try_emplace(object->number());
  if (is_new) {
    place->second = by_use_.insert(by_use_.end(), {std::move(object), now});
  } else {
    place->second->used = now;
    by_use_.splice(by_use_.end(), by_use_, place->second);
  }
  return place->second->object;
}

ObjectRef Objects::Erase(const InodeNumber& number) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(number);
  if (found == objects_.end()) return nullptr;
  ObjectRef object = std::move(found->second->object);
  by_use_.erase(found->second);
  objects_.erase(found);
  return object;
}

std::vector<ObjectRef> Objects::Unused(TimePoint before) {
  std::vector<ObjectRef> unused;
  const std::lock_guard lock(mutex_);
  size_t place = 0;
  for (const Entry& entry : by_use_) {
    if (!IsUnused(entry, place++, before)) break;
    unused.push_back(entry.object);
  }
  return unused;
}

std::vector<ObjectRef> Objects::TakeUnused(TimePoint before) {
  std::vector<ObjectRef> taken;
  const std::lock_guard lock(mutex_);
  size_t place = 0;
  for (auto entry = by_use_.begin(); entry != by_use_.end() && IsUnused(*entry, place, before);) {
    // References are given out under the lock.
    if (entry->object.use_count() != 1 || entry->object->has_files()) {
      ++entry, ++place;
      continue;
    }
    objects_.erase(entry->object->number());
    taken.push_back(std::move(entry->object));
    entry = by_use_.erase(entry);
  }
  return taken;
}

}  // namespace penstock::fs::ceph
