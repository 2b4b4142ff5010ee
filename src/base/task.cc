#include "base/task.h"

#include <array>
#include <new>
#include <vector>

namespace penstock {
namespace {

constexpr size_t kGranule = 128;
constexpr size_t kFrameClasses = 32;  // frames of up to 4 KiB are recycled
#ifdef PENSTOCK_SANITIZED
constexpr size_t kKeptPerClass = 0;  // so that AddressSanitizer sees when a frame is freed
#else
constexpr size_t kKeptPerClass = 512;
#endif

size_t FrameClassOf(size_t size) { return (size + kGranule - 1) / kGranule; }

struct FreeLists {
  std::array<std::vector<void*>, kFrameClasses + 1> lists;
  ~FreeLists() {
    for (auto& list : lists) {
      for (void* frame : list) ::operator delete(frame);
      list.clear();
    }
    alive = false;
  }
  // False after this object is destroyed. Other thread-local objects of the thread may still free frames then.
  static thread_local bool alive;
};
thread_local bool FreeLists::alive = true;
thread_local FreeLists free_lists;

}  // namespace

void* FrameAllocator::Allocate(size_t size) {
  const size_t size_class = FrameClassOf(size);
  if (size_class > kFrameClasses || !FreeLists::alive) return ::operator new(size_class * kGranule);
  auto& list = free_lists.lists[size_class];
  if (list.empty()) return ::operator new(size_class * kGranule);
  void* frame = list.back();
  list.pop_back();
  return frame;
}

void FrameAllocator::Free(void* frame, size_t size) noexcept {
  const size_t size_class = FrameClassOf(size);
  if (size_class <= kFrameClasses && FreeLists::alive) {
    auto& list = free_lists.lists[size_class];
    if (list.capacity() == 0) list.reserve(kKeptPerClass);
    if (list.size() < kKeptPerClass) {
      list.push_back(frame);
      return;
    }
  }
  ::operator delete(frame);
}

}  // namespace penstock
