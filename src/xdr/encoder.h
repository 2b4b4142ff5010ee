// Writes an XDR stream into a pooled buffer, and sets payloads aside.
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

// Makes one Message. What it writes is aligned to four octets at all times (RFC 4506 §3); padding is zeros.
class Encoder {
 public:
  // `pool` must outlive the encoder. The buffer is taken at the first write, of at least `expected` octets; it grows.
  explicit Encoder(BufferPool& pool, size_t expected = 512) : pool_(pool), expected_(expected) {}
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void U32(uint32_t value) { StoreBig(Extend(4), value); }
  void I32(int32_t value) { U32(static_cast<uint32_t>(value)); }
  void U64(uint64_t value) { StoreBig(Extend(8), value); }
  void I64(int64_t value) { U64(static_cast<uint64_t>(value)); }
  void Bool(bool value) { U32(value ? 1 : 0); }

  // opaque[n]: the bytes and their padding.
  void Fixed(ConstBytes bytes) {
    const size_t padded = RoundUp(bytes.size(), 4);
    std::byte* at = Extend(padded);
    if (padded != bytes.size()) StoreBig<uint32_t>(at + padded - 4, 0);
    CopyBytes({at, bytes.size()}, bytes);
  }
  // opaque<>: the length, too. Requires bytes.size() < 2^32.
  void Opaque(ConstBytes bytes) {
    Length(bytes.size());
    Fixed(bytes);
  }
  void String(std::string_view text) { Opaque(AsBytes(text)); }

  // A DDP-eligible opaque<>: its length goes into the stream, the data becomes an Item (even where it is empty).
  void Payload(Data data) {
    const size_t size = data.size();
    Length(size);
    items_.push_back({size_, std::move(data)});
    beside_ += RoundUp(size, 4);
  }

  // A count or length. Requires < 2^32.
  void Length(size_t length) {
    assert(length <= 0xffffffff);
    U32(static_cast<uint32_t>(length));
  }

  // Adds `count` octets, a multiple of four, that the caller fills in at once: the pointer is good until the next write.
  std::byte* Extend(size_t count) {
    assert(count % 4 == 0);
    if (capacity_ - size_ < count) Grow(count);
    std::byte* at = at_ + size_;
    size_ += count;
    return at;
  }

  // Overwrites four octets that were written before, at `offset` of the reduced stream.
  void PatchU32(size_t offset, uint32_t value) {
    assert(offset + 4 <= size_);
    StoreBig(at_ + offset, value);
  }

  // Octets so far with payloads and their padding (RFC 8166's unreduced stream), and without.
  size_t size() const { return size_ + beside_; }
  size_t reduced_size() const { return size_; }
  size_t payload_count() const { return items_.size(); }

  // To take back what was written since: results, when their procedure turns out to fail.
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

  // A copy of what was written since, payloads included, in memory of its own: for a reply that is kept. Requires that no
  // payload is still in a file.
  Message CopySince(const Mark& mark) const;
  // Writes what was copied.
  void Append(const Message& copy);

  // What was written. The encoder is empty afterwards and may write the next message.
  Message Finish();

 private:
  void Grow(size_t count);

  BufferPool& pool_;
  size_t expected_;
  BufferRef buffer_;
  std::byte* at_ = nullptr;  // buffer_'s data
  size_t capacity_ = 0;
  size_t size_ = 0;
  size_t beside_ = 0;  // octets of the items, padded
  std::vector<Item> items_;
};

}  // namespace penstock::xdr
