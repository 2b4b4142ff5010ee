// Reference-counted buffers from a recycling pool, and Slices: bytes together with what keeps them alive.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/bytes.h"

namespace penstock {

class BufferHome;
class BufferPool;

// A block of memory from a BufferPool. Held by BufferRef; given back to its pool by the last holder, on any thread.
class Buffer {
 public:
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  Bytes bytes() { return {data_, capacity_}; }

 private:
  friend class BufferRef;
  friend class BufferHome;
  Buffer() = default;

  std::atomic<uint32_t> references_{0};
  uint8_t size_class_ = 0;
  size_t capacity_ = 0;
  std::byte* data_ = nullptr;
  BufferHome* home_ = nullptr;
  Buffer* next_ = nullptr;  // in a free list
};

// A counted reference to a Buffer; may be empty. Copies may live on different threads.
class BufferRef {
 public:
  BufferRef() = default;
  explicit BufferRef(Buffer* buffer) : buffer_(buffer) {
    if (buffer_) buffer_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  BufferRef(const BufferRef& other) : BufferRef(other.buffer_) {}
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() { Reset(); }

  void Reset() {
    Buffer* buffer = std::exchange(buffer_, nullptr);
    if (buffer && buffer->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) Release(buffer);
  }
  Buffer* operator->() const { return buffer_; }
  Buffer& operator*() const { return *buffer_; }
  explicit operator bool() const { return buffer_ != nullptr; }
  bool operator==(const BufferRef&) const = default;
  // True where nobody else holds the buffer, so that its owner may write to it.
  bool unique() const { return buffer_ && buffer_->references_.load(std::memory_order_acquire) == 1; }

 private:
  static void Release(Buffer* buffer);
  Buffer* buffer_ = nullptr;
};

// Where the memory of a pool's buffers comes from and goes back to, where the heap will not do (memory registered with an
// RDMA adapter, for example). Allocate() on the pool's thread, Free() on any.
class BufferSource {
 public:
  virtual ~BufferSource() = default;
  // `size` is a power of two.
  virtual std::byte* Allocate(size_t size, size_t alignment) = 0;
  virtual void Free(std::byte* memory, size_t size) = 0;
};

// Hands out buffers of the next power of two (at least 512 octets) and takes them back. Allocate() belongs to the thread
// that calls it first (the pool's loop); buffers may be released on any. Buffers may outlive the pool. Contents are not
// cleared.
//
// The pool keeps buffers that come back, up to a limit. Trim(), called now and then, gives back those that nobody has needed.
class BufferPool {
 public:
  // Idle memory that a pool keeps at most, where nobody sets less.
#ifdef PENSTOCK_SANITIZED
  static constexpr size_t kKeptOctets = 0;  // let AddressSanitizer see a buffer's end of life
#else
  static constexpr size_t kKeptOctets = 128 << 20;
#endif
  static constexpr size_t kSmallest = 512;
  // The capacity of the buffer that Allocate(size) gives.
  static constexpr size_t CapacityFor(size_t size) { return std::bit_ceil(std::max(size, kSmallest)); }

  // From `source`, which lives as long as the pool and its buffers; from the heap where there is none.
  explicit BufferPool(std::shared_ptr<BufferSource> source = nullptr);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer with capacity() >= size, aligned to 64 octets (to a page from 4 KiB on).
  BufferRef Allocate(size_t size);

  // How many buffers are out of the pool now. Any thread.
  size_t outstanding() const;

  // To be set before the first buffer comes back.
  void set_kept_octets(size_t octets);
  // Called, on any thread, when the pool begins to keep idle memory: Trim() is then to be called a while later, and again until
  // nothing is left. Must not use the pool. Not called any more once the pool is destroyed.
  void set_on_idle(std::function<void()> on_idle);

  struct Trimmed {
    size_t given_back = 0;
    size_t left = 0;
  };
  // Gives back the memory that has lain idle since the last call; says how many octets, and how many are still kept. On the
  // thread of Allocate().
  Trimmed Trim();

 private:
  BufferHome* home_;
};

// Bytes and what keeps them alive. Without an owner it is a borrowed view: whoever made it promises the lifetime.
class Slice {
 public:
  Slice() = default;
  Slice(BufferRef owner, ConstBytes bytes) : owner_(std::move(owner)), bytes_(bytes) {}
  static Slice Borrowed(ConstBytes bytes) { return Slice({}, bytes); }

  ConstBytes bytes() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const BufferRef& owner() const { return owner_; }

  Slice Sub(size_t offset, size_t length) const { return {owner_, bytes_.subspan(offset, length)}; }

 private:
  BufferRef owner_;
  ConstBytes bytes_;
};

}  // namespace penstock
