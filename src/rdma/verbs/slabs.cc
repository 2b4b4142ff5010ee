#include "rdma/verbs/slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace penstock::rdma::verbs {

Slabs::~Slabs() {
  for (const Slab& slab : slabs_) {
    if (!slab.memory.empty()) ::munmap(slab.memory.data(), slab.memory.size());
  }
}

std::byte* Slabs::Allocate(size_t size, size_t alignment) {
  {
    std::lock_guard lock(mutex_);
    owner_ = std::this_thread::get_id();
    if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
      std::byte* memory = found->second.back();
      found->second.pop_back();
      idle_ -= size;
      return memory;
    }
  }
  if (size >= kSlabSize) {
    std::byte* memory = AddSlab(size);
    slabs_[Find({memory, size})].cut = size;
    return memory;
  }
  const size_t padding =
      next_ ? RoundUp(reinterpret_cast<uintptr_t>(next_), alignment) - reinterpret_cast<uintptr_t>(next_) : 0;
  if (padding + size > left_) {
    next_ = AddSlab(kSlabSize);
    left_ = kSlabSize;
    current_ = Find({next_, 1});
  } else {
    next_ += padding;
    left_ -= padding;
  }
  std::byte* memory = next_;
  next_ += size;
  left_ -= size;
  slabs_[current_].cut += size;
  return memory;
}

void Slabs::Free(std::byte* memory, size_t size) {
  std::lock_guard lock(mutex_);
  free_[size].push_back(memory);
  idle_ += size;
  if (idle_ > limit_ && owner_ == std::this_thread::get_id()) GiveBackIdle();
}

// Gives slabs without a used buffer back to the system. The caller holds mutex_ and is on the pool's thread.
void Slabs::GiveBackIdle() {
  std::vector<size_t> idle(slabs_.size());
  for (const auto& [size, pieces] : free_) {
    for (std::byte* piece : pieces) idle[Find({piece, size})] += size;
  }
  std::vector<bool> goes(slabs_.size());
  for (size_t index = 0; index < slabs_.size() && idle_ > kKept / 2; ++index) {
    if (slabs_[index].memory.empty() || index == current_ || idle[index] < slabs_[index].cut) continue;
    goes[index] = std::ranges::all_of(users_, [&](SlabUser* user) { return user->Forget(index); });
    if (goes[index]) idle_ -= idle[index];
  }
  for (auto& [size, pieces] : free_) {
    std::erase_if(pieces, [&](std::byte* piece) { return goes[Find({piece, 1})]; });
  }
  for (size_t index = 0; index < goes.size(); ++index) {
    if (!goes[index]) continue;
    const Bytes memory = std::exchange(slabs_[index], {}).memory;
    find_.erase(memory.data());
    ::munmap(memory.data(), memory.size());
  }
  // Slabs that cannot be given back stay idle. A higher limit avoids a search for every freed piece.
  limit_ = std::max(kKept, 2 * idle_);
}

size_t Slabs::Find(ConstBytes bytes) const {
  auto after = find_.upper_bound(bytes.data());
  if (after == find_.begin()) return kNone;
  const size_t index = std::prev(after)->second;
  const Bytes slab = slabs_[index].memory;
  // Compare as numbers: C++ does not define a comparison of pointers into different objects.
  const auto from = reinterpret_cast<uintptr_t>(bytes.data()) - reinterpret_cast<uintptr_t>(slab.data());
  return from <= slab.size() && bytes.size() <= slab.size() - from ? index : kNone;
}

std::byte* Slabs::AddSlab(size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* bytes = static_cast<std::byte*>(memory);
  const auto vacant = std::ranges::find_if(slabs_, [](const Slab& slab) { return slab.memory.empty(); });
  const auto index = static_cast<size_t>(vacant - slabs_.begin());
  if (vacant == slabs_.end()) slabs_.emplace_back();
  slabs_[index].memory = {bytes, size};
  find_.emplace(bytes, index);
  return bytes;
}

size_t Slabs::octets() const {
  size_t sum = 0;
  for (const Slab& slab : slabs_) sum += slab.memory.size();
  return sum;
}

}  // namespace penstock::rdma::verbs
