// The methods of AdaptedTree for the data of files.
#include <algorithm>
#include <utility>

#include "library/server/adapted_tree.h"

namespace penstock::library {

using fs::Error;
using fs::Handle;
using fs::RequestContext;
using fs::Result;
using fs::Stability;

namespace {

// What Copy() does in one call.
constexpr uint64_t kCopyStep = 1 << 20;
constexpr uint64_t kHostCopyStep = 64 << 20;

// The buffer pool of the calling thread. Buffers may outlive their thread.
BufferPool& BuffersOfThread() {
  static thread_local BufferPool pool;
  return pool;
}

}  // namespace

Result<void> AdaptedTree::CheckRange(uint64_t offset, uint64_t length) const {
  const uint64_t most = properties_.max_file_size;
  if (offset > most || length > most - offset) return std::unexpected(Error::kFileTooBig);
  return {};
}

Result<size_t> AdaptedTree::ReadAll(EmbeddedCalls& calls, const penstock_handle& file, Bytes into, uint64_t offset) {
  size_t have = 0;
  while (have < into.size()) {
    PENSTOCK_TRY(const size_t count, calls.Read(file, into.subspan(have), offset + have));
    if (count == 0) break;
    have += count;
  }
  return have;
}

fs::Observed<fs::ReadReply> AdaptedTree::Read(const RequestContext& context, const Handle& file, uint64_t offset,
                                              uint32_t count, const BufferRef& buffer) {
  const auto read = [&](EmbeddedCalls& calls, Object& found) -> Result<fs::ReadReply> {
    PENSTOCK_CHECK(MayRead(calls, found));
    const uint64_t size = found.attributes.size;
    const size_t wanted = offset < size ? std::min<uint64_t>(size - offset, count) : 0;
    if (wanted == 0) return fs::ReadReply{.data = {}, .eof = offset >= size};
    const Bytes room = buffer->bytes().first(wanted);
    PENSTOCK_TRY(const size_t have, ReadAll(calls, found.handle, room, offset));
    PENSTOCK_TRY(found.attributes, AttributesOf(calls, found.handle));
    const bool eof = offset + have >= found.attributes.size;
    if (have < wanted && !eof) {
      // Otherwise a client would take the octets that are missing for the end of the file.
      files_->Blame("read", "has returned fewer octets than the file has");
      return std::unexpected(Error::kServerFault);
    }
    return fs::ReadReply{.data = Slice(buffer, room.first(have)), .eof = eof};
  };
  return Observe<fs::ReadReply>(context, file, read);
}

Result<size_t> AdaptedTree::WriteAll(EmbeddedCalls& calls, const penstock_handle& file, ConstBytes data,
                                     uint64_t offset, Stability& stability) {
  const Stability asked = stability;
  stability = Stability::kFileSync;
  size_t done = 0;
  while (done < data.size()) {
    Stability of_part = asked;
    const Result<size_t> count = calls.Write(file, data.subspan(done), offset + done, of_part);
    if (!count && done == 0) return std::unexpected(count.error());
    if (!count) break;  // the octets that are written count; the client gets the error with its next call
    stability = std::min(stability, of_part);
    done += *count;
  }
  if (!files_->ops().commit) {
    stability = Stability::kFileSync;
  } else if (stability < asked) {
    PENSTOCK_CHECK(calls.Commit(file));
    stability = asked;
  }
  return done;
}

fs::Changed<fs::WriteReply> AdaptedTree::Write(const RequestContext& context, const Handle& file, uint64_t offset,
                                               const Data& data, Stability stability) {
  const auto write = [&](EmbeddedCalls& calls, const Object& found) -> Result<fs::WriteReply> {
    if (!files_->ops().write) return std::unexpected(Missing());
    PENSTOCK_CHECK(MayWrite(calls, found));
    PENSTOCK_CHECK(CheckRange(offset, data.size()));
    const auto octets = data.Load(BuffersOfThread());
    if (!octets) return std::unexpected(Error::kIo);
    fs::WriteReply reply{.count = 0, .committed = stability, .verifier = {}};
    // Before the write: if the file system loses the data after it, the client finds another verifier with COMMIT.
    reply.verifier = fs::WriteVerifier(calls.WriteVerifier());
    if (octets->empty()) return reply;
    PENSTOCK_CHECK(DropSetId(calls, found));
    PENSTOCK_TRY(const size_t count, WriteAll(calls, found.handle, octets->bytes(), offset, reply.committed));
    reply.count = static_cast<uint32_t>(count);
    return reply;
  };
  return Change<fs::WriteReply>(context, file, write);
}

fs::Changed<fs::WriteVerifier> AdaptedTree::Commit(const RequestContext& context, const Handle& file) {
  using Verifier = fs::WriteVerifier;
  return Change<Verifier>(context, file, [&](EmbeddedCalls& calls, const Object& found) -> Result<Verifier> {
    PENSTOCK_CHECK(fs::CheckRegular(found.attributes.type));
    PENSTOCK_CHECK(calls.Commit(found.handle));
    // After the commit: if the file system has lost data before it, the client writes them again.
    return Verifier(calls.WriteVerifier());
  });
}

Result<penstock_handle> AdaptedTree::Pin(const RequestContext& context, const Handle& file) {
  EmbeddedCalls calls(*files_, context);
  PENSTOCK_TRY(const Object found, Reach(calls, file));
  PENSTOCK_CHECK(fs::CheckRegular(found.attributes.type));
  if (files_->ops().pin) PENSTOCK_CHECK(calls.Pin(found.handle));
  return found.handle;
}

// ---- space

fs::Observed<fs::SeekReply> AdaptedTree::Seek(const RequestContext& context, const Handle& file, uint64_t offset,
                                              fs::SeekWhat what) {
  using Reply = fs::SeekReply;
  return Observe<Reply>(context, file, [&](EmbeddedCalls& calls, const Object& found) -> Result<Reply> {
    PENSTOCK_CHECK(MayRead(calls, found));
    const uint64_t size = found.attributes.size;
    if (offset > size) return std::unexpected(Error::kNxIo);
    const bool hole = what == fs::SeekWhat::kHole;
    if (offset == size) return Reply{.found = hole, .offset = size};
    if (files_->ops().seek) return calls.Seek(found.handle, offset, what, size);
    return Reply{.found = true, .offset = hole ? size : offset};
  });
}

fs::Changed<void> AdaptedTree::Allocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                        uint64_t length) {
  return Change<void>(context, file, [&](EmbeddedCalls& calls, const Object& found) -> Result<void> {
    PENSTOCK_CHECK(MayWrite(calls, found));
    if (length == 0) return std::unexpected(Error::kInvalid);
    PENSTOCK_CHECK(CheckRange(offset, length));
    if (!files_->ops().allocate) return std::unexpected(Missing());
    PENSTOCK_CHECK(DropSetId(calls, found));
    return calls.Allocate(found.handle, offset, length);
  });
}

