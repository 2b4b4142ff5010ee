// The methods of Tree that read and write data.
#include <algorithm>
#include <cerrno>
#include <vector>

#include "fs/ceph/tree.h"

namespace penstock::fs::ceph {
namespace {

// So much is copied by one call.
constexpr size_t kCopyAtOnce = 4 << 20;

}  // namespace

Result<void> Tree::CheckRead(const Call& call, const Credentials& caller, const Reached& file) const {
  PENSTOCK_CHECK(CheckRegular(file.object->type()));
  PENSTOCK_TRY(const Rights rights, RightsTo(call, file, caller));
  if (!MayReadData(file.attributes, caller, rights)) return std::unexpected(Error::kAccess);
  return {};
}

Result<void> Tree::CheckWrite(const Call& call, const Credentials& caller, const Reached& file) const {
  PENSTOCK_CHECK(CheckRegular(file.object->type()));
  PENSTOCK_TRY(const Rights rights, RightsTo(call, file, caller));
  if (!MayWriteData(file.attributes, caller, rights)) return std::unexpected(Error::kAccess);
  if (!file.object->is_live()) return std::unexpected(Error::kReadOnly);
  return {};
}

// This class changes data as root, and for root libcephfs does not clear these bits.
Result<void> Tree::DropSetId(const Call& call, const Credentials& caller, const Reached& file) const {
  const auto has_set_id = [](uint32_t mode) { return (mode & 04000) != 0 || (mode & 02010) == 02010; };
  if (!has_set_id(file.attributes.mode) || caller.uid == 0) return {};
  // The owner may have changed the mode meanwhile.
  PENSTOCK_TRY(const Attributes now, StatOf(call, file.object));
  if (!has_set_id(now.mode)) return {};
  NewStat values;
  values.mode = now.mode & ~((now.mode & 0010) != 0 ? 06000u : 04000u);
  return ResultOf(call, call.client().SetAttributes(kAsRoot, file.object->inode(), values));
}

Result<void> Tree::SyncWritten(const Call& call, const Reached& file, bool data_only, uint64_t losses_before) const {
  PENSTOCK_CHECK(ResultOf(call, file.object->Sync(data_only, mount_->verifier())));
  if (file.object->losses() != losses_before) return std::unexpected(Error::kIo);
  return {};
}

Observed<Tree::Piece> Tree::Read(const Credentials& caller, const Handle& handle, uint64_t offset, Bytes into) {
  return Observe<Piece>(handle, [&](const Call& call, const Reached& file) -> Result<Piece> {
    PENSTOCK_CHECK(CheckRead(call, caller, file));
    const uint64_t size = file.attributes.size;
    const uint64_t left = offset < size ? size - offset : 0;
    const Bytes wanted = into.first(static_cast<size_t>(std::min<uint64_t>(left, into.size())));
    if (wanted.empty()) return Piece{0, left <= into.size()};
    FileRef opened;
    PENSTOCK_CHECK(ResultOf(call, file.object->OpenForReading(opened)));
    size_t got = 0;
    while (got < wanted.size()) {
      const int64_t count = call.client().Read(opened->get(), offset + got, wanted.subspan(got));
      if (count < 0) return Failed(call, static_cast<int>(count));
      if (count == 0) break;  // the file became shorter
      got += static_cast<size_t>(count);
    }
    return Piece{got, left <= into.size() || got < wanted.size()};
  });
}

Changed<WriteReply> Tree::Write(const Credentials& caller, const Handle& handle, uint64_t offset, ConstBytes data,
                                Stability stability) {
  // Read first, so that a loss meanwhile, also of the mount, changes it for this caller as well.
  const WriteVerifier verifier(mount_->verifier().load());
  const auto write = [&](const Call& call, const Reached& file) -> Result<WriteReply> {
    PENSTOCK_CHECK(CheckWrite(call, caller, file));
    if (offset > INT64_MAX || data.size() > INT64_MAX - offset) return std::unexpected(Error::kFileTooBig);
    const uint64_t losses = file.object->losses();
    FileRef opened;
    PENSTOCK_CHECK(ResultOf(call, file.object->OpenForWriting(opened)));
    size_t written = 0;
    while (written < data.size()) {
      const ConstBytes rest = data.subspan(written);
      const iovec piece{const_cast<std::byte*>(rest.data()), rest.size()};
      const int64_t count = call.client().Write(opened->get(), offset + written, std::span(&piece, 1));
      file.object->NoteWrite();
      if (count < 0 && written == 0) return Failed(call, static_cast<int>(count));
      if (count <= 0) break;  // the written octets count; the client gets the error with its next call
      written += static_cast<size_t>(count);
    }
    if (written != 0) PENSTOCK_CHECK(DropSetId(call, caller, file));
    if (stability != Stability::kUnstable) {
      PENSTOCK_CHECK(SyncWritten(call, file, stability == Stability::kDataSync, losses));
    }
    PENSTOCK_CHECK(CheckCurrent(call));
    return WriteReply{static_cast<uint32_t>(written), stability, verifier};
  };
  return Change<WriteReply>(handle, write, Syncs::kItself);
}

// RFC 1813 §3.3.21. What this server wrote before the file was closed is stable already.
Changed<WriteVerifier> Tree::Commit(const Handle& handle) {
  const auto commit = [&](const Call& call, const Reached& file) -> Result<WriteVerifier> {
    PENSTOCK_CHECK(CheckRegular(file.object->type()));
    PENSTOCK_CHECK(ResultOf(call, file.object->Sync(false, mount_->verifier())));
    PENSTOCK_CHECK(CheckCurrent(call));
    return WriteVerifier(mount_->verifier().load());
  };
  return Change<WriteVerifier>(handle, commit, Syncs::kItself);
}

// CephFS tells nobody where holes are: all octets count as data.
Observed<SeekReply> Tree::Seek(const Credentials& caller, const Handle& handle, uint64_t offset, SeekWhat what) {
  return Observe<SeekReply>(handle, [&](const Call& call, const Reached& file) -> Result<SeekReply> {
    PENSTOCK_CHECK(CheckRead(call, caller, file));
    const uint64_t size = file.attributes.size;
    if (offset > size) return std::unexpected(Error::kNxIo);
    if (what == SeekWhat::kHole) return SeekReply{true, size};
    return SeekReply{offset < size, offset};
  });
}

// CephFS can reserve no space.
Changed<void> Tree::Allocate(const Credentials& caller, const Handle& handle, uint64_t offset, uint64_t length) {
  return Change<void>(handle, [&](const Call& call, const Reached& file) -> Result<void> {
    PENSTOCK_CHECK(CheckWrite(call, caller, file));
    if (length == 0) return std::unexpected(Error::kInvalid);
    if (offset > INT64_MAX || length > INT64_MAX - offset) return std::unexpected(Error::kFileTooBig);
    return std::unexpected(Error::kNotSupported);
  });
}

Changed<void> Tree::Deallocate(const Credentials& caller, const Handle& handle, uint64_t offset, uint64_t length) {
  const auto punch = [&](const Call& call, const Reached& file) -> Result<void> {
    PENSTOCK_CHECK(CheckWrite(call, caller, file));
    if (length == 0) return std::unexpected(Error::kInvalid);
    const uint64_t size = file.attributes.size;
    if (offset >= size) return {};
    FileRef opened;
    PENSTOCK_CHECK(ResultOf(call, file.object->OpenForWriting(opened)));
    const uint64_t losses = file.object->losses();
    const int code = call.client().PunchHole(opened->get(), offset, std::min(length, size - offset));
    file.object->NoteWrite();
    PENSTOCK_CHECK(ResultOf(call, code));
    PENSTOCK_CHECK(DropSetId(call, caller, file));
    PENSTOCK_CHECK(SyncWritten(call, file, false, losses));
    return CheckCurrent(call);
  };
  return Change<void>(handle, punch, Syncs::kItself);
}

Changed<CopyReply> Tree::Copy(const Credentials& caller, const Handle& from, uint64_t from_offset, const Handle& to,
                              uint64_t to_offset, uint64_t count) {
  const WriteVerifier verifier(mount_->verifier().load());
  const auto copy = [&](const Call& call, const Reached& target) -> Result<CopyReply> {
    PENSTOCK_TRY(const Reached source, Reach(call, from));
    PENSTOCK_CHECK(CheckRead(call, caller, source));
    PENSTOCK_CHECK(CheckWrite(call, caller, target));
    const uint64_t size = source.attributes.size;
    const uint64_t left = std::min(count, from_offset < size ? size - from_offset : 0);
    if (to_offset > INT64_MAX || left > INT64_MAX - to_offset) return std::unexpected(Error::kFileTooBig);
    const bool overlap = from == to && std::max(from_offset, to_offset) - std::min(from_offset, to_offset) < left;
    if (overlap) return std::unexpected(Error::kInvalid);
    if (left == 0) return CopyReply{0, verifier};
    FileRef in, out;
    PENSTOCK_CHECK(ResultOf(call, source.object->OpenForReading(in)));
    PENSTOCK_CHECK(ResultOf(call, target.object->OpenForWriting(out)));
    std::vector<std::byte> octets(static_cast<size_t>(std::min<uint64_t>(left, kCopyAtOnce)));
    const int64_t got = call.client().Read(in->get(), from_offset, octets);
    if (got < 0) return Failed(call, static_cast<int>(got));
    if (got == 0) return CopyReply{0, verifier};
    const iovec piece{octets.data(), static_cast<size_t>(got)};
    const int64_t put = call.client().Write(out->get(), to_offset, std::span(&piece, 1));
    target.object->NoteWrite();
    if (put < 0) return Failed(call, static_cast<int>(put));
    PENSTOCK_CHECK(DropSetId(call, caller, target));
    PENSTOCK_CHECK(CheckCurrent(call));
    return CopyReply{static_cast<uint64_t>(put), verifier};
  };
  return Change<CopyReply>(to, copy, Syncs::kItself);
}

// CephFS cannot clone files.
Changed<void> Tree::Clone(const Credentials& caller, const Handle& from, const Handle& to) {
  return Change<void>(to, [&](const Call& call, const Reached& target) -> Result<void> {
    PENSTOCK_TRY(const Reached source, Reach(call, from));
    PENSTOCK_CHECK(CheckRead(call, caller, source));
    PENSTOCK_CHECK(CheckWrite(call, caller, target));
    return std::unexpected(Error::kNotSupported);
  });
}

Result<void> Tree::Advise(const Credentials& caller, const Handle& handle) {
  PENSTOCK_TRY(const Call call, Begin());
  PENSTOCK_TRY(const Reached file, Reach(call, handle));
  return CheckRead(call, caller, file);
}

}  // namespace penstock::fs::ceph
