// xdr::Encode(encoder, value) encodes a value of any generated type. Other functions here tell the size of an encoding.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <string_view>

#include "xdr/describe.h"
#include "xdr/encoder.h"

namespace penstock::xdr {

namespace internal {

// Stores a value of a fixed size, without a check per member. Returns the address after the value.
template <class T>
std::byte* Store(std::byte* at, const T& value) {
  if constexpr (std::same_as<T, bool>) {
    StoreBig<uint32_t>(at, value ? 1 : 0);
    return at + 4;
  } else if constexpr (EnumType<T>) {
    assert(XdrIsValid(value));
    StoreBig(at, static_cast<uint32_t>(value));
    return at + 4;
  } else if constexpr (Number<T>) {
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    StoreBig(at, std::bit_cast<Word>(value));
    return at + sizeof(T);
  } else if constexpr (FixedBytes<T>) {
    constexpr size_t kPadded = RoundUp(std::tuple_size_v<T>, 4);
    if constexpr (kPadded != std::tuple_size_v<T>) StoreBig<uint32_t>(at + kPadded - 4, 0);
    CopyBytes({at, value.size()}, value);
    return at + kPadded;
  } else if constexpr (ArrayType<T>) {
    for (const auto& element : value) at = Store(at, element);
    return at;
  } else if constexpr (StructType<T>) {
    T::Members([&](std::string_view, auto member) __attribute__((always_inline)) {
      at = Store(at, value.*member);
      return true;
    });
    return at;
  } else {
    static_assert(std::same_as<T, Void>);
    return at;
  }
}

}  // namespace internal

// Writes `value`. Requires that it conforms to its definition: lengths are within their bounds, and enum values are
// defined.
template <class T>
void Encode(Encoder& encoder, const T& value) {
  if constexpr (kExtent<T>.fixed) {
    internal::Store(encoder.Extend(kExtent<T>.min), value);
  } else if constexpr (StructType<T>) {
    T::Members([&](std::string_view, auto member) {
      Encode(encoder, value.*member);
      return true;
    });
  } else if constexpr (UnionType<T>) {
    assert(value.arm() == T::ArmOf(value.discriminant()));
    Encode(encoder, value.discriminant());
    value.VisitArm([&](const auto& arm) { Encode(encoder, arm); });
  } else if constexpr (OptionalType<T>) {
    encoder.Bool(value.has_value());
    if (value) Encode(encoder, *value);
  } else if constexpr (PayloadType<T>) {
    assert(value.size() <= T::kMax);
    encoder.Payload(value.data());
  } else if constexpr (VariableBytes<T>) {
    assert(value.size() <= T::kMax);
    encoder.Opaque(value.bytes());
  } else if constexpr (StringType<T>) {
    assert(value.size() <= T::kMax);
    encoder.String(value);
  } else if constexpr (VectorType<T>) {
    assert(value.size() <= T::kMax);
    encoder.Length(value.size());
    for (const auto& element : value) Encode(encoder, element);
  } else if constexpr (ArrayType<T>) {
    for (const auto& element : value) Encode(encoder, element);
  } else {
    static_assert(ListType<T>);
    for (const auto& element : value) {
      encoder.Bool(true);
      Encode(encoder, element);
    }
    encoder.Bool(false);
  }
}

// The largest number of octets of a T in the reduced stream. It does not include payloads (see kExtent<T>.payloads),
// and, if kExtent<T>.open is true, the contents of `x<>` and of lists. The caller adds these, because the arguments of
// each procedure limit them. The largest replies (RFC 8267 §3) are therefore:
//   READ         MaxSize<READ3res>() + RoundUp(args.count, 4)
//   READLINK     MaxSize<READLINK3res>() + the longest path that the client accepts
//   READDIR      MaxSize<READDIR3res>() + args.count, because the count limits the encoded entries
// Saturates at SIZE_MAX.
template <class T>
constexpr size_t MaxSize() {
  return kExtent<T>.max;
}

// The size of `value` in the unreduced stream, that is, with its payloads.
template <class T>
size_t EncodedSize(const T& value) {
  if constexpr (kExtent<T>.fixed) {
    return kExtent<T>.min;
  } else if constexpr (StructType<T>) {
    size_t total = 0;
    T::Members([&](std::string_view, auto member) {
      total += EncodedSize(value.*member);
      return true;
    });
    return total;
  } else if constexpr (UnionType<T>) {
    return 4 + value.VisitArm([](const auto& arm) { return EncodedSize(arm); });
  } else if constexpr (OptionalType<T>) {
    return 4 + (value ? EncodedSize(*value) : 0);
  } else if constexpr (PayloadType<T> || VariableBytes<T> || StringType<T>) {
    return 4 + RoundUp(value.size(), 4);
  } else {
    size_t total = ArrayType<T> ? 0 : 4;
    for (const auto& element : value) total += EncodedSize(element) + (ListType<T> ? 4 : 0);
    return total;
  }
}

}  // namespace penstock::xdr