fs::Changed<void> AdaptedTree::Deallocate(const RequestContext& context, const Handle& file, uint64_t offset,
                                          uint64_t length) {
  return Change<void>(context, file, [&](EmbeddedCalls& calls, const Object& found) -> Result<void> {
    PENSTOCK_CHECK(MayWrite(calls, found));
    if (length == 0) return std::unexpected(Error::kInvalid);
    if (!files_->ops().deallocate) return std::unexpected(Missing());
    const uint64_t size = found.attributes.size;
    if (offset >= size) return {};
    PENSTOCK_CHECK(DropSetId(calls, found));
    return calls.Deallocate(found.handle, offset, std::min(length, size - offset));
  });
}

Result<uint64_t> AdaptedTree::CopyStep(EmbeddedCalls& calls, const Object& from, uint64_t from_offset, const Object& to,
                                       uint64_t to_offset, uint64_t count) {
  if (files_->ops().copy) {
    return calls.Copy(from.handle, from_offset, to.handle, to_offset, std::min(count, kHostCopyStep));
  }
  if (!files_->ops().write) return std::unexpected(Missing());
  const size_t step = std::min(count, kCopyStep);
  const BufferRef buffer = BuffersOfThread().Allocate(step);
  PENSTOCK_TRY(const size_t have, ReadAll(calls, from.handle, buffer->bytes().first(step), from_offset));
  if (have == 0) return 0;
  Stability stability = Stability::kUnstable;
  return WriteAll(calls, to.handle, buffer->bytes().first(have), to_offset, stability);
}

fs::Changed<fs::CopyReply> AdaptedTree::Copy(const RequestContext& context, const Handle& from, uint64_t from_offset,
                                             const Handle& to, uint64_t to_offset, uint64_t count) {
  using Reply = fs::CopyReply;
  return Change<Reply>(context, to, [&](EmbeddedCalls& calls, const Object& target) -> Result<Reply> {
    PENSTOCK_TRY(const Object source, Reach(calls, from));
    PENSTOCK_CHECK(MayRead(calls, source));
    PENSTOCK_CHECK(MayWrite(calls, target));
    const uint64_t size = source.attributes.size;
    const uint64_t left = std::min(count, size - std::min(size, from_offset));
    const uint64_t distance = from_offset > to_offset ? from_offset - to_offset : to_offset - from_offset;
    if (from == to && distance < left) return std::unexpected(Error::kInvalid);
    PENSTOCK_CHECK(CheckRange(to_offset, std::min(left, kCopyStep)));
    Reply reply{.count = 0, .verifier = fs::WriteVerifier(calls.WriteVerifier())};
    if (left == 0) return reply;
    PENSTOCK_CHECK(DropSetId(calls, target));
    const uint64_t room = properties_.max_file_size - to_offset;
    PENSTOCK_TRY(reply.count, CopyStep(calls, source, from_offset, target, to_offset, std::min(left, room)));
    return reply;
  });
}

fs::Changed<void> AdaptedTree::Clone(const RequestContext& context, const Handle& from, const Handle& to) {
  return Change<void>(context, to, [&](EmbeddedCalls& calls, const Object& target) -> Result<void> {
    PENSTOCK_TRY(const Object source, Reach(calls, from));
    PENSTOCK_CHECK(MayRead(calls, source));
    PENSTOCK_CHECK(MayWrite(calls, target));
    return std::unexpected(Missing());
  });
}

Result<void> AdaptedTree::Advise(const RequestContext& context, const Handle& file) {
  EmbeddedCalls calls(*files_, context);
  PENSTOCK_TRY(const Object found, Reach(calls, file));
  return MayRead(calls, found);
}

}  // namespace penstock::library
