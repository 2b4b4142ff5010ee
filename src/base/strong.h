// Strong types for identifiers: the compiler refuses an XID where an STag is expected.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace penstock {

// `struct XidTag; using Xid = Strong<XidTag, uint32_t>;`
template <class Tag, class T>
class Strong {
 public:
  using Value = T;
  constexpr Strong() = default;
  constexpr explicit Strong(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  constexpr auto operator<=>(const Strong&) const = default;

 private:
  T value_{};
};

}  // namespace penstock

template <class Tag, class T>
struct std::hash<penstock::Strong<Tag, T>> {
  size_t operator()(const penstock::Strong<Tag, T>& id) const { return std::hash<T>{}(id.value()); }
};
