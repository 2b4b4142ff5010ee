// A first-in-first-out queue in one block of memory. The block grows when it is full and is used again, so that a queue
// in steady state allocates nothing.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace penstock::rdma {

// A T that was moved from holds nothing.
template <class T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& front() { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }
  T& operator[](size_t i) {
    assert(i < size_);
    return slots_[(head_ + i) & (slots_.size() - 1)];
  }

  T& push_back(T&& value) {
    if (size_ == slots_.size()) Grow();
    T& slot = slots_[(head_ + size_) & (slots_.size() - 1)];
    slot = std::move(value);
    ++size_;
    return slot;
  }
  T& push_back(const T& value) { return push_back(T(value)); }
  T pop_front() {
    T value = std::move(front());
    head_ = (head_ + 1) & (slots_.size() - 1);
    --size_;
    return value;
  }
  void clear() {
    while (!empty()) pop_front();
  }

 private:
  void Grow() {
    std::vector<T> bigger(slots_.empty() ? 8 : slots_.size() * 2);
    for (size_t i = 0; i < size_; ++i) bigger[i] = std::move((*this)[i]);
    slots_ = std::move(bigger);
    head_ = 0;
  }
  std::vector<T> slots_;  // its size is a power of two
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace penstock::rdma
