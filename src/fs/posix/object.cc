#include "fs/posix/object.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "fs/acl_octets.h"
#include "fs/errno.h"
#include "fs/posix/open_objects.h"

namespace penstock::fs::posix {
namespace {

// Whether the kernel failed to write data of the file to the disk, and has not yet reported this to this descriptor.
// A wait for any pages reports it; this waits for the pages at the largest offset, which do not exist.
bool HasLostWrites(int fd) {
  if (::sync_file_range(fd, INT64_MAX - 1, 1, SYNC_FILE_RANGE_WAIT_BEFORE) == 0) return false;
  return errno == EIO || errno == ENOSPC || errno == EDQUOT;
}

}  // namespace

Object::Object(const Handle& handle, FileDescriptor path, FileType type, std::shared_ptr<OpenObjects> all,
               std::shared_ptr<std::atomic<uint64_t>> verifier)
    : handle_(handle), path_(std::move(path)), type_(type), all_(std::move(all)), verifier_(std::move(verifier)) {
  all_->Count();
}

Object::~Object() {
  NoteLostWrites();
  all_->Uncount();
}

std::unique_lock<std::mutex> Object::Lock(Patience patience) {
  return patience == Patience::kNone ? std::unique_lock(mutex_, std::try_to_lock) : std::unique_lock(mutex_);
}

// O_NONBLOCK: if another program has a lease on the file, the call fails with kDelay instead of waiting. The lock is
// not held while the file is opened, because descriptors of other objects may have to be closed for it.
std::optional<Result<SharedFile>> Object::OpenOnce(SharedFile& file, int flags, Patience patience) {
  const bool writes = &file == &writer_;
  {
    const std::unique_lock lock = Lock(patience);
    if (!lock) return std::nullopt;
    if (writes) writer_was_used_ = has_written_ = true;
    if (file) return file;
  }
  if (patience == Patience::kNone) return std::nullopt;
  FileDescriptor opened = all_->Open([&] { return ::open(ProcPath(fd()).c_str(), flags | O_NONBLOCK | O_CLOEXEC); });
  if (!opened) return LastError();
  SharedFile mine = all_->Share(std::move(opened));
  bool note = false;
  {
    const std::lock_guard lock(mutex_);
    if (file) return file;  // another thread was first
    file = mine;
    note = writes && !std::exchange(writer_noted_, true);
  }
  if (note) all_->NoteWriter(weak_from_this());
  all_->Trim();
  return mine;
}

std::optional<Result<SharedFile>> Object::Reader(Patience patience) { return OpenOnce(reader_, O_RDONLY, patience); }
std::optional<Result<SharedFile>> Object::Writer(Patience patience) { return OpenOnce(writer_, O_WRONLY, patience); }

SharedFile Object::OpenWriter() {
  std::lock_guard lock(mutex_);
  return writer_;
}

void Object::Adopt(SharedFile file) {
  bool note = false;
  {
    const std::lock_guard lock(mutex_);
    writer_was_used_ = true;
    has_written_ = false;
    if (!reader_) reader_ = file;
    if (!writer_) writer_ = std::move(file);
    note = !std::exchange(writer_noted_, true);
  }
  if (note) all_->NoteWriter(weak_from_this());
}

bool Object::CanOpen(int mode) const { return ::faccessat(AT_FDCWD, ProcPath(fd()).c_str(), mode, AT_EACCESS) == 0; }

bool Object::Uses(const SharedFile& file) const { return file && file.use_count() > (reader_ == writer_ ? 2 : 1); }

void Object::NoteLostWrites() const {
  if (writer_ && HasLostWrites(writer_->get())) verifier_->fetch_add(1);
}

void Object::TakeWriter(Files& taken) {
  NoteLostWrites();
  // An adopted file is used for both.
  if (reader_ == writer_) taken.reader = std::exchange(reader_, nullptr);
  taken.writer = std::exchange(writer_, nullptr);
}

void Object::DropWriter() {
  Files taken;
  const std::lock_guard change(changing);  // the mode stays as it is
  if (!CanOpen(W_OK)) return;
  const std::lock_guard lock(mutex_);
  TakeWriter(taken);
}

bool Object::EndPin() {
  const std::unique_lock lock = Lock(Patience::kNone);
  if (!lock) return true;
  if (!writer_) has_written_ = false;
  return has_written_;
}

void Object::CloseIfUnpinned() {
  Files taken;
  const std::unique_lock change(changing, std::try_to_lock);
  if (pinned()) return;
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_written_, false) && change) TakeWriter(taken);
}

Result<SharedFile> Object::KeepForWriting() {
  {
    const std::lock_guard lock(mutex_);
    if (writer_ || !pinned() || !has_written_) return writer_;
  }
  Result<SharedFile> writer = Writer();
  if (!writer && writer.error() != Error::kDelay) return nullptr;  // the mode forbids it already
  return writer;
}

bool Object::CloseUnusedWriter(TimePoint now) {
  Files taken;
  const std::unique_lock lock = Lock(Patience::kNone);
  if (!lock) return false;
  if (writer_) {
    if (std::exchange(writer_was_used_, false) || Uses(writer_)) {
      writer_idle_since_ = now;
      return false;
    }
    if (!CanOpen(W_OK) && (pinned() || now - writer_idle_since_ < kKeptUnused)) return false;
    TakeWriter(taken);
  }
  writer_noted_ = false;
  return true;
}

size_t Object::CloseUnused() {
  Files taken;
  size_t closed = 0;
  const std::unique_lock lock = Lock(Patience::kNone);
  if (!lock) return 0;
  if (writer_ && !Uses(writer_) && CanOpen(W_OK)) {
    TakeWriter(taken);
    ++closed;
  }
  if (reader_ && reader_ != writer_ && !Uses(reader_) && CanOpen(R_OK)) {
    taken.reader = std::exchange(reader_, nullptr);
    ++closed;
  }
  return closed;
}

size_t Object::CountUnused() {
  const std::lock_guard lock(mutex_);
  const size_t files = reader_ == writer_ ? 1 : 2;
  return 1 + (reader_ && !Uses(reader_) ? 1 : 0) + (files == 2 && writer_ && !Uses(writer_) ? 1 : 0);
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

}  // namespace penstock::fs::posix
