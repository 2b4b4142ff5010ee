// The methods of Tree that move data.
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "fs/posix/error.h"
#include "fs/posix/tree.h"

namespace penstock::fs::posix {

Result<SharedFile> Tree::OpenToRead(const Credentials& caller, Object& object, const Attributes& attributes) {
  PENSTOCK_CHECK(CheckRegular(object.type()));
  if (!MayReadData(attributes, server_.Effective(caller), RightsTo(object, attributes, caller))) {
    return std::unexpected(Error::kAccess);
  }
  return object.Reader();
}

Result<SharedFile> Tree::OpenToWrite(const Credentials& caller, Object& object, const Attributes& attributes) {
  PENSTOCK_CHECK(CheckRegular(object.type()));
  if (!MayWriteData(attributes, server_.Effective(caller), RightsTo(object, attributes, caller))) {
    return std::unexpected(Error::kAccess);
  }
  return object.Writer();
}

// We have root's rights here, and the kernel leaves these bits to root.
void Tree::DropSetId(const Credentials& caller, int fd, const Attributes& before) const {
  const bool set_id = (before.mode & 04000) != 0 || (before.mode & 02010) == 02010;
  if (!set_id || server_.Effective(caller).uid == 0) return;
  ::fchmod(fd, before.mode & ~((before.mode & 0010) != 0 ? 06000u : 04000u));
}

// NFS has no open: each call is checked against the mode as it is now, whatever the descriptor was opened for.
Observed<Tree::Extent> Tree::PrepareRead(const Credentials& caller, Object& object, uint64_t offset, uint32_t count) {
  const Result<Stat> stat = StatOf(object);
  if (!stat) return {std::unexpected(stat.error()), {}};
  const Attributes& attributes = stat->attributes;
  const auto prepare = [&]() -> Result<Extent> {
    PENSTOCK_TRY(SharedFile file, OpenToRead(caller, object, attributes));
    const uint64_t left = offset < attributes.size ? attributes.size - offset : 0;
    return Extent{std::move(file), static_cast<size_t>(std::min<uint64_t>(left, count)), left <= count};
  };
  return {prepare(), attributes};
}

// Space that is kept for root is not for others.
Result<uint32_t> Tree::WriteAll(const Credentials& caller, int fd, uint64_t offset, ConstBytes bytes) {
  std::optional<AsCaller> as_caller;
  if (!parts_.volume.in_memory && space_.IsLow(fd)) as_caller.emplace(server_, caller);
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count =
        ::pwrite(fd, bytes.data() + written, bytes.size() - written, static_cast<off_t>(offset + written));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && written == 0) return LastError();
    if (count <= 0) break;  // what was written counts; the client learns the reason with its next request
    written += static_cast<size_t>(count);
  }
  return static_cast<uint32_t>(written);
}

std::optional<Changed<WriteReply>> Tree::Write(const Credentials& caller, Object& object, uint64_t offset,
                                               const Data& data, Stability stability, Patience patience) {
  std::unique_lock lock(object.changing, std::defer_lock);
  if (patience == Patience::kMayBlock) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return std::nullopt;
  }
  const Result<Stat> stat = StatOf(object);
  if (!stat) return Changed<WriteReply>{std::unexpected(stat.error()), {}};
  const Attributes& before = stat->attributes;
  Changed<WriteReply> changed{std::unexpected(Error::kServerFault), {BeforeOf(before), {}}};
  SharedFile file;

  const auto write = [&]() -> Result<WriteReply> {
    if (offset > INT64_MAX || data.size() > INT64_MAX - offset) return std::unexpected(Error::kFileTooBig);
    PENSTOCK_TRY(file, OpenToWrite(caller, object, before));
    // Read before the data goes out: an error that is seen meanwhile then shows to this caller too.
    const WriteVerifier verifier(verifier_.load());
    std::vector<std::byte> copy;
    if (data.is_file()) {
      copy.resize(data.size());
      if (const auto read = data.CopyTo(copy); !read) return std::unexpected(FromErrno(read.error().value()));
    }
    PENSTOCK_TRY(const uint32_t count, WriteAll(caller, file->get(), offset, data.is_file() ? copy : data.bytes()));
    if (count != 0) DropSetId(caller, file->get(), before);
    return WriteReply{count, stability, verifier};
  };
  changed.result = write();
  NoteAfter(object, before, changed.object, changed.result && changed.result->count != 0);
  return changed;
}

// RFC 1813 §3.3.21. All of the file: a range alone would leave out what leads to it.
Changed<Tree::Uncommitted> Tree::PrepareCommit(const Handle& handle) {
  const Result<ObjectRef> object = *Reach(handle, Patience::kMayBlock);
  if (!object) return {std::unexpected(object.error()), {}};
  const Result<Stat> stat = StatOf(**object);
  if (!stat) return {std::unexpected(stat.error()), {}};
  const auto prepare = [&]() -> Result<Uncommitted> {
    PENSTOCK_CHECK(CheckRegular((*object)->type()));
    Result<SharedFile> file = (*object)->Writer();
    if (!file) file = (*object)->Reader();
    if (!file) return std::unexpected(file.error());
    return Uncommitted{*object, *std::move(file)};
  };
  return {prepare(), {BeforeOf(stat->attributes), stat->attributes}};
}

WriteVerifier Tree::FinishCommit(Object& object, WeakCacheData& data) {
  object.DropWriter();  // a client commits when it has done with a file
  if (const Result<Stat> after = StatOf(object)) data.after = after->attributes;
  return WriteVerifier(verifier_.load());
}

}  // namespace penstock::fs::posix
