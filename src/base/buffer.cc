#include "base/buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <new>
#include <thread>

namespace penstock {
namespace {

constexpr size_t kSmallest = 512;
constexpr unsigned kClasses = 16;  // 512 octets ... 16 MiB are recycled
#ifdef PENSTOCK_SANITIZED
constexpr size_t kKeptOctetsPerClass = 0;  // let AddressSanitizer see a buffer's end of life
#else
constexpr size_t kKeptOctetsPerClass = 64 << 20;
#endif

unsigned ClassOf(size_t size) { return std::bit_width((std::max(size, kSmallest) - 1) / kSmallest); }

size_t AlignmentOf(size_t capacity) { return capacity >= 4096 ? 4096 : 64; }

class Heap : public BufferSource {
 public:
  std::byte* Allocate(size_t size, size_t alignment) override {
    return static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment}));
  }
  void Free(std::byte* memory, size_t size) override { ::operator delete(memory, std::align_val_t{AlignmentOf(size)}); }
};

}  // namespace

// What a pool and its buffers share. Lives until the pool and the last buffer are gone.
class BufferHome {
 public:
  explicit BufferHome(std::shared_ptr<BufferSource> source) : source_(std::move(source)) {}
  ~BufferHome() {
    for (FreeList& list : local_) Drain(list);
    for (FreeList& list : returned_) Drain(list);
  }

  Buffer* Allocate(size_t size) {
    if (owner_ == std::thread::id()) owner_ = std::this_thread::get_id();
    assert(owner_ == std::this_thread::get_id());
    references_.fetch_add(1, std::memory_order_relaxed);
    const unsigned size_class = ClassOf(size);
    if (size_class < kClasses) {
      if (Buffer* buffer = local_[size_class].Pop()) return buffer;
      if (any_returned_.load(std::memory_order_relaxed)) {
        TakeReturned();
        if (Buffer* buffer = local_[size_class].Pop()) return buffer;
      }
    }
    auto* buffer = new Buffer;
    buffer->home_ = this;
    buffer->size_class_ = static_cast<uint8_t>(size_class);
    buffer->capacity_ = kSmallest << size_class;
    buffer->data_ = source_->Allocate(buffer->capacity_, AlignmentOf(buffer->capacity_));
    return buffer;
  }

  static void TakeBack(Buffer* buffer) {
    BufferHome* home = buffer->home_;
    if (buffer->size_class_ >= kClasses) {
      Free(buffer);
    } else if (std::this_thread::get_id() == home->owner_) {
      home->local_[buffer->size_class_].Push(buffer);
    } else {
      std::lock_guard lock(home->mutex_);
      home->returned_[buffer->size_class_].Push(buffer);
      home->any_returned_.store(true, std::memory_order_relaxed);
    }
    home->Unref();
  }

  void Unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  size_t outstanding() const { return references_.load(std::memory_order_relaxed) - 1; }

 private:
  struct FreeList {
    Buffer* head = nullptr;
    size_t count = 0;

    void Push(Buffer* buffer) {
      if ((count + 1) * buffer->capacity_ > kKeptOctetsPerClass) return Free(buffer);
      buffer->next_ = std::exchange(head, buffer);
      ++count;
    }
    Buffer* Pop() {
      Buffer* buffer = head;
      if (!buffer) return nullptr;
      head = std::exchange(buffer->next_, nullptr);
      --count;
      return buffer;
    }
  };

  static void Free(Buffer* buffer) {
    buffer->home_->source_->Free(buffer->data_, buffer->capacity_);
    delete buffer;
  }
  static void Drain(FreeList& list) {
    while (Buffer* buffer = list.Pop()) Free(buffer);
  }
  void TakeReturned() {
    std::lock_guard lock(mutex_);
    for (unsigned i = 0; i < kClasses; ++i) {
      while (Buffer* buffer = returned_[i].Pop()) local_[i].Push(buffer);
    }
    any_returned_.store(false, std::memory_order_relaxed);
  }

  const std::shared_ptr<BufferSource> source_;
  std::atomic<size_t> references_{1};  // the pool, and one for each buffer that is out
  std::thread::id owner_;              // set by the first Allocate, before any buffer can come back
  std::array<FreeList, kClasses> local_;
  std::atomic<bool> any_returned_{false};
  std::mutex mutex_;
  std::array<FreeList, kClasses> returned_;  // by other threads; guarded by mutex_
};

void BufferRef::Release(Buffer* buffer) { BufferHome::TakeBack(buffer); }

BufferPool::BufferPool(std::shared_ptr<BufferSource> source)
    : home_(new BufferHome(source ? std::move(source) : std::make_shared<Heap>())) {}
BufferPool::~BufferPool() { home_->Unref(); }
BufferRef BufferPool::Allocate(size_t size) { return BufferRef(home_->Allocate(size)); }
size_t BufferPool::outstanding() const { return home_->outstanding(); }

}  // namespace penstock
