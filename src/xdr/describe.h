// Describes the types in the generated aggregates. A concept tells the kind of a type. Its Extent tells the bounds on
// the size of its encoding, which follow from the type alone.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/bytes.h"
#include "xdr/types.h"
#include "xdr/union.h"

namespace penstock::xdr {

// An XDR enum. xdrgen generates XdrIsValid(T) and XdrName(T) for it.
template <class T>
concept EnumType = std::is_enum_v<T> && requires(T value) {
  { XdrIsValid(value) } -> std::same_as<bool>;
  { XdrName(value) } -> std::convertible_to<std::string_view>;
};

// The XDR types int, unsigned int, hyper, unsigned hyper, float and double.
template <class T>
concept Number = std::same_as<T, int32_t> || std::same_as<T, uint32_t> || std::same_as<T, int64_t> ||
                 std::same_as<T, uint64_t> || std::same_as<T, float> || std::same_as<T, double>;

namespace internal {

struct AcceptsMembers {
  template <class Member>
  constexpr bool operator()(std::string_view, Member) const {
    return true;
  }
};

template <class T>
inline constexpr bool kIsArray = false;
template <class T, size_t N>
inline constexpr bool kIsArray<std::array<T, N>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T, size_t N>
inline constexpr bool kIsVector<Vector<T, N>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<List<T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsOpaque = false;
template <size_t N>
inline constexpr bool kIsOpaque<Opaque<N>> = true;
template <size_t N>
inline constexpr bool kIsOpaque<OpaqueView<N>> = true;
template <class T>
inline constexpr bool kIsString = false;
template <size_t N>
inline constexpr bool kIsString<StringView<N>> = true;
template <class T>
inline constexpr bool kIsPayload = false;
template <size_t N>
inline constexpr bool kIsPayload<Payload<N>> = true;

}  // namespace internal

// A struct. T::Members(visit) calls visit(name, &Struct::member) for each member in wire order, as long as visit
// returns true.
template <class T>
concept StructType = requires {
  { T::Members(internal::AcceptsMembers{}) } -> std::same_as<bool>;
};

template <class T>
concept UnionType = requires(T value) {
  typename T::Discriminant;
  typename T::Variant;
  value.VisitArm([](auto&) {});
};

template <class T>
concept FixedBytes = internal::kIsArray<T> && std::same_as<typename T::value_type, std::byte>;
template <class T>
concept ArrayType = internal::kIsArray<T> && !FixedBytes<T>;
template <class T>
concept VectorType = internal::kIsVector<T>;
template <class T>
concept ListType = internal::kIsList<T>;
template <class T>
concept OptionalType = internal::kIsOptional<T>;
template <class T>
concept VariableBytes = internal::kIsOpaque<T>;
template <class T>
concept StringType = internal::kIsString<T>;
template <class T>
concept PayloadType = internal::kIsPayload<T>;

// The bounds on the encoding of a type.
struct Extent {
  // The least number of octets in the reduced stream. Only the length word of a payload counts.
  uint64_t min = 0;
  // The largest number of octets in the reduced stream, without the contents of `x<>` and of lists: see `open`.
  // Saturates.
  uint64_t max = 0;
  // The largest number of payloads. Saturates.
  uint64_t payloads = 0;
  // True if the type has strings, arrays or lists without a bound. `max` then includes only their length word (or their
  // end).
  bool open = false;
  // True if every value takes `min` octets, and the type has no lengths and no choices.
  bool fixed = false;
};

namespace internal {

inline constexpr uint64_t kSaturated = UINT64_MAX;

constexpr uint64_t Add(uint64_t a, uint64_t b) { return b > kSaturated - a ? kSaturated : a + b; }
constexpr uint64_t Multiply(uint64_t a, uint64_t b) { return b != 0 && a > kSaturated / b ? kSaturated : a * b; }

constexpr Extent FixedExtent(uint64_t size) { return {.min = size, .max = size, .fixed = true}; }

constexpr Extent Times(const Extent& one, uint64_t count) {
  return {.min = Multiply(one.min, count),
          .max = Multiply(one.max, count),
          .payloads = Multiply(one.payloads, count),
          .open = one.open,
          .fixed = one.fixed};
}

// The extent of `a` followed by `b`.
constexpr Extent Then(const Extent& a, const Extent& b) {
  return {.min = Add(a.min, b.min),
          .max = Add(a.max, b.max),
          .payloads = Add(a.payloads, b.payloads),
          .open = a.open || b.open,
          .fixed = a.fixed && b.fixed};
}

// The extent of either `a` or `b`.
constexpr Extent Or(const Extent& a, const Extent& b) {
  return {.min = std::min(a.min, b.min),
          .max = std::max(a.max, b.max),
          .payloads = std::max(a.payloads, b.payloads),
          .open = a.open || b.open};
}

template <class T>
constexpr Extent ComputeExtent();

template <class... Arms>
constexpr Extent AnyOf(const OneOf<Arms...>*) {
  const Extent all[] = {ComputeExtent<Arms>()...};
  Extent any = all[0];
  for (const Extent& arm : all) any = Or(any, arm);
  return any;
}

template <class T>
constexpr Extent ComputeExtent() {
  if constexpr (std::same_as<T, Void>) {
    return FixedExtent(0);
  } else if constexpr (std::same_as<T, bool> || EnumType<T>) {
    return FixedExtent(4);
  } else if constexpr (Number<T>) {
    return FixedExtent(sizeof(T));
  } else if constexpr (FixedBytes<T>) {
    return FixedExtent(RoundUp(std::tuple_size_v<T>, 4));
  } else if constexpr (ArrayType<T>) {
    return Times(ComputeExtent<typename T::value_type>(), std::tuple_size_v<T>);
  } else if constexpr (StructType<T>) {
    Extent total = FixedExtent(0);
    T::Members([&]<class Member>(std::string_view, Member T::*) {
      total = Then(total, ComputeExtent<Member>());
      return true;
    });
    return total;
  } else if constexpr (UnionType<T>) {
    Extent arms = AnyOf(static_cast<const typename T::Variant*>(nullptr));
    Extent whole = Then(FixedExtent(4), arms);
    whole.fixed = false;
    return whole;
  } else if constexpr (OptionalType<T>) {
    Extent whole = Then(FixedExtent(4), Or(FixedExtent(0), ComputeExtent<typename T::value_type>()));
    whole.fixed = false;
    return whole;
  } else if constexpr (PayloadType<T>) {
    return {.min = 4, .max = 4, .payloads = 1};
  } else if constexpr (VariableBytes<T> || StringType<T>) {
    if constexpr (T::kMax == kUnbounded) return {.min = 4, .max = 4, .open = true};
    return {.min = 4, .max = 4 + RoundUp(T::kMax, 4)};
  } else if constexpr (VectorType<T>) {
    const Extent element = ComputeExtent<typename T::value_type>();
    if constexpr (T::kMax == kUnbounded) {
      return {.min = 4, .max = 4, .payloads = element.payloads ? kSaturated : 0, .open = true};
    }
    return {.min = 4,
            .max = Add(4, Multiply(element.max, T::kMax)),
            .payloads = Multiply(element.payloads, T::kMax),
            .open = element.open};
  } else {
    static_assert(ListType<T>, "xdrgen does not generate this type");
    return {.min = 4,
            .max = 4,
            .payloads = ComputeExtent<typename T::value_type>().payloads ? kSaturated : 0,
            .open = true};
  }
}

}  // namespace internal

template <class T>
inline constexpr Extent kExtent = internal::ComputeExtent<T>();

}  // namespace penstock::xdr
