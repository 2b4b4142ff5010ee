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
Task<client::Result<size_t>> ReadPiece(Transferred what, uint64_t offset, Bytes into) {
  Staging staging(what, into.size());
  const Bytes place = staging.For(into);
  size_t done = 0;
  while (done < place.size()) {
    PENSTOCK_CO_TRY(const client::File::ReadReply read, co_await what.file.Read(offset + done, place.subspan(done)));
    done += read.count;
    if (read.eof || read.count == 0) break;
  }
  if (!what.operation.abandoned()) staging.GiveTo(into.first(done));
  co_return done;
}

Task<client::Result<void>> WritePiece(Transferred what, uint64_t offset, ConstBytes from, Unsynced& unsynced) {
  Staging staging(what, from.size());
  const ConstBytes place = staging.From(from);
  size_t done = 0;
  while (done < place.size()) {
    PENSTOCK_CO_TRY(const client::File::WriteReply written,
                    co_await what.file.Write(offset + done, place.subspan(done)));
    unsynced.Note(written.verifier);
    done += written.count;
  }
  co_return client::Result<void>();
}

}  // namespace

std::unexpected<client::Error> Abandoned() {
  return std::unexpected(client::Error{"cancelled", std::nullopt, ECANCELED});
}

Task<client::Result<uint64_t>> ReadRange(Transferred what, uint64_t offset, Bytes into) {
  const uint32_t piece = what.mount.sizes().read;
  if (into.size() <= piece) co_return co_await ReadPiece(what, offset, into);
  uint64_t end = into.size();  // what is read and contiguous
  const auto read_piece = [&](uint64_t at, uint32_t count) -> Task<client::Result<void>> {
    if (what.operation.abandoned()) co_return Abandoned();
    if (at >= end) co_return client::Result<void>();
    PENSTOCK_CO_TRY(const size_t read, co_await ReadPiece(what, offset + at, into.subspan(at, count)));
    if (read < count) end = std::min(end, at + read);
    co_return client::Result<void>();
  };
  PENSTOCK_CO_CHECK(co_await client::MovePieces(into.size(), piece, kPiecesAtOnce, read_piece));
  co_return end;
}

Task<client::Result<void>> WriteRange(Transferred what, uint64_t offset, ConstBytes from, Unsynced& unsynced) {
  const uint32_t piece = what.mount.sizes().write;
  if (from.size() <= piece) co_return co_await WritePiece(what, offset, from, unsynced);
  const auto write_piece = [&](uint64_t at, uint32_t count) -> Task<client::Result<void>> {
    if (what.operation.abandoned()) co_return Abandoned();
    co_return co_await WritePiece(what, offset + at, from.subspan(at, count), unsynced);
  };
  co_return co_await client::MovePieces(from.size(), piece, kPiecesAtOnce, write_piece);
}

Task<client::Result<void>> WriteStable(Transferred what, uint64_t offset, ConstBytes from) {
  constexpr int kMostPasses = 5;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    Unsynced written;
    PENSTOCK_CO_CHECK(co_await WriteRange(what, offset, from, written));
    if (written.empty()) co_return client::Result<void>();
    PENSTOCK_CO_TRY(const client::Verifier committed, co_await what.file.Commit());
    if (written.IsStableAfter(committed)) co_return client::Result<void>();
    if (what.operation.abandoned()) co_return Abandoned();
  }
  co_return std::unexpected(
      client::Error{fmt::format("{}: the server keeps losing uncommitted data", what.file.name()), std::nullopt});
}

}  // namespace penstock::library
