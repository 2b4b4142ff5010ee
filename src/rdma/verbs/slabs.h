// The memory of a loop's buffers, in few large pieces, so that a protection domain registers each of them once.
//
// What is registered is locked: nobody else gets that memory. So slabs are given back when much lies idle in those of which nothing
// is in use, once those who have registered them have let go.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/buffer.h"

namespace penstock::rdma::verbs {

// Somebody who registers slabs.
class SlabUser {
 public:
  virtual ~SlabUser() = default;
  // Lets go of it, whether it had registered it or not; false where that is impossible.
  virtual bool Forget(size_t slab) = 0;
};

class Slabs : public BufferSource {
 public:
  static constexpr size_t kSlabSize = 1 << 20;
  // Idle memory up to this is kept for the next peak.
  static constexpr size_t kKept = 32 << 20;

  Slabs() = default;
  ~Slabs() override;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  std::byte* Allocate(size_t size, size_t alignment) override;
  void Free(std::byte* memory, size_t size) override;

  // On the pool's thread, like Allocate(). The slab that holds all of `bytes`; none where they come from elsewhere.
  static constexpr size_t kNone = ~size_t{0};
  size_t Find(ConstBytes bytes) const;
  Bytes slab(size_t index) const { return slabs_[index].memory; }
  size_t size() const { return slabs_.size(); }  // what indices are below
  size_t octets() const;

  void Add(SlabUser& user) { users_.insert(&user); }
  void Remove(SlabUser& user) { users_.erase(&user); }

 private:
  struct Slab {
    Bytes memory;    // empty where it was given back; its index is used again
    size_t cut = 0;  // octets of it that were ever handed out
  };
  std::byte* AddSlab(size_t size);
  void GiveBackIdle();

  // Used on the pool's thread alone.
  std::vector<Slab> slabs_;
  std::map<const std::byte*, size_t> find_;  // by where a slab begins
  size_t current_ = kNone;                   // the slab that is being cut up
  std::byte* next_ = nullptr;                // of that
  size_t left_ = 0;
  std::set<SlabUser*> users_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::thread::id owner_;                           // the pool's thread
  std::map<size_t, std::vector<std::byte*>> free_;  // by size
  size_t idle_ = 0;                                 // octets in free_
  size_t limit_ = kKept;                            // of idle_, before slabs are given back
};

}  // namespace penstock::rdma::verbs
