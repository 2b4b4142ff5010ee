// The byte ranges that one lock-owner has locked in one file, under the server's rules (RFC 8881 §9.1, §18.10): a lock
// replaces older locks of the owner in its range, and an unlock may leave a piece on each side. The client reclaims
// these ranges.
#pragma once

#include <cstdint>
#include <vector>

#include "client/file.h"

namespace penstock::client {

// Whether the range has octets, and does not reach beyond the last offset (RFC 8881 §18.10.3).
bool IsValid(ByteRange range);

class HeldLocks {
 public:
  struct Piece {
    ByteRange range;
    LockKind kind;
    bool operator==(const Piece&) const = default;
  };

  // `range` must not be empty or reach beyond the last offset.
  void Lock(ByteRange range, LockKind kind);
  void Unlock(ByteRange range);
  void Clear() { pieces_.clear(); }

  bool empty() const { return pieces_.empty(); }
  // The locked pieces in the order of their offsets. They do not overlap.
  std::vector<Piece> pieces() const;

 private:
  // The octets [first, last]. An inclusive bound can express a range that ends at the last offset.
  struct Span {
    uint64_t first;
    uint64_t last;
    LockKind kind;
  };
  static Span SpanOf(ByteRange range, LockKind kind);

  std::vector<Span> pieces_;
};

}  // namespace penstock::client
