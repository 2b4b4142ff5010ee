// The memory of a loop's buffers, in few large pieces (slabs). A protection domain registers a whole slab at once, so a
// buffer needs no registration of its own.
//
// Registered memory is locked, so no other program can use it. When much memory is idle, slabs without a used buffer go
// back to the system, after the protection domains have deregistered them.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/buffer.h"

namespace penstock::rdma::verbs {

// An object that registers slabs with an adapter.
class SlabUser {
 public:
  virtual ~SlabUser() = default;
  // Deregisters the slab, if it is registered. Returns false if that is impossible.
  virtual bool Forget(size_t slab) = 0;
};

class Slabs : public BufferSource {
 public:
  static constexpr size_t kSlabSize = 1 << 20;
  // Keep up to this much idle memory for the next peak of load.
  static constexpr size_t kKept = 32 << 20;

  Slabs() = default;
  ~Slabs() override;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  std::byte* Allocate(size_t size, size_t alignment) override;
  void Free(std::byte* memory, size_t size) override;

  static constexpr size_t kNone = ~size_t{0};
  // Returns the index of the slab that holds all of `bytes`, or kNone. Only on the pool's thread, like Allocate().
  size_t Find(ConstBytes bytes) const;
  Bytes slab(size_t index) const { return slabs_[index].memory; }
  // All indices are below this.
  size_t size() const { return slabs_.size(); }
  // The memory of all slabs.
  size_t octets() const;

  void Add(SlabUser& user) { users_.insert(&user); }
  void Remove(SlabUser& user) { users_.erase(&user); }

 private:
  struct Slab {
    Bytes memory;    // empty if given back; the index is then free for a new slab
    size_t cut = 0;  // octets that were allocated from it at least once
  };
  std::byte* AddSlab(size_t size);
  void GiveBackIdle();

  // Only the pool's thread uses these.
  std::vector<Slab> slabs_;
  std::map<const std::byte*, size_t> find_;  // index by the address of the slab
  size_t current_ = kNone;                   // the slab that small buffers come from
  std::byte* next_ = nullptr;                // the first free octet of that slab
  size_t left_ = 0;
  std::set<SlabUser*> users_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::thread::id owner_;                           // the pool's thread
  std::map<size_t, std::vector<std::byte*>> free_;  // pieces by size
  size_t idle_ = 0;                                 // octets in free_
  size_t limit_ = kKept;                            // when idle_ exceeds it, slabs are given back
};

}  // namespace penstock::rdma::verbs
