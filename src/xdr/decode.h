// xdr::Decode(decoder, value) decodes a value of any generated type from the bytes of a peer, or reports an error.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "xdr/decoder.h"
#include "xdr/describe.h"

namespace penstock::xdr {

namespace internal {

// Loads a value of a fixed size, without a check per member: the counterpart of Store(). Moves `at` past the value. The
// caller has checked that the octets are there. Returns false if a bool or an enum has an invalid value.
template <class T>
bool Load(Decoder& decoder, const std::byte*& at, T& value) {
  if constexpr (std::same_as<T, bool>) {
    const uint32_t word = LoadBig<uint32_t>(at);
    at += 4;
    value = word != 0;
    return word <= 1 || decoder.Fail(Error::kBadBool);
  } else if constexpr (EnumType<T>) {
    value = static_cast<T>(LoadBig<uint32_t>(at));
    at += 4;
    return XdrIsValid(value) || decoder.Fail(Error::kBadEnum);
  } else if constexpr (Number<T>) {
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    value = std::bit_cast<T>(LoadBig<Word>(at));
    at += sizeof(T);
    return true;
  } else if constexpr (FixedBytes<T>) {
    CopyBytes(value, {at, value.size()});
    at += RoundUp(value.size(), 4);
    return true;
  } else if constexpr (ArrayType<T>) {
    for (auto& element : value) {
      if (!Load(decoder, at, element)) return false;
    }
    return true;
  } else if constexpr (StructType<T>) {
    return T::Members([&](std::string_view, auto member)
                          __attribute__((always_inline)) { return Load(decoder, at, value.*member); });
  } else {
    static_assert(std::same_as<T, Void>);
    return true;
  }
}

}  // namespace internal

// Reads the next value. Returns false if the octets are not a valid T; decoder.error() then tells the reason. Views in
// `value` refer to the stream of the message. Before it allocates memory for an array, it checks that the message is
// long enough for the count, so that a peer cannot make it allocate much with a few octets.
template <class T>
[[nodiscard]] bool Decode(Decoder& decoder, T& value) {
  if constexpr (kExtent<T>.fixed) {
    const std::byte* at = nullptr;
    return decoder.Take(at, kExtent<T>.min) && internal::Load(decoder, at, value);
  } else if constexpr (StructType<T>) {
    return T::Members([&](std::string_view, auto member) { return Decode(decoder, value.*member); });
  } else if constexpr (UnionType<T>) {
    typename T::Discriminant discriminant;
    if (!Decode(decoder, discriminant)) return false;
    if (!value.TrySelect(discriminant)) return decoder.Fail(Error::kBadUnion);
    return value.VisitArm([&](auto& arm) { return Decode(decoder, arm); });
  } else if constexpr (OptionalType<T>) {
    bool present;
    if (!decoder.Bool(present)) return false;
    if (!present) {
      value.reset();
      return true;
    }
    return Decode(decoder, value.emplace());
  } else if constexpr (PayloadType<T>) {
    Data data;
    if (!decoder.Payload(data, T::kMax)) return false;
    value = T(std::move(data));
    return true;
  } else if constexpr (VariableBytes<T>) {
    ConstBytes bytes;
    if (!decoder.Opaque(bytes, T::kMax)) return false;
    value = T(bytes);
    return true;
  } else if constexpr (StringType<T>) {
    ConstBytes bytes;
    if (!decoder.Opaque(bytes, T::kMax)) return false;
    value = T(AsText(bytes));
    return true;
  } else if constexpr (VectorType<T>) {
    using Element = typename T::value_type;
    static_assert(kExtent<Element>.min > 0);
    size_t count;
    if (!decoder.Length(count, T::kMax)) return false;
    if (count > decoder.remaining() / kExtent<Element>.min) return decoder.Fail(Error::kTruncated);
    value.clear();
    value.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (!Decode(decoder, value.emplace_back())) return false;
    }
    return true;
  } else if constexpr (ArrayType<T>) {
    for (auto& element : value) {
      if (!Decode(decoder, element)) return false;
    }
    return true;
  } else {
    static_assert(ListType<T>);
    value.clear();
    for (;;) {
      bool present;
      if (!decoder.Bool(present)) return false;
      if (!present) return true;
      if (!Decode(decoder, value.emplace_back())) return false;
    }
  }
}

// Decodes a message that consists of exactly one T. The message must outlive the views in the value.
template <class T>
Result<T, Error> DecodeWhole(const Message& message) {
  Decoder decoder(message);
  T value;
  if (!Decode(decoder, value) || !decoder.Finish()) return std::unexpected(decoder.error());
  return value;
}

}  // namespace penstock::xdr
