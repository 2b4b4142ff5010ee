#include "base/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <ranges>
#include <thread>

namespace penstock {
namespace {

constexpr unsigned kClasses = 16;  // 512 octets ... 16 MiB are recycled

#ifdef PENSTOCK_SANITIZED
constexpr size_t kMappedFrom = SIZE_MAX;
#else
// Larger buffers are mapped one by one, because the heap would keep their memory.
constexpr size_t kMappedFrom = 128 << 10;
#endif

unsigned ClassOf(size_t size) {
  return static_cast<unsigned>(std::countr_zero(BufferPool::CapacityFor(size) / BufferPool::kSmallest));
}

size_t AlignmentOf(size_t capacity) { return capacity >= 4096 ? 4096 : 64; }

class Heap : public BufferSource {
 public:
  std::byte* Allocate(size_t size, size_t alignment) override {
    if (size < kMappedFrom) return static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment}));
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory, size_t size) override {
    if (size < kMappedFrom) {
      ::operator delete(memory, std::align_val_t{AlignmentOf(size)});
    } else {
      ::munmap(memory, size);
    }
  }
};

}  // namespace

// The part of a pool that its buffers use. It lives until the pool and the last buffer are gone.
class BufferHome {
 public:
  explicit BufferHome(std::shared_ptr<BufferSource> source) : source_(std::move(source)) {}
  ~BufferHome() {
    local_.Drain();
    returned_.Drain();
  }

  Buffer* Allocate(size_t size) {
    // The host of a driven loop may use it on one thread after another.
    const std::thread::id here = std::this_thread::get_id();
    if (owner_.load(std::memory_order_relaxed) != here) owner_.store(here, std::memory_order_relaxed);
    references_.fetch_add(1, std::memory_order_relaxed);
    const unsigned size_class = ClassOf(size);
    if (size_class < kClasses) {
      if (Buffer* buffer = local_.Pop(size_class)) return buffer;
      if (any_returned_.load(std::memory_order_relaxed)) {
        TakeReturned();
        if (Buffer* buffer = local_.Pop(size_class)) return buffer;
      }
    }
    auto* buffer = new Buffer;
    buffer->home_ = this;
    buffer->size_class_ = static_cast<uint8_t>(size_class);
    buffer->capacity_ = BufferPool::kSmallest << size_class;
    buffer->data_ = source_->Allocate(buffer->capacity_, AlignmentOf(buffer->capacity_));
    return buffer;
  }

  static void TakeBack(Buffer* buffer) {
    BufferHome* home = buffer->home_;
    if (buffer->size_class_ >= kClasses) {
      Free(buffer);
    } else if (std::this_thread::get_id() == home->owner_.load(std::memory_order_relaxed)) {
      if (home->local_.Push(buffer, home->kept_octets_) && !home->tended_.load(std::memory_order_relaxed)) {
        const std::lock_guard lock(home->mutex_);
        home->AskForTrim();
      }
    } else {
      const std::lock_guard lock(home->mutex_);
      if (home->returned_.Push(buffer, home->kept_octets_)) {
        home->any_returned_.store(true, std::memory_order_relaxed);
        if (!home->tended_.load(std::memory_order_relaxed)) home->AskForTrim();
      }
    }
    home->Unref();
  }

  BufferPool::Trimmed Trim() {
    BufferPool::Trimmed trimmed{.given_back = local_.Trim(), .left = local_.octets};
    const std::lock_guard lock(mutex_);
    trimmed.given_back += returned_.Trim();
    trimmed.left += returned_.octets;
    if (trimmed.left == 0 && on_idle_) tended_.store(false, std::memory_order_relaxed);
    return trimmed;
  }

  void Unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  size_t outstanding() const { return references_.load(std::memory_order_relaxed) - 1; }

  // local_ and returned_ get half of the limit each.
  void set_kept_octets(size_t octets) { kept_octets_ = octets / 2; }
  void set_on_idle(std::function<void()> on_idle) {
    const std::lock_guard lock(mutex_);
    on_idle_ = std::move(on_idle);
    tended_.store(!on_idle_, std::memory_order_relaxed);
  }

