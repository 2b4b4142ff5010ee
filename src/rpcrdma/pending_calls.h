// The table of a requester's calls that have no reply yet. The requester finds the call of a reply in it, by XID.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rpc/transport.h"

namespace penstock::rpcrdma {

// A hash table with open addressing and linear probing. A call therefore needs no allocation. The entry of a call that
// its caller has given up is null. Its XID and its credit stay in use until the reply arrives.
template <class Call>
class PendingCalls {
 public:
  PendingCalls() : slots_(kSmallest) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool Contains(rpc::Xid xid) const { return slots_[Find(xid)].used; }

  // Requires !Contains(xid).
  void Insert(rpc::Xid xid, Call* call) {
    if (2 * (size_ + 1) > slots_.size()) Grow();
    slots_[Find(xid)] = {xid, true, call};
    ++size_;
  }
  // Returns the call, or null if it was given up. Requires Contains(xid).
  Call* Get(rpc::Xid xid) const { return slots_[Find(xid)].call; }
  void GiveUp(rpc::Xid xid) { slots_[Find(xid)].call = nullptr; }

  // Removes the call and returns it; null if it was given up. Requires Contains(xid).
  Call* Remove(rpc::Xid xid) {
    size_t hole = Find(xid);
    Call* call = slots_[hole].call;
    slots_[hole] = {};
    --size_;
    // Move later entries of the same run into the hole, so that searches need no tombstones.
    for (size_t i = Next(hole); slots_[i].used; i = Next(i)) {
      const size_t home = Home(slots_[i].xid);
      if (((i - home) & mask()) < ((i - hole) & mask())) continue;
      slots_[hole] = slots_[i];
      slots_[i] = {};
      hole = i;
    }
    return call;
  }

  template <class Visit>
  void ForEach(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.used) visit(slot.xid, slot.call);
    }
  }
  void Clear() {
    slots_.assign(slots_.size(), {});
    size_ = 0;
  }

 private:
  static constexpr size_t kSmallest = 16;  // a power of two

  struct Slot {
    rpc::Xid xid;
    bool used = false;
    Call* call = nullptr;
  };

  size_t mask() const { return slots_.size() - 1; }
  // Clients usually count XIDs up. The multiple of the golden ratio puts successive numbers far from each other, so
  // that used slots form no long runs, which Remove() would have to walk.
  size_t Home(rpc::Xid xid) const {
    return xid.value() * uint64_t{0x9e37'79b9'7f4a'7c15} >> (std::countl_zero(slots_.size()) + 1);
  }
  size_t Next(size_t i) const { return (i + 1) & mask(); }
  // Returns the slot of `xid`, or the free slot for it. A free slot always exists.
  size_t Find(rpc::Xid xid) const {
    size_t i = Home(xid);
    while (slots_[i].used && slots_[i].xid != xid) i = Next(i);
    return i;
  }
  void Grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.used) slots_[Find(slot.xid)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace penstock::rpcrdma
