// The part of a call's arguments that a program decodes when it classifies the call and needs again when it executes
// the call. The RPC layer stores the value without knowing its type, in place: no memory is allocated.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

namespace penstock::rpc {

class DecodedHead {
 public:
  template <class Head>
  void Set(const Head& head) {
    static_assert(std::is_trivially_copyable_v<Head> && std::is_trivially_destructible_v<Head>);
    static_assert(sizeof(Head) <= kSize && alignof(Head) <= alignof(std::max_align_t));
    ::new (static_cast<void*>(octets_)) Head(head);
    type_ = &kType<Head>;
  }

  // Returns null if the last value set has another type, or if no value was set.
  template <class Head>
  const Head* Get() const {
    if (type_ != &kType<Head>) return nullptr;
    return std::launder(reinterpret_cast<const Head*>(octets_));
  }

 private:
  static constexpr size_t kSize = 64;
  // The address of a type's variable stands for the type.
  template <class Head>
  static inline char kType = 0;

  const void* type_ = nullptr;
  alignas(std::max_align_t) std::byte octets_[kSize];
};

}  // namespace penstock::rpc
