#include "xdr/message.h"

#include <cassert>

#include "xdr/flatten.h"

namespace penstock::xdr {

size_t Message::flat_size() const {
  size_t size = stream.size();
  for (const Item& item : items) size += RoundUp(item.data.size(), 4);
  return size;
}

size_t Message::memory() const {
  const auto behind = [](const Slice& slice) { return slice.owner() ? slice.owner()->capacity() : slice.size(); };
  size_t octets = behind(stream);
  const BufferRef* last = &stream.owner();
  for (const Item& item : items) {
    if (item.data.is_file()) continue;
    const Slice& slice = item.data.memory();
    if (!slice.owner() || slice.owner() != *last) octets += behind(slice);
    last = &slice.owner();
  }
  return octets + items.capacity() * sizeof(Item);
}

Result<void, std::error_code> LoadFiles(Message& message, BufferPool& buffers) {
  for (Item& item : message.items) {
    PENSTOCK_TRY(Slice loaded, item.data.Load(buffers));
    item.data = std::move(loaded);
  }
  return {};
}

Slice Unreduce(BufferPool& pool, const Message& message) {
  if (message.items.empty()) return message.stream;
  BufferRef buffer = pool.Allocate(message.flat_size());
  size_t filled = 0;
  ForEachPiece(message, [&](const auto& piece) {
    const Bytes to = buffer->bytes().subspan(filled, piece.size());
    if constexpr (std::is_same_v<std::decay_t<decltype(piece)>, Data>) {
      CopyBytes(to, piece.bytes());
    } else {
      CopyBytes(to, piece);
    }
    filled += piece.size();
  });
  assert(filled == message.flat_size());
  const ConstBytes bytes = buffer->bytes().first(filled);
  return Slice(std::move(buffer), bytes);
}

}  // namespace penstock::xdr
