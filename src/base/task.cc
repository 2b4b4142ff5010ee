#include "base/task.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <utility>

namespace penstock {
namespace {

constexpr size_t kGranule = 128;
constexpr size_t kFrameClasses = 32;  // frames of up to 4 KiB are recycled
#ifdef PENSTOCK_SANITIZED
constexpr uint16_t kKeptPerClass = 0;  // so that AddressSanitizer sees when a frame is freed
#else
constexpr uint16_t kKeptPerClass = 512;
#endif

size_t FrameClassOf(size_t size) { return (std::max<size_t>(size, 1) + kGranule - 1) / kGranule; }

// A free frame of one size class. Its memory holds the link to the next one.
struct FreeFrame {
  FreeFrame* next;
};

// The free frames of a thread. Has no constructor and no destructor, so that access needs no check.
struct FreeLists {
  std::array<FreeFrame*, kFrameClasses + 1> first;
  std::array<uint16_t, kFrameClasses + 1> room;  // how many more frames each list takes: none before Begin(), and after
                                                 // the thread's end
  bool begun;
};
constinit thread_local FreeLists free_lists{};

// Frees the lists at the end of the thread. Other thread-local objects may still free frames then.
struct Cleanup {
  ~Cleanup() {
    free_lists.room.fill(0);
    for (FreeFrame*& list : free_lists.first) {
      while (list) ::operator delete(std::exchange(list, list->next));
    }
  }
};

void Begin() {
  static thread_local Cleanup cleanup;
  free_lists.begun = true;
  free_lists.room.fill(kKeptPerClass);
}

}  // namespace

void* FrameAllocator::Allocate(size_t size) {
  const size_t size_class = FrameClassOf(size);
  if (size_class <= kFrameClasses) {
    if (FreeFrame* const frame = free_lists.first[size_class]) {
      free_lists.first[size_class] = frame->next;
      ++free_lists.room[size_class];
      return frame;
    }
  }
  return ::operator new(size_class * kGranule);
}

void FrameAllocator::Free(void* frame, size_t size) noexcept {
  const size_t size_class = FrameClassOf(size);
  if (!free_lists.begun) [[unlikely]]
    Begin();
  if (size_class > kFrameClasses || free_lists.room[size_class] == 0) return ::operator delete(frame);
  --free_lists.room[size_class];
  free_lists.first[size_class] = new (frame) FreeFrame{free_lists.first[size_class]};
}

}  // namespace penstock
