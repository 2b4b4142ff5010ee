#include "client/held_locks.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace penstock::client {
namespace {

constexpr uint64_t kLastOffset = std::numeric_limits<uint64_t>::max();

}  // namespace

bool IsValid(ByteRange range) {
  if (range.length == 0) return false;
  return range.length == ByteRange::kToEnd || range.offset + (range.length - 1) >= range.offset;
}

HeldLocks::Span HeldLocks::SpanOf(ByteRange range, LockKind kind) {
  assert(range.length > 0);
  const uint64_t last = range.length == ByteRange::kToEnd ? kLastOffset : range.offset + (range.length - 1);
  assert(last >= range.offset);
  return {range.offset, last, kind};
}

void HeldLocks::Lock(ByteRange range, LockKind kind) {
  Unlock(range);
  const Span span = SpanOf(range, kind);
  const auto after = std::ranges::lower_bound(pieces_, span.first, {}, &Span::first);
  pieces_.insert(after, span);
}

void HeldLocks::Unlock(ByteRange range) {
  const Span gone = SpanOf(range, LockKind::kShared);
  std::vector<Span> left;
  for (const Span& piece : pieces_) {
    if (piece.last < gone.first || piece.first > gone.last) {
      left.push_back(piece);
      continue;
    }
    if (piece.first < gone.first) left.push_back({piece.first, gone.first - 1, piece.kind});
    if (piece.last > gone.last) left.push_back({gone.last + 1, piece.last, piece.kind});
  }
  pieces_ = std::move(left);
}

std::vector<HeldLocks::Piece> HeldLocks::pieces() const {
  std::vector<Piece> pieces;
  for (const Span& span : pieces_) {
    const uint64_t length = span.last == kLastOffset ? ByteRange::kToEnd : span.last - span.first + 1;
    pieces.push_back({{span.first, length}, span.kind});
  }
  return pieces;
}

}  // namespace penstock::client
