// The methods of Tree that read and write data.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "fs/errno.h"
#include "fs/posix/tree.h"

namespace penstock::fs::posix {

std::optional<Result<SharedFile>> Tree::OpenToRead(const Credentials& caller, Object& object,
                                                   const Attributes& attributes, Patience patience) {
  if (const auto regular = CheckRegular(object.type()); !regular) return std::unexpected(regular.error());
  const std::optional<Rights> rights = RightsTo(object, attributes, caller, patience);
  if (!rights) return std::nullopt;
  if (!MayReadData(attributes, JudgedAs(object, attributes, caller), *rights)) return std::unexpected(Error::kAccess);
  return object.Reader(patience);
}

std::optional<Result<SharedFile>> Tree::OpenToWrite(const Credentials& caller, Object& object,
                                                    const Attributes& attributes, Patience patience) {
  if (const auto regular = CheckRegular(object.type()); !regular) return std::unexpected(regular.error());
  const std::optional<Rights> rights = RightsTo(object, attributes, caller, patience);
  if (!rights) return std::nullopt;
  if (!MayWriteData(attributes, JudgedAs(object, attributes, caller), *rights)) return std::unexpected(Error::kAccess);
  return object.Writer(patience);
}

bool Tree::LosesSetId(const Credentials& caller, const Attributes& before) const {
  const bool set_id = (before.mode & 04000) != 0 || (before.mode & 02010) == 02010;
  return set_id && server_.Effective(caller).uid != 0;
}

// The thread has root's rights here, and for root the kernel does not clear these bits.
void Tree::DropSetId(const Credentials& caller, int fd, const Attributes& before) const {
  if (!LosesSetId(caller, before)) return;
  ::fchmod(fd, before.mode & ~((before.mode & 0010) != 0 ? 06000u : 04000u));
}

// NFS has no open: each call is checked against the current mode, not against the mode when the descriptor was
// opened.
std::optional<Observed<Tree::Extent>> Tree::PrepareRead(const Credentials& caller, const Handle& handle,
                                                        uint64_t offset, uint32_t count, Patience patience) {
  const auto prepare = [&](Object& object, const Stat& stat) -> std::optional<Result<Extent>> {
    const Attributes& attributes = stat.attributes;
    std::optional<Result<SharedFile>> file = OpenToRead(caller, object, attributes, patience);
    if (!file) return std::nullopt;
    if (!*file) return std::unexpected(file->error());
    const uint64_t left = offset < attributes.size ? attributes.size - offset : 0;
    return Extent{std::move(**file), static_cast<size_t>(std::min<uint64_t>(left, count)), left <= count};
  };
  return Observe<Extent>(handle, patience, prepare);
}

// Writes as the caller if space is low: the space that is reserved for root is not for callers.
Result<uint32_t> Tree::WriteAll(const Credentials& caller, int fd, uint64_t offset, ConstBytes bytes) {
  std::optional<AsCaller> as_caller;
  if (!parts_.volume.in_memory && *space_.IsLow(fd, Patience::kMayBlock)) as_caller.emplace(server_, caller);
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count =
        ::pwrite(fd, bytes.data() + written, bytes.size() - written, static_cast<off_t>(offset + written));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && written == 0) return LastError();
    if (count <= 0) break;  // the written octets count; the client gets the error with its next request
    written += static_cast<size_t>(count);
  }
  return static_cast<uint32_t>(written);
}

