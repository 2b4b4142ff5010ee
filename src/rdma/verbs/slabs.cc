#include "rdma/verbs/slabs.h"

#include <sys/mman.h>

#include <new>

namespace penstock::rdma::verbs {

Slabs::~Slabs() {
  for (Bytes slab : slabs_) ::munmap(slab.data(), slab.size());
}

std::byte* Slabs::Allocate(size_t size, size_t alignment) {
  {
    std::lock_guard lock(mutex_);
    if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
      std::byte* memory = found->second.back();
      found->second.pop_back();
      return memory;
    }
  }
  if (size >= kSlabSize) return AddSlab(size);
  const size_t padding =
      next_ ? RoundUp(reinterpret_cast<uintptr_t>(next_), alignment) - reinterpret_cast<uintptr_t>(next_) : 0;
  if (padding + size > left_) {
    next_ = AddSlab(kSlabSize);
    left_ = kSlabSize;
  } else {
    next_ += padding;
    left_ -= padding;
  }
  std::byte* memory = next_;
  next_ += size;
  left_ -= size;
  return memory;
}

void Slabs::Free(std::byte* memory, size_t size) {
  std::lock_guard lock(mutex_);
  free_[size].push_back(memory);
}

size_t Slabs::Find(ConstBytes bytes) const {
  auto after = find_.upper_bound(bytes.data());
  if (after == find_.begin()) return kNone;
  const size_t index = std::prev(after)->second;
  const Bytes slab = slabs_[index];
  // By numbers: pointers of different objects do not compare.
  const auto from = reinterpret_cast<uintptr_t>(bytes.data()) - reinterpret_cast<uintptr_t>(slab.data());
  return from <= slab.size() && bytes.size() <= slab.size() - from ? index : kNone;
}

std::byte* Slabs::AddSlab(size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* bytes = static_cast<std::byte*>(memory);
  find_.emplace(bytes, slabs_.size());
  slabs_.emplace_back(bytes, size);
  return bytes;
}

}  // namespace penstock::rdma::verbs
