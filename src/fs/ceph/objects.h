// The objects of CephFS that calls use, and the files that are open for them.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/timer.h"
#include "fs/ceph/client.h"

template <>
struct std::hash<penstock::fs::ceph::InodeNumber> {
  size_t operator()(const penstock::fs::ceph::InodeNumber& number) const {
    return number.ino ^ (number.snapshot * 0x9e3779b97f4a7c15u);
  }
};

namespace penstock::fs::ceph {

// An open file. Its end closes it, which may block. A file that was written must be synced before.
class File {
 public:
  File(std::shared_ptr<Client> client, OpenFile* file) : client_(std::move(client)), file_(file) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { client_->Close(file_); }
  OpenFile* get() const { return file_; }

 private:
  const std::shared_ptr<Client> client_;
  OpenFile* const file_;
};
using FileRef = std::shared_ptr<File>;

// An object, with a reference to its inode. Its end gives the reference back, which may block. Any thread.
//
// An open file tells the MDS that this client wants to cache the file's data, or to keep writes to it for a while. If
// several clients of the cluster want that, none may. So the files are closed when they have not been used for a short
// time.
class Object {
 public:
  // Takes over the reference.
  Object(std::shared_ptr<Client> client, const InodeNumber& number, Inode* inode, FileType type)
      : client_(std::move(client)), number_(number), inode_(inode), type_(type) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object();

  const InodeNumber& number() const { return number_; }
  Inode* inode() const { return inode_; }
  FileType type() const { return type_; }
  bool is_directory() const { return type_ == FileType::kDirectory; }
  bool is_live() const { return number_.snapshot == kNoSnapshot; }

  // Opens the file, unless it is open. Returns a negative errno on failure.
  int OpenForReading(FileRef& file) { return Open(reader_, O_RDONLY, file); }
  int OpenForWriting(FileRef& file) { return Open(writer_, O_RDWR, file); }
  bool has_files() const;
  // A call that has written through OpenForWriting()'s file says so, also if that failed, while it still has the file.
  void NoteWrite() { is_unsynced_ = true; }
  // How often data were lost. If this has changed since before a write, the write may be lost although a later Sync()
  // succeeds.
  uint64_t losses() const { return losses_; }

  // Waits until all data that this client has written are on stable storage. Returns a negative errno if data are lost;
  // then it has changed `verifier`. One loss is not told twice, so the syncs of an object follow each other, and who
  // comes later finds the changed verifier.
  int Sync(bool data_only, std::atomic<uint64_t>& verifier);
  // Syncs and closes the files, except those that a call uses, or has written meanwhile.
  void CloseFiles(std::atomic<uint64_t>& verifier);

 private:
  int Open(FileRef& kept, int flags, FileRef& file);

  const std::shared_ptr<Client> client_;
  const InodeNumber number_;
  Inode* const inode_;
  const FileType type_;
  mutable std::mutex files_;  // guards the following
  FileRef reader_;
  FileRef writer_;
  std::atomic<bool> is_unsynced_ = false;
  std::atomic<uint64_t> losses_ = 0;
  std::mutex syncing_;
};
using ObjectRef = std::shared_ptr<Object>;

// The objects that were used a short time ago. Any thread.
class Objects {
 public:
  static constexpr size_t kMost = 4096;

  // Null if the object is not there.
  ObjectRef Find(const InodeNumber& number);
  // Adds the object, unless another thread has added it. Returns the one that is there.
  ObjectRef Insert(ObjectRef object);
  // The result must be released without a lock.
  ObjectRef Erase(const InodeNumber& number);
  // The objects that were not used since `before`, and the least recently used ones beyond kMost.
  std::vector<ObjectRef> Unused(TimePoint before);
  // Removes those of them that no call uses, and that have no files. Other objects stay: there is never a second Object
  // of an inode that has data which are not synced.
  std::vector<ObjectRef> TakeUnused(TimePoint before);
  std::vector<ObjectRef> All() { return Unused(TimePoint::max()); }

 private:
  struct Entry {
    ObjectRef object;
    TimePoint used;
  };
  bool IsUnused(const Entry& entry, size_t place, TimePoint before) const {
    return entry.used < before || place + kMost < by_use_.size();
  }

  std::mutex mutex_;
  std::list<Entry> by_use_;  // the least recently used one first
  std::unordered_map<InodeNumber, std::list<Entry>::iterator> objects_;
};

}  // namespace penstock::fs::ceph