// If the kernel would have had to wait, the octets written before are written again, and errors occur again: the same
// octets go to the same place.
std::optional<uint32_t> Tree::WriteAtOnce(int fd, uint64_t offset, ConstBytes bytes) {
  if (bytes.empty()) return 0;
  const auto whole = [&](ssize_t count) {
    return count == static_cast<ssize_t>(bytes.size()) ? std::optional(static_cast<uint32_t>(count)) : std::nullopt;
  };
  if (parts_.volume.in_memory) {
    return whole(::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)));
  }
  if (space_.IsLow(fd, Patience::kNone).value_or(true)) return std::nullopt;  // WriteAll() then acts as the caller
  const iovec range{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const ssize_t count = ::pwritev2(fd, &range, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  // EINVAL: the file system can do this, but not through the page cache.
  if (count < 0 && (errno == EOPNOTSUPP || errno == EINVAL)) writes_at_once_ = false;
  return whole(count);
}

std::optional<Changed<WriteReply>> Tree::Write(const Credentials& caller, Object& object, uint64_t offset,
                                               const Data& data, Stability stability, Patience patience) {
  const bool impatient = patience == Patience::kNone;
  if (impatient && !parts_.volume.in_memory && !writes_at_once_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::unique_lock lock =
      impatient ? std::unique_lock(object.changing, std::try_to_lock) : std::unique_lock(object.changing);
  if (!lock) return std::nullopt;
  const std::optional<Result<Stat>> stat = StatOf(object, patience);
  if (!stat) return std::nullopt;
  if (!*stat) return Changed<WriteReply>{std::unexpected(stat->error()), {}};
  const Attributes& before = (*stat)->attributes;
  if (impatient && (data.is_file() || LosesSetId(caller, before))) return std::nullopt;
  Changed<WriteReply> changed{std::unexpected(Error::kServerFault), {BeforeOf(before), {}}};

  const auto write = [&]() -> std::optional<Result<WriteReply>> {
    if (offset > INT64_MAX || data.size() > INT64_MAX - offset) return std::unexpected(Error::kFileTooBig);
    const std::optional<Result<SharedFile>> file = OpenToWrite(caller, object, before, patience);
    if (!file) return std::nullopt;
    if (!*file) return std::unexpected(file->error());
    const int fd = (**file)->get();
    // The verifier is read before the data is written, so that an error during the write also changes it for this
    // caller.
    const WriteVerifier verifier(verifier_->load());
    if (impatient) {
      const std::optional<uint32_t> count = WriteAtOnce(fd, offset, data.bytes());
      if (!count) return std::nullopt;
      return WriteReply{*count, stability, verifier};
    }
    std::vector<std::byte> copy;
    if (data.is_file()) {
      copy.resize(data.size());
      if (const auto read = data.CopyTo(copy); !read) return std::unexpected(FromErrno(read.error().value()));
    }
    const Result<uint32_t> count = WriteAll(caller, fd, offset, data.is_file() ? copy : data.bytes());
    if (!count) return std::unexpected(count.error());
    if (*count != 0) DropSetId(caller, fd, before);
    return WriteReply{*count, stability, verifier};
  };
  std::optional<Result<WriteReply>> wrote = write();
  if (!wrote) return std::nullopt;
  changed.result = *std::move(wrote);
  NoteAfter(object, before, changed.object, changed.result && changed.result->count != 0);
  return changed;
}

// RFC 1813 §3.3.21. Commits the whole file: a sync of the range alone would omit the metadata needed to read it.
Changed<Tree::Uncommitted> Tree::PrepareCommit(const Handle& handle) {
  const Result<ObjectRef> object = *Reach(handle, Patience::kMayBlock);
  if (!object) return {std::unexpected(object.error()), {}};
  const Result<Stat> stat = StatOf(**object);
  if (!stat) return {std::unexpected(stat.error()), {}};
  const auto prepare = [&]() -> Result<Uncommitted> {
    PENSTOCK_CHECK(CheckRegular((*object)->type()));
    // A descriptor that was used for writing gets errors that others may not get. But a descriptor is opened for
    // reading where that suffices, because opening it for writing would break leases.
    if (SharedFile writer = (*object)->OpenWriter()) return Uncommitted{*object, std::move(writer)};
    Result<SharedFile> file = (*object)->Reader();
    if (!file) file = (*object)->Writer();
    if (!file) return std::unexpected(file.error());
    return Uncommitted{*object, *std::move(file)};
  };
  return {prepare(), {BeforeOf(stat->attributes), stat->attributes}};
}

Tree::Committed Tree::FinishCommit(Object& object) {
  object.DropWriter();  // a client commits when it is done with a file
  const Result<Stat> after = StatOf(object);
  return {after ? std::optional(after->attributes) : std::nullopt, WriteVerifier(verifier_->load())};
}

}  // namespace penstock::fs::posix
