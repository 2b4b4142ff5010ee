#include "rdma/iwarp/fpdu_writer.h"

#include <algorithm>
#include <cassert>

#include "rdma/iwarp/crc32c.h"
#include "rdma/iwarp/ddp_header.h"
#include "rdma/iwarp/terminate.h"

namespace penstock::rdma::iwarp {
namespace {

// A batch fills about one send call. The rest of a larger batch would only wait for the socket.
constexpr size_t kBatchOctets = 1 << 20;
// The limit is lower for octets that are copied from files for their check values, so that the buffer stays in the
// processor's cache from the copy to the send. One read fills eight of the longest FPDUs, because long reads are
// cheaper.
constexpr size_t kBatchCopies = 480 << 10;
constexpr size_t kBatchPieces = 240;
constexpr size_t kScratch = 8192;
constexpr size_t kScratchPerFpdu = 128;  // length, DDP header, inlined octets, pad, CRC
static_assert(kLengthSize + UntaggedHeader::kSize + TerminateMessage::kMaxSize + 3 + kCrcSize <= kScratchPerFpdu);
constexpr size_t kMaxIov = 1024;  // IOV_MAX

}  // namespace

const Data& GatherCursor::Piece() {
  while (rest_.front().size() == taken_) {
    rest_ = rest_.subspan(1);
    taken_ = 0;
  }
  return rest_.front();
}

Data GatherCursor::Take(size_t size) {
  const Data& piece = Piece();
  const size_t take = std::min(size, piece.size() - taken_);
  Data data = piece.Sub(taken_, take);
  taken_ += take;
  return data;
}

Result<Slice, std::error_code> GatherCursor::TakeCopy(size_t size, size_t ahead, BufferPool& pool) {
  const Data& piece = Piece();
  if (copied_.empty()) {
    const size_t read = std::min(std::max(size, ahead), piece.size() - taken_);
    PENSTOCK_TRY(copied_, piece.Sub(taken_, read).Load(pool));
  }
  const size_t take = std::min(size, copied_.size());
  Slice copy = copied_.Sub(0, take);
  copied_ = take < copied_.size() ? copied_.Sub(take, copied_.size() - take) : Slice();
  taken_ += take;
  return copy;
}

FpduWriter::FpduWriter(Framing framing, BufferPool& pool) : framing_(framing), pool_(pool), scratch_(kScratch) {}

bool FpduWriter::has_room() const {
  return batch_sent() || (pieces_.size() < kBatchPieces && batch_octets_ < kBatchOctets &&
                          copied_octets_ < kBatchCopies && scratch_used_ + kScratchPerFpdu <= scratch_.size());
}

void FpduWriter::Add(ConstBytes ddp_header, ConstBytes inlined, GatherCursor* payload, size_t payload_size,
                     Stag region) {
  assert(has_room());
  if (batch_sent()) StartBatch();
  if (framing_.markers) return AddAssembled(ddp_header, inlined, payload, payload_size);
  const size_t ulpdu = ddp_header.size() + inlined.size() + payload_size;
  assert(ulpdu <= kMaxUlpdu);

  const size_t first_piece = pieces_.size();
  const size_t head_size = kLengthSize + ddp_header.size() + inlined.size();
  std::byte* head = Scratch(head_size);
  StoreBig(head, static_cast<uint16_t>(ulpdu));
  CopyBytes(Bytes(head, head_size).subspan(kLengthSize), ddp_header);
  CopyBytes(Bytes(head, head_size).subspan(kLengthSize + ddp_header.size()), inlined);
  Piece piece;
  piece.data = head;
  piece.size = head_size;
  piece.begins_fpdu = true;
  Push(piece);
  Crc32c crc;
  if (framing_.crc) crc.Update({head, head_size});

  for (size_t left = payload_size; left > 0;) {
    const bool copied = framing_.crc && payload->in_file();
    const std::optional<Piece> part = copied ? CopiedPiece(*payload, left) : PieceInPlace(*payload, left);
    if (!part) return TakeBack(first_piece);
    left -= part->size;
    if (framing_.crc) crc.Update({part->data, part->size});
    Push(*part).region = region;
  }

  const size_t pad = PadSize(ulpdu);
  std::byte* tail = Scratch(pad + kCrcSize);
  std::memset(tail, 0, pad + kCrcSize);
  if (framing_.crc) {
    crc.Update({tail, pad});
    std::ranges::copy(crc.Wire(), tail + pad);
  }
  // Without payload the trailer follows the header in memory.
  if (payload_size == 0) {
    pieces_.back().size += pad + kCrcSize;
    added_ += pad + kCrcSize;
    batch_octets_ += pad + kCrcSize;
  } else {
    Piece trailer;
    trailer.data = tail;
    trailer.size = pad + kCrcSize;
    Push(trailer);
  }
}

FpduWriter::Piece FpduWriter::PieceInPlace(GatherCursor& payload, size_t most) {
  const Data data = payload.Take(most);
  Piece piece;
  piece.size = data.size();
  if (data.is_file()) {
    piece.file = data.file().get();
    piece.file_offset = data.file_offset();
  } else {
    piece.data = data.bytes().data();
  }
  return piece;
}

// The octets of a file are copied, so that the sent octets are the ones of the check value, even if the file changes.
std::optional<FpduWriter::Piece> FpduWriter::CopiedPiece(GatherCursor& payload, size_t most) {
  const Result<Slice, std::error_code> copy = payload.TakeCopy(most, kBatchCopies, pool_);
  if (!copy) {
    file_error_ = copy.error();
    return std::nullopt;
  }
  owned_.push_back(copy->owner());
  copied_octets_ += copy->size();
  Piece piece;
  piece.data = copy->data();
  piece.size = copy->size();
  return piece;
}

void FpduWriter::TakeBack(size_t first) {
  for (size_t i = first; i < pieces_.size(); ++i) {
    added_ -= pieces_[i].size;
    batch_octets_ -= pieces_[i].size;
  }
  pieces_.resize(first);
}

// Markers cut an FPDU into short pieces. An FPDU with markers is therefore copied into one buffer.
void FpduWriter::AddAssembled(ConstBytes ddp_header, ConstBytes inlined, GatherCursor* payload, size_t payload_size) {
  const size_t ulpdu = ddp_header.size() + inlined.size() + payload_size;
  const size_t plain = kLengthSize + ulpdu + PadSize(ulpdu) + kCrcSize;
  const size_t most = plain + (plain / (kMarkerInterval - kMarkerSize) + 2) * kMarkerSize;
  Bytes out = Own(most);
  Crc32c crc;
  size_t size = 0;
  size_t length_at = 0;  // the position of the length field in `out`

  // The stream has a marker at its beginning and at every 512th octet.
  auto marker_due = [&] { return (added_ + size) % kMarkerInterval == 0; };
  auto put_marker = [&](size_t pointer) {
    StoreBig<uint16_t>(&out[size], 0);
    StoreBig(&out[size + 2], static_cast<uint16_t>(pointer));
    if (framing_.crc) crc.Update(out.subspan(size, kMarkerSize));
    size += kMarkerSize;
  };
  auto put = [&](ConstBytes bytes, bool covered) {
    while (!bytes.empty()) {
      if (marker_due()) put_marker(size - length_at);
      const size_t phase = (added_ + size) % kMarkerInterval;
      const size_t part = std::min(bytes.size(), kMarkerInterval - phase);
      CopyBytes(out.subspan(size), bytes.first(part));
      if (framing_.crc && covered) crc.Update(bytes.first(part));
      size += part;
      bytes = bytes.subspan(part);
    }
  };

  if (marker_due()) put_marker(0);  // a marker between two FPDUs
  length_at = size;
  std::array<std::byte, kLengthSize> length;
  StoreBig(length.data(), static_cast<uint16_t>(ulpdu));
  put(length, true);
  put(ddp_header, true);
  put(inlined, true);
  for (size_t left = payload_size; left > 0;) {
    const Data data = payload->Take(left);
    left -= data.size();
    const Result<Slice, std::error_code> octets = data.Load(pool_);
    if (!octets) {
      file_error_ = octets.error();
      return;
    }
    put(octets->bytes(), true);
  }
  constexpr std::array<std::byte, 3> kZeros{};
  put(ConstBytes(kZeros).first(PadSize(ulpdu)), true);
  // A marker between pad and CRC is covered by the CRC (RFC 5044 §4.4).
  if (marker_due()) put_marker(size - length_at);
  put(framing_.crc ? crc.Wire() : std::array<std::byte, kCrcSize>{}, false);

  Piece piece;
  piece.data = out.data();
  piece.size = size;
  piece.begins_fpdu = true;
  Push(piece);
}

void FpduWriter::StartBatch() {
  pieces_.clear();
  owned_.clear();
  next_ = 0;
  scratch_used_ = 0;
  batch_octets_ = 0;
  copied_octets_ = 0;
}

std::byte* FpduWriter::Scratch(size_t size) {
  assert(scratch_used_ + size <= scratch_.size());
  return &scratch_[std::exchange(scratch_used_, scratch_used_ + size)];
}

Bytes FpduWriter::Own(size_t size) {
  owned_.push_back(pool_.Allocate(size));
  return owned_.back()->bytes().first(size);
}

FpduWriter::Piece& FpduWriter::Push(const Piece& piece) {
  added_ += piece.size;
  batch_octets_ += piece.size;
  return pieces_.emplace_back(piece);
}

FpduWriter::Part FpduWriter::Next() {
  Part part;
  if (batch_sent()) return part;
  const Piece& first = pieces_[next_];
  if (first.file) {
    part.file = first.file;
    part.file_offset = first.file_offset;
    part.size = first.size;
    part.more = next_ + 1 < pieces_.size();
    return part;
  }
  iov_.clear();
  size_t i = next_;
  for (; i < pieces_.size() && !pieces_[i].file && iov_.size() < kMaxIov; ++i) {
    iov_.push_back({const_cast<std::byte*>(pieces_[i].data), pieces_[i].size});
  }
  part.memory = iov_;
  part.more = i < pieces_.size();
  return part;
}

void FpduWriter::HandleSent(size_t size) {
  sent_ += size;
  while (size > 0) {
    Piece& piece = pieces_[next_];
    const size_t part = std::min(size, piece.size);
    size -= part;
    piece.size -= part;
    if (piece.file) {
      piece.file_offset += part;
    } else {
      piece.data += part;
    }
    if (part > 0) piece.begins_fpdu = false;
    if (piece.size == 0) ++next_;
  }
}

void FpduWriter::ReplaceFile(BufferRef buffer) {
  Piece& piece = pieces_[next_];
  assert(piece.file && buffer->capacity() >= piece.size);
  piece.file = nullptr;
  piece.data = buffer->data();
  owned_.push_back(std::move(buffer));
}

void FpduWriter::HandleInvalidated(Stag region) {
  for (size_t i = next_; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    if (piece.region != region || piece.file || piece.size == 0) continue;
    Bytes copy = Own(piece.size);
    CopyBytes(copy, {piece.data, piece.size});
    piece.data = copy.data();
  }
}

bool FpduWriter::Cut() {
  size_t end = next_;
  while (end < pieces_.size() && !pieces_[end].begins_fpdu) ++end;
  std::vector<Piece> rest(pieces_.begin() + static_cast<ptrdiff_t>(next_),
                          pieces_.begin() + static_cast<ptrdiff_t>(end));
  for (size_t i = end; i < pieces_.size(); ++i) added_ -= pieces_[i].size;
  std::vector<BufferRef> released = std::exchange(owned_, {});
  pieces_.clear();
  next_ = 0;
  batch_octets_ = 0;
  copied_octets_ = 0;  // the copies below are of one FPDU and leave room for the Terminate
  bool complete = true;
  for (Piece& piece : rest) {
    batch_octets_ += piece.size;
    if (piece.file) {
      complete = false;
      break;
    }
    const Bytes copy = Own(piece.size);
    CopyBytes(copy, {piece.data, piece.size});
    piece.data = copy.data();
    pieces_.push_back(piece);
  }
  scratch_used_ = 0;  // headers and trailers were copied too
  if (!complete) pieces_.clear();
  return complete;
}

}  // namespace penstock::rdma::iwarp
