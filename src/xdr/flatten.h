// A message put back together, for transports over a byte stream. (Placed results cannot be: they are for decoding.)
#pragma once

#include <array>
#include <cassert>
#include <cstddef>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/data.h"
#include "xdr/message.h"

namespace penstock::xdr {

// The pieces whose concatenation is the unreduced stream, in order: calls visit(ConstBytes) for parts of the stream and
// for padding, visit(const Data&) for payloads. Empty pieces are left out. The views live as long as the message, those of
// padding for ever. Nothing is copied: feed writev with them, and sendfile where a Data is a file range.
template <class Visitor>
void ForEachPiece(const Message& message, Visitor&& visit) {
  static constexpr std::array<std::byte, 4> kPadding{};
  assert(message.placed.empty());
  const ConstBytes stream = message.stream.bytes();
  size_t done = 0;
  for (const Item& item : message.items) {
    assert(item.offset >= done && item.offset <= stream.size());
    if (item.offset > done) visit(stream.subspan(done, item.offset - done));
    done = item.offset;
    if (item.data.empty()) continue;
    visit(item.data);
    const size_t padding = RoundUp(item.data.size(), 4) - item.data.size();
    if (padding) visit(ConstBytes(kPadding).first(padding));
  }
  if (stream.size() > done) visit(stream.subspan(done));
}

// The unreduced stream in one piece: the message's own where it has no items, otherwise a copy in a buffer of `pool`.
// Requires that no payload is still in a file.
Slice Unreduce(BufferPool& pool, const Message& message);

}  // namespace penstock::xdr
