// The methods of memory::FileSystem for holes and copies.
#include "fs/memory/change.h"

namespace penstock::fs::memory {
namespace {

// Allocate takes memory at once. The limit prevents one request from taking all memory of the machine.
constexpr uint64_t kLargestAllocation = 256 << 20;
constexpr uint64_t kCopyStep = Content::kBlockSize;

bool Overlap(const Inode& from, uint64_t from_offset, const Inode& to, uint64_t to_offset, uint64_t count) {
  const uint64_t distance = from_offset > to_offset ? from_offset - to_offset : to_offset - from_offset;
  return &from == &to && distance < count;
}

}  // namespace

Task<Observed<SeekReply>> FileSystem::Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                           SeekWhat what) {
  co_return Observe<SeekReply>(file, [&](Inode& inode) -> Result<SeekReply> {
    PENSTOCK_CHECK(MayRead(context.credentials, inode));
    const uint64_t size = inode.attributes.size;
    if (offset > size) return std::unexpected(Error::kNxIo);
    if (what == SeekWhat::kHole) return SeekReply{true, std::min(inode.content.FindHole(offset), size)};
    const std::optional<uint64_t> data = inode.content.FindData(offset);
    return SeekReply{data.has_value(), data.value_or(size)};
  });
}

Task<Changed<void>> FileSystem::Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                         uint64_t length) {
  co_return Change<void>(file, [&](Inode& inode) -> Result<void> {
    PENSTOCK_CHECK(MayWrite(context.credentials, inode));
    if (length == 0) return std::unexpected(Error::kInvalid);
    PENSTOCK_CHECK(MayGrow(inode, offset, length));
    if (length > std::min(kLargestAllocation, options_.capacity - std::min(used_, options_.capacity))) {
      return std::unexpected(Error::kNoSpace);
    }
    WriteRange(context.credentials, inode, offset + length,
               [&](Content& content) { content.Reserve(offset, length, ThreadBuffers()); });
    return {};
  });
}

Task<Changed<void>> FileSystem::Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                           uint64_t length) {
  co_return Change<void>(file, [&](Inode& inode) -> Result<void> {
    PENSTOCK_CHECK(MayWrite(context.credentials, inode));
    if (length == 0) return std::unexpected(Error::kInvalid);
    const uint64_t size = inode.attributes.size;
    if (offset >= size) return {};
    const uint64_t count = std::min(length, size - offset);
    WriteRange(context.credentials, inode, 0, [&](Content& content) { content.Clear(offset, count, ThreadBuffers()); });
    return {};
  });
}

Task<Changed<CopyReply>> FileSystem::Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                          const Handle& to, uint64_t to_offset, uint64_t count) {
  co_return Change<CopyReply>(to, [&](Inode& inode) -> Result<CopyReply> {
    PENSTOCK_TRY(Inode* const source, Find(from));
    PENSTOCK_TRY(const uint64_t copied, CopyRange(context.credentials, *source, from_offset, inode, to_offset, count));
    return CopyReply{copied, WriteVerifier(options_.instance)};
  });
}

Result<uint64_t> FileSystem::CopyRange(const Credentials& caller, Inode& from, uint64_t from_offset, Inode& to,
                                       uint64_t to_offset, uint64_t count) {
  PENSTOCK_CHECK(MayRead(caller, from));
  PENSTOCK_CHECK(MayWrite(caller, to));
  const uint64_t size = from.attributes.size;
  const uint64_t left = std::min(count, size - std::min(size, from_offset));
  if (Overlap(from, from_offset, to, to_offset, left)) return std::unexpected(Error::kInvalid);
  const uint64_t step = std::min(left, kCopyStep);
  PENSTOCK_CHECK(MayGrow(to, to_offset, step));
  if (step == 0) return 0;
  const Slice data = from.content.Read(from_offset, step, ThreadBuffers());
  WriteRange(caller, to, to_offset + step,
             [&](Content& content) { content.Write(to_offset, data.bytes(), ThreadBuffers()); });
  return step;
}

Task<Changed<void>> FileSystem::Clone(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                      const Handle& to, uint64_t to_offset, uint64_t count) {
  co_return Change<void>(to, [&](Inode& inode) -> Result<void> {
    PENSTOCK_TRY(Inode* const source, Find(from));
    return CloneRange(context.credentials, *source, from_offset, inode, to_offset, count);
  });
}

Result<void> FileSystem::CloneRange(const Credentials& caller, Inode& from, uint64_t from_offset, Inode& to,
                                    uint64_t to_offset, uint64_t count) {
  PENSTOCK_CHECK(MayRead(caller, from));
  PENSTOCK_CHECK(MayWrite(caller, to));
  const uint64_t size = from.attributes.size;
  if (from_offset > size || count > size - from_offset) return std::unexpected(Error::kInvalid);
  const uint64_t length = count == 0 ? size - from_offset : count;
  const bool whole = length % kCloneBlockSize == 0 || from_offset + length == size;
  if (from_offset % kCloneBlockSize != 0 || to_offset % kCloneBlockSize != 0 || !whole ||
      Overlap(from, from_offset, to, to_offset, length)) {
    return std::unexpected(Error::kInvalid);
  }
  if (length == 0) return {};
  PENSTOCK_CHECK(MayGrow(to, to_offset, length));
  WriteRange(caller, to, to_offset + length,
             [&](Content& content) { content.Share(to_offset, from.content, from_offset, length, ThreadBuffers()); });
  return {};
}

Task<Result<void>> FileSystem::Advise(const RequestContext& context, const Handle& file, uint64_t, uint64_t, Advice) {
  std::lock_guard lock(mutex_);
  const Result<Inode*> inode = Find(file);
  if (!inode) co_return std::unexpected(inode.error());
  co_return MayRead(context.credentials, **inode);
}

}  // namespace penstock::fs::memory
