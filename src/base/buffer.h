// Reference-counted buffers from a recycling pool, and Slices: views of bytes that keep their buffer alive.
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

// A block of memory from a BufferPool. BufferRefs hold it; the last one returns it to its pool, on any thread.
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
  Buffer* next_ = nullptr;  // the next buffer of its free list
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
  // True if this is the only reference, so that its holder may write to the buffer.
  bool unique() const { return buffer_ && buffer_->references_.load(std::memory_order_acquire) == 1; }

 private:
  static void Release(Buffer* buffer);
  Buffer* buffer_ = nullptr;
};

// Supplies the memory of a pool's buffers if the heap is unsuitable, for example memory registered with an RDMA
// adapter. The pool calls Allocate() on its own thread and Free() on any thread.
class BufferSource {
 public:
  virtual ~BufferSource() = default;
  // `size` is a power of two.
  virtual std::byte* Allocate(size_t size, size_t alignment) = 0;
  virtual void Free(std::byte* memory, size_t size) = 0;
};

// Allocates buffers whose size is the next power of two (at least 512 octets), and recycles them. Only the thread that
// runs the pool's loop may call Allocate(); any thread may release a buffer. Buffers may outlive the pool.
// Their contents are not cleared.
//
// The pool keeps released buffers up to a limit. Above it, buffers of the size that has the most idle octets are freed.
// Trim(), called periodically, frees the ones that were not needed.
class BufferPool {
 public:
  // The default limit of idle memory in a pool.
#ifdef PENSTOCK_SANITIZED
  static constexpr size_t kKeptOctets = 0;  // so that AddressSanitizer sees when a buffer is released
#else
  static constexpr size_t kKeptOctets = 128 << 20;
#endif
  static constexpr size_t kSmallest = 512;
  // The capacity of the buffer that Allocate(size) returns.
  static constexpr size_t CapacityFor(size_t size) { return std::bit_ceil(std::max(size, kSmallest)); }

  // Allocates from `source`, which must outlive the pool and its buffers, or from the heap if `source` is null.
  explicit BufferPool(std::shared_ptr<BufferSource> source = nullptr);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer with capacity() >= size, aligned to 64 octets (to a page from 4 KiB on).
  BufferRef Allocate(size_t size);

  // The number of buffers in use. Thread-safe.
  size_t outstanding() const;

  // Limits the idle memory. Call it before the first buffer is released.
  void set_kept_octets(size_t octets);
  // Sets a function that the pool calls, on any thread, when it begins to keep idle memory. The owner should then call
  // Trim() a while later, and again until no idle memory is left. `on_idle` must not use the pool. The pool's
  // destructor ends the calls.
  void set_on_idle(std::function<void()> on_idle);

  struct Trimmed {
    size_t given_back = 0;
    size_t left = 0;
  };
  // Frees the memory that has been idle since the last call. Returns how many octets it freed, and how many the pool
  // still keeps. Call it on the thread of Allocate().
  Trimmed Trim();

 private:
  BufferHome* home_;
};

// A view of bytes and a reference to the buffer that holds them. Without an owner it is a borrowed view: its maker
// guarantees the lifetime of the bytes.
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
