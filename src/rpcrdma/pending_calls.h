// The calls of a requester that have no reply yet, by XID.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rpc/transport.h"

namespace penstock::rpcrdma {

// A hash table with open addressing and linear probing: no allocation per call. A call may have been given up by its caller
// (null): its XID and its credit are in use until the reply comes.
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
  // The call; null where it was given up. Requires Contains(xid).
  Call* Get(rpc::Xid xid) const { return slots_[Find(xid)].call; }
  void GiveUp(rpc::Xid xid) { slots_[Find(xid)].call = nullptr; }

  // Requires Contains(xid).
  Call* Remove(rpc::Xid xid) {
    size_t hole = Find(xid);
    Call* call = slots_[hole].call;
    slots_[hole] = {};
    --size_;
    // Whatever was pushed behind the hole moves up, so that searches need no tombstones.
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
  // XIDs often count up: their lowest bits spread well.
  size_t Home(rpc::Xid xid) const { return xid.value() & mask(); }
  size_t Next(size_t i) const { return (i + 1) & mask(); }
  // The slot of `xid`, or the one where it would go. There is always a free one.
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
