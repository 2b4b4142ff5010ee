// The byte ranges that one lock-owner has locked in one file, as the server sees them (RFC 8881 §9.1, §18.10): a lock
// replaces what the owner had in its range, and an unlock may leave a piece on either side.
#pragma once

#include <cstdint>
#include <vector>

#include "client/mount.h"

namespace penstock::client::v4 {

class HeldLocks {
 public:
  struct Piece {
    ByteRange range;
    LockKind kind;
    bool operator==(const Piece&) const = default;
  };

  // Neither range is empty, or goes beyond the last offset.
  void Lock(ByteRange range, LockKind kind);
  void Unlock(ByteRange range);
  void Clear() { pieces_.clear(); }

  bool empty() const { return pieces_.empty(); }
  // They do not overlap, and are in the order of their offsets.
  std::vector<Piece> pieces() const;

 private:
  // Octets [first, last]: so that a range that ends at the last offset has a bound, too.
  struct Span {
    uint64_t first;
    uint64_t last;
    LockKind kind;
  };
  static Span SpanOf(ByteRange range, LockKind kind);

  std::vector<Span> pieces_;
};

}  // namespace penstock::client::v4
