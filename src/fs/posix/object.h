// An open object of the served tree. open_objects.h keeps all of them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "base/timer.h"
#include "fs/posix/creator_mark.h"
#include "fs/posix/path.h"
#include "fs/posix/stat.h"

namespace penstock::fs::posix {

class OpenObjects;

using SharedFile = std::shared_ptr<const FileDescriptor>;

// Any thread. An object has up to three descriptors: one for the object itself (O_PATH), and from the first use on
// one for reading and one for writing. All of them count in OpenObjects.
class Object : public std::enable_shared_from_this<Object> {
 public:
  // `verifier` is the verifier of unstable writes. It changes when the kernel has lost writes.
  Object(const Handle& handle, FileDescriptor path, FileType type, std::shared_ptr<OpenObjects> all,
         std::shared_ptr<std::atomic<uint64_t>> verifier);
  ~Object();

  const Handle& handle() const { return handle_; }
  int fd() const { return path_.get(); }
  FileType type() const { return type_; }
  bool is_directory() const { return type_ == FileType::kDirectory; }

  // For regular files and directories. Opens with the server's own rights. If impatient, returns no value unless the
  // descriptor is open already, because opening may read from the disk (quotas, for example).
  std::optional<Result<SharedFile>> Reader(Patience patience);
  Result<SharedFile> Reader() { return *Reader(Patience::kMayBlock); }
  // For regular files.
  std::optional<Result<SharedFile>> Writer(Patience patience);
  Result<SharedFile> Writer() { return *Writer(Patience::kMayBlock); }
  // The descriptor for writing if it is open, else null.
  SharedFile OpenWriter();
  // Takes the descriptor of a file that was just created, which is open for reading and writing even if its mode does
  // not permit that.
  void Adopt(SharedFile file);

  // Closes the descriptor for writing when a client is done with the file. A file that is open for writing cannot be
  // executed on the server's machine, so the descriptor is not kept for long. A file that the server's user could not
  // open again stays open, because its client may continue to write.
  void DropWriter();
  // Called when the last client has closed the file. Returns whether CloseIfUnpinned() has something to do: whether the
  // descriptor for writing is open and was used; an adopted one may be unused. Does not wait: true if another thread
  // uses the object.
  bool EndPin();
  // Closes the descriptor for writing if it was used and no client has the file open any longer, even if it could not
  // be opened again. If the file is being changed, CloseUnusedWriter() does so later.
  void CloseIfUnpinned();
  // Called before the file's mode may forbid the server's user to open it for writing, while `changing` is held: opens
  // the descriptor now if a client has the file open, and has written to it since. Returns the descriptor, or null. It
  // stays open if the caller has it until the mode has changed. Fails with kDelay if no descriptor is left, or if
  // another program has a lease on the file.
  Result<SharedFile> KeepForWriting();
  // Closes the descriptor for writing if it was not used since the last call. One that the server's user could not open
  // again is closed if no client of version 4 has the file open, and if it was unused for kKeptUnused. Returns false if
  // a later call may have work to do.
  bool CloseUnusedWriter(TimePoint now);
  // As long as its creator counts as the owner.
  static constexpr auto kKeptUnused = CreatorMark::kLasts;
  // Closes the descriptors for reading and writing that are unused and can be opened again. Returns their number.
  size_t CloseUnused();
  // The number of descriptors that are closed when the object is destroyed.
  size_t CountUnused();

  // Whether the object has an access control list that says more than its mode. The result is kept until the ctime
  // changes. If impatient, returns no value where the kernel may have to read the list from the disk; after the first
  // read the kernel has it in memory, since the object is open.
  std::optional<bool> HasAcl(const Timestamp& ctime, Patience patience);
  // Forgets the result of HasAcl() before a change that the ctime may not show.
  void ForgetAcl();

  // Whether the object is kept after its last name was removed.
  bool pinned() const { return pinned_.load(std::memory_order_relaxed); }

  // Who created the object, if this server did and its user owns it instead.
  CreatorMark creator;

  // Held during a change, while DropWriter() and CloseIfUnpinned() close its writer, and while the attributes before
  // and after it are read (wcc_data), so that no other change by this server intervenes. It does not exclude changes by
  // other programs of the machine.
  std::mutex changing;
  // Held while a directory is read, because its descriptor has one position.
  std::mutex listing;

 private:
  // Descriptors that were taken out, to be closed after the lock is released.
  struct Files {
    SharedFile reader, writer;
  };

  std::optional<Result<SharedFile>> OpenOnce(SharedFile& file, int flags, Patience patience);
  // If impatient, returns an unlocked lock when another thread holds the mutex, perhaps while that thread waits for
  // the disk.
  std::unique_lock<std::mutex> Lock(Patience patience);
  bool CanOpen(int mode) const;
  // The caller of the following methods holds the lock.
  bool Uses(const SharedFile& file) const;  // whether another reference exists
  void TakeWriter(Files& taken);
  void NoteLostWrites() const;

  const Handle handle_;
  const FileDescriptor path_;
  const FileType type_;
  const std::shared_ptr<OpenObjects> all_;
  const std::shared_ptr<std::atomic<uint64_t>> verifier_;
  friend class OpenObjects;
  std::atomic<bool> pinned_ = false;

  std::mutex mutex_;  // guards the following members
  SharedFile reader_;
  SharedFile writer_;
  bool writer_was_used_ = false;  // since the last CloseUnusedWriter()
  bool has_written_ = false;      // since the file was adopted, or unpinned last
  TimePoint writer_idle_since_;   // the last CloseUnusedWriter() that found it used
  bool writer_noted_ = false;     // OpenObjects will call CloseUnusedWriter()
  bool acl_read_ = false;         // whether the list was read at least once
  bool acl_known_ = false;
  bool has_acl_ = false;
  Timestamp acl_ctime_;
};

using ObjectRef = std::shared_ptr<Object>;

}  // namespace penstock::fs::posix