 private:
  struct FreeList {
    Buffer* head = nullptr;
    size_t count = 0;
    size_t least = 0;  // the minimum of `count` since the last Trim()
  };
  struct FreeLists {
    std::array<FreeList, kClasses> lists;
    size_t octets = 0;

    // Above the limit, buffers of the size that has the most idle octets are freed: the sizes in use stay. Returns
    // false if that is `buffer` itself.
    bool Push(Buffer* buffer, size_t limit) {
      while (octets + buffer->capacity_ > limit) {
        const unsigned most = MostIdle();
        if (most == buffer->size_class_ || buffer->capacity_ > limit) {
          Free(buffer);
          return false;
        }
        Free(Pop(most));
      }
      FreeList& list = lists[buffer->size_class_];
      buffer->next_ = std::exchange(list.head, buffer);
      ++list.count;
      octets += buffer->capacity_;
      return true;
    }
    Buffer* Pop(unsigned size_class) {
      FreeList& list = lists[size_class];
      Buffer* buffer = list.head;
      if (!buffer) return nullptr;
      list.head = std::exchange(buffer->next_, nullptr);
      list.least = std::min(list.least, --list.count);
      octets -= buffer->capacity_;
      return buffer;
    }
    unsigned MostIdle() const {
      const auto octets_of = [this](unsigned size_class) { return lists[size_class].count << size_class; };
      return std::ranges::max(std::views::iota(0u, kClasses), {}, octets_of);
    }
    size_t Trim() {
      const size_t before = octets;
      for (unsigned i = 0; i < kClasses; ++i) {
        for (size_t idle = lists[i].least; idle > 0; --idle) Free(Pop(i));
        lists[i].least = lists[i].count;
      }
      return before - octets;
    }
    void Drain() {
      for (unsigned i = 0; i < kClasses; ++i) {
        while (Buffer* buffer = Pop(i)) Free(buffer);
      }
    }
  };

  static void Free(Buffer* buffer) {
    buffer->home_->source_->Free(buffer->data_, buffer->capacity_);
    delete buffer;
  }
  void TakeReturned() {
    const std::lock_guard lock(mutex_);
    for (unsigned i = 0; i < kClasses; ++i) {
      while (Buffer* buffer = returned_.Pop(i)) local_.Push(buffer, kept_octets_);
    }
    any_returned_.store(false, std::memory_order_relaxed);
  }
  // Requires mutex_.
  void AskForTrim() {
    if (tended_.exchange(true, std::memory_order_relaxed)) return;
    on_idle_();
  }

  const std::shared_ptr<BufferSource> source_;
  std::atomic<size_t> references_{1};   // one for the pool, and one for each buffer in use
  std::atomic<std::thread::id> owner_;  // the thread that allocated last: it alone uses local_
  size_t kept_octets_ = BufferPool::kKeptOctets / 2;
  FreeLists local_;
  std::atomic<bool> any_returned_{false};
  std::mutex mutex_;
  FreeLists returned_;             // released by other threads; guarded by mutex_
  std::function<void()> on_idle_;  // guarded by mutex_
  // True if on_idle_ has been called and Trim() is to come, or if there is no on_idle_. Set with mutex_ held.
  std::atomic<bool> tended_{true};
};

void BufferRef::Release(Buffer* buffer) { BufferHome::TakeBack(buffer); }

BufferPool::BufferPool(std::shared_ptr<BufferSource> source)
    : home_(new BufferHome(source ? std::move(source) : std::make_shared<Heap>())) {}
BufferPool::~BufferPool() {
  home_->set_on_idle({});
  home_->Unref();
}
BufferRef BufferPool::Allocate(size_t size) { return BufferRef(home_->Allocate(size)); }
size_t BufferPool::outstanding() const { return home_->outstanding(); }
void BufferPool::set_kept_octets(size_t octets) { home_->set_kept_octets(octets); }
void BufferPool::set_on_idle(std::function<void()> on_idle) { home_->set_on_idle(std::move(on_idle)); }
BufferPool::Trimmed BufferPool::Trim() { return home_->Trim(); }

}  // namespace penstock
