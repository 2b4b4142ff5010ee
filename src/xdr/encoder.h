// Writes an XDR stream into a pooled buffer. It keeps payloads out of the stream, so that they are not copied.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/bytes.h"
#include "xdr/message.h"

namespace penstock::xdr {

// Builds one Message. The stream is always aligned to four octets (RFC 4506 §3); padding consists of zeros.
class Encoder {
 public:
  // `pool` must outlive the encoder. The first write allocates a buffer of at least `expected` octets, which grows as
  // needed.
  explicit Encoder(BufferPool& pool, size_t expected = 512) : pool_(pool), expected_(expected) {}
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void U32(uint32_t value) { StoreBig(Extend(4), value); }
  void I32(int32_t value) { U32(static_cast<uint32_t>(value)); }
  void U64(uint64_t value) { StoreBig(Extend(8), value); }
  void I64(int64_t value) { U64(static_cast<uint64_t>(value)); }
  void Bool(bool value) { U32(value ? 1 : 0); }

  // Writes an opaque[n]: the octets and their padding.
  void Fixed(ConstBytes bytes) {
    const size_t padded = RoundUp(bytes.size(), 4);
    std::byte* at = Extend(padded);
    if (padded != bytes.size()) StoreBig<uint32_t>(at + padded - 4, 0);
    CopyBytes({at, bytes.size()}, bytes);
  }
  // Writes an opaque<>: the length, the octets and their padding. Requires bytes.size() < 2^32.
  void Opaque(ConstBytes bytes) {
    Length(bytes.size());
    Fixed(bytes);
  }
  void String(std::string_view text) { Opaque(AsBytes(text)); }

  // Writes a DDP-eligible opaque<>. Its length goes into the stream. Its data becomes an Item, even if it is empty.
  void Payload(Data data) {
    const size_t size = data.size();
    Length(size);
    items_.push_back({size_, std::move(data)});
    beside_ += RoundUp(size, 4);
  }

  // Writes a count or length. Requires length < 2^32.
  void Length(size_t length) {
    assert(length <= 0xffffffff);
    U32(static_cast<uint32_t>(length));
  }

  // Appends `count` octets, a multiple of four. The caller must fill them at once: the pointer is valid until the next
  // write.
  std::byte* Extend(size_t count) {
    assert(count % 4 == 0);
    if (capacity_ - size_ < count) Grow(count);
    std::byte* at = at_ + size_;
    size_ += count;
    return at;
  }

  // Overwrites the four octets at `offset` of the reduced stream.
  void PatchU32(size_t offset, uint32_t value) {
    assert(offset + 4 <= size_);
    StoreBig(at_ + offset, value);
  }

  // The current size with payloads and their padding (the unreduced stream of RFC 8166), and without them.
  size_t size() const { return size_ + beside_; }
  size_t reduced_size() const { return size_; }
  size_t payload_count() const { return items_.size(); }
  const Items& payloads() const { return items_; }

  // A position in the message. Rewind() discards all that was written after the mark, for example the results of a
  // procedure that fails.
  struct Mark {
    size_t size;
    size_t items;
    size_t beside;
  };
  Mark mark() const { return {size_, items_.size(), beside_}; }
  void Rewind(const Mark& mark) {
    assert(mark.size <= size_ && mark.items <= items_.size());
    size_ = mark.size;
    items_.resize(mark.items);
    beside_ = mark.beside;
  }

  // Copies the octets and the payloads that were written after the mark, for a cached reply. The copy has its own
  // memory. Requires that no payload is in a file.
  Message CopySince(const Mark& mark) const;
  // Writes a copy that CopySince() has made.
  void Append(const Message& copy);

  // Returns the message. The encoder is then empty, and may write another message.
  Message Finish();

 private:
  void Grow(size_t count);

  BufferPool& pool_;
  size_t expected_;
  BufferRef buffer_;
  std::byte* at_ = nullptr;  // the data of buffer_
  size_t capacity_ = 0;
  size_t size_ = 0;
  size_t beside_ = 0;  // the octets of the items, with padding
  Items items_;
};

}  // namespace penstock::xdr
