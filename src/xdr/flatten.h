// Joins the stream of a message and its items, for transports over a byte stream. A message with placed results cannot
// be joined, because only a decoder knows where they belong.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/data.h"
#include "xdr/message.h"

namespace penstock::xdr {

// Visits the pieces of the unreduced stream in order, without copying them: visit(ConstBytes) for parts of the stream
// and for padding, and visit(const Data&) for payloads. Leaves out empty pieces. The views live as long as the message;
// the views of padding live for ever. They suit writev, and sendfile for a Data that is a range of a file.
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

// Returns the unreduced stream in one piece. For a message without items this is its own stream, and otherwise a copy
// in a buffer of `pool`. Requires that no payload is in a file.
Slice Unreduce(BufferPool& pool, const Message& message);

}  // namespace penstock::xdr
