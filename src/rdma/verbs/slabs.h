// The memory of a loop's buffers, in few large pieces, so that a protection domain registers each of them once and for all.
//
// A slab is never given back before the source goes: what was registered stays what it is.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "base/buffer.h"

namespace penstock::rdma::verbs {

class Slabs : public BufferSource {
 public:
  static constexpr size_t kSlabSize = 1 << 20;

  Slabs() = default;
  ~Slabs() override;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  std::byte* Allocate(size_t size, size_t alignment) override;
  void Free(std::byte* memory, size_t size) override;

  // On the pool's thread, like Allocate(). The slab that holds all of `bytes`; none where they come from elsewhere.
  static constexpr size_t kNone = ~size_t{0};
  size_t Find(ConstBytes bytes) const;
  Bytes slab(size_t index) const { return slabs_[index]; }
  size_t size() const { return slabs_.size(); }

 private:
  std::byte* AddSlab(size_t size);

  std::vector<Bytes> slabs_;                 // never shrinks; used on the pool's thread alone
  std::map<const std::byte*, size_t> find_;  // by where a slab begins
  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;  // by size; guarded by mutex_
  std::byte* next_ = nullptr;                       // of the slab that is being cut up
  size_t left_ = 0;
};

}  // namespace penstock::rdma::verbs
