#include "xdr/encoder.h"

#include <algorithm>

namespace penstock::xdr {

void Encoder::Grow(size_t count) {
  BufferRef larger = pool_.Allocate(std::max({expected_, size_ + count, 2 * capacity_}));
  CopyBytes(larger->bytes(), {at_, size_});
  buffer_ = std::move(larger);
  at_ = buffer_->data();
  capacity_ = buffer_->capacity();
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
