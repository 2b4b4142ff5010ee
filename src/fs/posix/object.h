// An object of the served tree that is open. open_objects.h keeps them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "fs/posix/path.h"
#include "fs/posix/stat.h"

namespace penstock::fs::posix {

class OpenObjects;

using SharedFile = std::shared_ptr<const FileDescriptor>;

// Any thread. Up to three descriptors: the object itself (O_PATH), and, from first use on, one to read and one to
// write. All of them count in OpenObjects.
class Object : public std::enable_shared_from_this<Object> {
 public:
  // `verifier` is that of unstable writes: it becomes another where the kernel has lost some.
  Object(const Handle& handle, FileDescriptor path, FileType type, std::shared_ptr<OpenObjects> all,
         std::shared_ptr<std::atomic<uint64_t>> verifier);
  ~Object();

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
  // The latter where it is open; else null.
  SharedFile OpenWriter();
  // A file that was made just now is open already, whatever its mode allows.
  void Adopt(SharedFile file);

  // A file that is open for writing cannot be executed on the server's machine, so nobody keeps it open for long. One that the
  // server's user may not open again stays open: its client may write on.
  // At once, for a client that has done with the file.
  void DropWriter();
  // The same for a file that no client has open any more, whether it can be opened again or not.
  void CloseWriter();
  // Closes it where nobody has asked for it since the last call. False where another call may find something to do.
  bool CloseUnusedWriter();
  // Closes what nobody uses now and can be opened again, but for the object itself. How many descriptors.
  size_t CloseUnused();
  // How many descriptors are closed when the object goes.
  size_t CountUnused();

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
  // What was taken out, to be closed when the lock is gone.
  struct Files {
    SharedFile reader, writer;
  };

  std::optional<Result<SharedFile>> OpenOnce(SharedFile& file, int flags, Patience patience);
  // Owns nothing where impatient and another thread has it, perhaps while it waits for the disk.
  std::unique_lock<std::mutex> Lock(Patience patience);
  bool CanOpen(int mode) const;
  // Those that follow are called under the lock.
  bool Uses(const SharedFile& file) const;  // somebody else does
  void TakeWriter(Files& taken);
  void NoteLostWrites() const;

  const Handle handle_;
  const FileDescriptor path_;
  const FileType type_;
  const std::shared_ptr<OpenObjects> all_;
  const std::shared_ptr<std::atomic<uint64_t>> verifier_;
  friend class OpenObjects;
  std::atomic<bool> pinned_ = false;

  std::mutex mutex_;  // guards what follows
  SharedFile reader_;
  SharedFile writer_;
  bool writer_was_used_ = false;  // since CloseUnusedWriter()
  bool writer_noted_ = false;     // CloseUnusedWriter() is going to be called
  bool acl_read_ = false;         // at some time
  bool acl_known_ = false;
  bool has_acl_ = false;
  Timestamp acl_ctime_;
};

using ObjectRef = std::shared_ptr<Object>;

}  // namespace penstock::fs::posix
