#include "library/transfer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include "base/buffer.h"
#include "base/result.h"
#include "client/pieces.h"

namespace penstock::library {
namespace {

constexpr unsigned kPiecesAtOnce = 8;

// Memory for the RPCs of one piece: that of the host, or a copy.
class Staging {
 public:
  Staging(const Transferred& what, size_t size) {
    if (what.operation.may_be_abandoned()) buffer_ = what.mount.loop().buffers().Allocate(size);
  }
  Bytes For(Bytes host) { return buffer_ ? buffer_->bytes().first(host.size()) : host; }
  // Call it only if the operation is not abandoned.
  ConstBytes From(ConstBytes host) {
    if (!buffer_) return host;
    CopyBytes(buffer_->bytes(), host);
    return ConstBytes(buffer_->bytes()).first(host.size());
  }
  void GiveTo(Bytes host) {
    if (buffer_) CopyBytes(host, ConstBytes(buffer_->bytes()).first(host.size()));
  }

 private:
  BufferRef buffer_;
};

// Reads one piece. Returns fewer octets than into.size() only at the end of the file.
Task<Outcome> ReadPiece(Transferred what, uint64_t offset, Bytes into) {
  Staging staging(what, into.size());
  const Bytes place = staging.For(into);
  size_t done = 0;
  while (done < place.size()) {
    PENSTOCK_CO_TRY(const client::File::ReadReply read, co_await what.file.Read(offset + done, place.subspan(done)));
    done += read.count;
    if (read.eof || read.count == 0) break;
  }
  if (!what.operation.abandoned()) staging.GiveTo(into.first(done));
  co_return static_cast<int64_t>(done);
}

Task<Outcome> WritePiece(Transferred what, uint64_t offset, ConstBytes from, Unsynced& unsynced) {
  Staging staging(what, from.size());
  const ConstBytes place = staging.From(from);
  size_t done = 0;
  while (done < place.size()) {
    PENSTOCK_CO_TRY(const client::File::WriteReply written,
                    co_await what.file.Write(offset + done, place.subspan(done)));
    unsynced.Note(written.verifier);
    done += written.count;
  }
  co_return static_cast<int64_t>(done);
}

Task<Outcome> ReadPieces(Transferred what, uint64_t offset, Bytes into) {
  uint64_t end = into.size();  // what is read and contiguous
  const auto read_piece = [&](uint64_t at, uint32_t count) -> Task<client::Result<void>> {
    if (what.operation.abandoned()) co_return Abandoned();
    if (at >= end) co_return client::Result<void>();
    PENSTOCK_CO_TRY(const int64_t read, co_await ReadPiece(what, offset + at, into.subspan(at, count)));
    if (read < count) end = std::min(end, at + static_cast<uint64_t>(read));
    co_return client::Result<void>();
  };
  PENSTOCK_CO_CHECK(co_await client::MovePieces(into.size(), what.mount.sizes().read, kPiecesAtOnce, read_piece));
  co_return static_cast<int64_t>(end);
}

Task<Outcome> WritePieces(Transferred what, uint64_t offset, ConstBytes from, Unsynced& unsynced) {
  const auto write_piece = [&](uint64_t at, uint32_t count) -> Task<client::Result<void>> {
    if (what.operation.abandoned()) co_return Abandoned();
    PENSTOCK_CO_CHECK(co_await WritePiece(what, offset + at, from.subspan(at, count), unsynced));
    co_return client::Result<void>();
  };
  PENSTOCK_CO_CHECK(co_await client::MovePieces(from.size(), what.mount.sizes().write, kPiecesAtOnce, write_piece));
  co_return static_cast<int64_t>(from.size());
}

}  // namespace

std::unexpected<client::Error> Abandoned() {
  return std::unexpected(client::Error{"cancelled", std::nullopt, ECANCELED});
}

Task<Outcome> ReadRange(Transferred what, uint64_t offset, Bytes into) {
  return into.size() <= what.mount.sizes().read ? ReadPiece(what, offset, into) : ReadPieces(what, offset, into);
}

Task<Outcome> WriteRange(Transferred what, uint64_t offset, ConstBytes from, Unsynced& unsynced) {
  return from.size() <= what.mount.sizes().write ? WritePiece(what, offset, from, unsynced)
                                                 : WritePieces(what, offset, from, unsynced);
}

Task<Outcome> WriteStable(Transferred what, uint64_t offset, ConstBytes from) {
  constexpr int kMostPasses = 5;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    Unsynced unsynced;
    PENSTOCK_CO_TRY(const int64_t written, co_await WriteRange(what, offset, from, unsynced));
    if (unsynced.empty()) co_return written;
    PENSTOCK_CO_TRY(const client::Verifier committed, co_await what.file.Commit());
    if (unsynced.IsStableAfter(committed)) co_return written;
    if (what.operation.abandoned()) co_return Abandoned();
  }
  co_return std::unexpected(
      client::Error{fmt::format("{}: the server keeps losing uncommitted data", what.file.name()), std::nullopt});
}

}  // namespace penstock::library
