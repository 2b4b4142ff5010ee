// A vector that is empty in most objects that have one. Without elements it is one null pointer, so that an object with
// it is moved and destroyed in a few instructions. The memory is recycled as that of coroutine frames.
#pragma once

#include <cassert>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "base/task.h"

namespace penstock {

// Has the functions of std::vector, with the same meaning, as far as they are needed.
template <class T>
class RareVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  RareVector() = default;
  RareVector(std::initializer_list<T> elements) {
    if (elements.size() != 0) Made() = elements;
  }
  RareVector(RareVector&&) noexcept = default;
  RareVector& operator=(RareVector&&) noexcept = default;
  RareVector(const RareVector& other) { *this = other; }
  RareVector& operator=(const RareVector& other) {
    if (this != &other) vector_.reset(other.empty() ? nullptr : new Vector(*other.vector_));
    return *this;
  }
  ~RareVector() = default;

  bool empty() const { return !vector_ || vector_->empty(); }
  size_t size() const { return vector_ ? vector_->size() : 0; }
  size_t capacity() const { return vector_ ? vector_->capacity() : 0; }
  T* data() { return vector_ ? vector_->data() : nullptr; }
  const T* data() const { return vector_ ? vector_->data() : nullptr; }
  T* begin() { return data(); }
  T* end() { return data() + size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  T& operator[](size_t i) {
    assert(i < size());
    return (*vector_)[i];
  }
  const T& operator[](size_t i) const {
    assert(i < size());
    return (*vector_)[i];
  }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size() - 1]; }
  const T& back() const { return (*this)[size() - 1]; }

  void reserve(size_t count) {
    if (count != 0) Made().reserve(count);
  }
  void push_back(T element) { Made().push_back(std::move(element)); }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    return Made().emplace_back(std::forward<Arguments>(arguments)...);
  }
  void resize(size_t count) {
    if (vector_ || count != 0) Made().resize(count);
  }
  void clear() { vector_.reset(); }

 private:
  struct Vector : std::vector<T, RecyclingAllocator<T>> {
    using std::vector<T, RecyclingAllocator<T>>::vector;
    using std::vector<T, RecyclingAllocator<T>>::operator=;
    static void* operator new(size_t size) { return FrameAllocator::Allocate(size); }
    static void operator delete(void* memory, size_t size) noexcept { FrameAllocator::Free(memory, size); }
  };
  // Is not inlined, so that the destructor of an empty vector is short.
  struct Deleter {
    [[gnu::noinline]] void operator()(Vector* vector) const noexcept { delete vector; }
  };
  Vector& Made() {
    if (!vector_) vector_.reset(new Vector);
    return *vector_;
  }

  std::unique_ptr<Vector, Deleter> vector_;
};

}  // namespace penstock
