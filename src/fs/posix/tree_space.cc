// The methods of Tree for holes, and for copies that the kernel makes.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "fs/errno.h"
#include "fs/posix/tree.h"

namespace penstock::fs::posix {
namespace {

// A disk copies this much in some tens of milliseconds.
constexpr uint64_t kCopyStep = 8 << 20;

bool IsRange(uint64_t offset, uint64_t length) { return offset <= INT64_MAX && length <= INT64_MAX - offset; }

}  // namespace

Observed<SeekReply> Tree::Seek(const Credentials& caller, const Handle& handle, uint64_t offset, SeekWhat what) {
  const auto seek = [&](Object& object, const Stat& stat) -> Result<SeekReply> {
    PENSTOCK_TRY(const SharedFile file, OpenToRead(caller, object, stat.attributes));
    const uint64_t size = stat.attributes.size;
    if (offset > size) return std::unexpected(Error::kNxIo);
    if (offset == size) return SeekReply{what == SeekWhat::kHole, size};
    // No other user depends on the descriptor's position.
    const int whence = what == SeekWhat::kData ? SEEK_DATA : SEEK_HOLE;
    const off_t found = ::lseek(file->get(), static_cast<off_t>(offset), whence);
    if (found >= 0) return SeekReply{true, static_cast<uint64_t>(found)};
    if (errno == ENXIO) return SeekReply{false, size};  // no data follows
    return LastError();
  };
  return *Observe<SeekReply>(handle, Patience::kMayBlock, seek);
}

Changed<void> Tree::ChangeSpace(const Credentials& caller, const Handle& handle, uint64_t offset, uint64_t length,
                                int flags, Touches& touches) {
  return Change<void>(handle, touches, [&](Object& object, const Stat& stat) -> Result<void> {
    PENSTOCK_TRY(const SharedFile file, OpenToWrite(caller, object, stat.attributes));
    if (length == 0) return std::unexpected(Error::kInvalid);
    if ((flags & FALLOC_FL_PUNCH_HOLE) != 0) {
      // Nothing changes beyond the end, and the file system may reject such a range.
      if (offset >= stat.attributes.size) return {};
      length = std::min(length, stat.attributes.size - offset);
    } else if (!IsRange(offset, length)) {
      return std::unexpected(Error::kFileTooBig);
    }
    {
      const AsCaller as_caller(server_, caller);
      while (::fallocate(file->get(), flags, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0) {
        if (errno != EINTR) return LastError();
      }
    }
    DropSetId(caller, file->get(), stat.attributes);
    return {};
  });
}

Changed<CopyReply> Tree::Copy(const Credentials& caller, const Handle& from, uint64_t from_offset, const Handle& to,
                              uint64_t to_offset, uint64_t count) {
  const Result<ObjectRef> object = *Reach(to, Patience::kMayBlock);
  if (!object) return {std::unexpected(object.error()), {}};
  // Does not use Change(), because copied data becomes stable only when it is committed.
  std::lock_guard lock((*object)->changing);
  const Result<Stat> stat = StatOf(**object);
  if (!stat) return {std::unexpected(stat.error()), {}};
  Changed<CopyReply> changed{std::unexpected(Error::kServerFault), {BeforeOf(stat->attributes), {}}};
  changed.result = CopyRange(caller, from, from_offset, **object, stat->attributes, to_offset, count);
  NoteAfter(**object, stat->attributes, changed.object, changed.result && changed.result->count != 0);
  return changed;
}

Result<CopyReply> Tree::CopyRange(const Credentials& caller, const Handle& from, uint64_t from_offset, Object& to,
                                  const Attributes& before, uint64_t to_offset, uint64_t count) {
  PENSTOCK_TRY(const ObjectRef source, *Reach(from, Patience::kMayBlock));
  PENSTOCK_TRY(const Stat stat, StatOf(*source));
  PENSTOCK_TRY(const SharedFile reader, OpenToRead(caller, *source, stat.attributes));
  PENSTOCK_TRY(const SharedFile writer, OpenToWrite(caller, to, before));
  const WriteVerifier verifier(verifier_->load());
  const uint64_t size = stat.attributes.size;
  const uint64_t left = std::min(count, size - std::min(size, from_offset));
  if (left == 0) return CopyReply{0, verifier};
  if (!IsRange(to_offset, left)) return std::unexpected(Error::kFileTooBig);
  const uint64_t distance = from_offset > to_offset ? from_offset - to_offset : to_offset - from_offset;
  if (source->handle() == to.handle() && distance < left) return std::unexpected(Error::kInvalid);

  auto read_at = static_cast<off64_t>(from_offset);
  auto write_at = static_cast<off64_t>(to_offset);
  const uint64_t step = std::min(left, kCopyStep);
  ssize_t copied;
  {
    const AsCaller as_caller(server_, caller);
    do {
      copied = ::copy_file_range(reader->get(), &read_at, writer->get(), &write_at, step, 0);
    } while (copied < 0 && errno == EINTR);
  }
  if (copied < 0) return LastError();
  if (copied != 0) DropSetId(caller, writer->get(), before);
  return CopyReply{static_cast<uint64_t>(copied), verifier};
}

Changed<void> Tree::Clone(const Credentials& caller, const Handle& from, uint64_t from_offset, const Handle& to,
                          uint64_t to_offset, uint64_t count, Touches& touches) {
  return Change<void>(to, touches, [&](Object& object, const Stat& stat) {
    return CloneRange(caller, from, from_offset, object, stat.attributes, to_offset, count);
  });
}

Result<void> Tree::CloneRange(const Credentials& caller, const Handle& from, uint64_t from_offset, Object& to,
                              const Attributes& before, uint64_t to_offset, uint64_t count) {
  PENSTOCK_TRY(const ObjectRef source, *Reach(from, Patience::kMayBlock));
  PENSTOCK_TRY(const Stat stat, StatOf(*source));
  PENSTOCK_TRY(const SharedFile reader, OpenToRead(caller, *source, stat.attributes));
  PENSTOCK_TRY(const SharedFile writer, OpenToWrite(caller, to, before));
  const uint64_t size = stat.attributes.size;
  if (from_offset > size || count > size - from_offset) return std::unexpected(Error::kInvalid);
  if (from_offset == size) return {};
  file_clone_range range{};
  range.src_fd = reader->get();
  range.src_offset = from_offset;
  range.src_length = count;
  range.dest_offset = to_offset;
  while (::ioctl(writer->get(), FICLONERANGE, &range) != 0) {
    if (errno != EINTR) return LastError();
  }
  DropSetId(caller, writer->get(), before);
  return {};
}

Result<void> Tree::Advise(const Credentials& caller, const Handle& handle, uint64_t offset, uint64_t count,
                          Advice advice) {
  PENSTOCK_TRY(const ObjectRef object, *Reach(handle, Patience::kMayBlock));
  PENSTOCK_TRY(const Stat stat, StatOf(*object));
  PENSTOCK_TRY(const SharedFile file, OpenToRead(caller, *object, stat.attributes));
  if (offset > INT64_MAX) return {};
  const int what = advice == Advice::kWillNeed ? POSIX_FADV_WILLNEED : POSIX_FADV_DONTNEED;
  const uint64_t length = std::min<uint64_t>(count, INT64_MAX - offset);
  ::posix_fadvise(file->get(), static_cast<off_t>(offset), static_cast<off_t>(length), what);
  return {};
}

}  // namespace penstock::fs::posix
