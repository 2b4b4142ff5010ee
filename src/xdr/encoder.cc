#include "xdr/encoder.h"

#include <algorithm>
#include <span>

namespace penstock::xdr {

void Encoder::Grow(size_t count) {
  BufferRef larger = pool_.Allocate(std::max({expected_, size_ + count, 2 * capacity_}));
  CopyBytes(larger->bytes(), {at_, size_});
  buffer_ = std::move(larger);
  at_ = buffer_->data();
  capacity_ = buffer_->capacity();
}

Message Encoder::CopySince(const Mark& mark) const {
  assert(mark.size <= size_ && mark.items <= items_.size());
  const auto in_memory = [this](size_t size) {
    BufferRef buffer = pool_.Allocate(size);
    const Bytes bytes = buffer->bytes().first(size);
    return std::pair(Slice(std::move(buffer), bytes), bytes);
  };
  Message copy;
  const auto [stream, bytes] = in_memory(size_ - mark.size);
  CopyBytes(bytes, {at_ + mark.size, bytes.size()});
  copy.stream = stream;
  for (const Item& item : std::span(items_).subspan(mark.items)) {
    const auto [data, to] = in_memory(item.data.size());
    CopyBytes(to, item.data.bytes());
    copy.items.push_back({item.offset - mark.size, data});
  }
  return copy;
}

void Encoder::Append(const Message& copy) {
  assert(copy.placed.empty());
  const size_t begin = size_;
  Fixed(copy.stream.bytes());
  for (const Item& item : copy.items) {
    items_.push_back({begin + item.offset, item.data});
    beside_ += RoundUp(item.data.size(), 4);
  }
}

Message Encoder::Finish() {
  Message message;
  message.stream = Slice(std::exchange(buffer_, {}), {std::exchange(at_, nullptr), std::exchange(size_, 0)});
  message.items = std::exchange(items_, {});
  capacity_ = 0;
  beside_ = 0;
  return message;
}

}  // namespace penstock::xdr
