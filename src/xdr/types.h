// The C++ types of the members of generated aggregates. The table of all types is in tools/xdrgen/README.md.
//
// Lifetime: Opaque and std::array own their octets. OpaqueView and StringView refer to octets elsewhere; in a decoded
// aggregate they refer to the stream of the message, which must outlive the aggregate. Payload keeps its octets alive
// if the message owns them (a Slice with an owner).
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/data.h"

namespace penstock::xdr {

// The bound of `x<>`: lengths are 32 bits wide (RFC 4506 §4.10).
inline constexpr size_t kUnbounded = 0xffffffff;

// The type of void arguments, results and arms.
using Void = std::monostate;

// A short opaque<N>, such as a file handle or a token. It owns its octets, has an order and can be hashed.
template <size_t N>
class Opaque {
 public:
  static constexpr size_t kMax = N;
  static_assert(N <= 255);

  constexpr Opaque() = default;
  // Requires bytes.size() <= N.
  explicit Opaque(ConstBytes bytes) { Assign(bytes); }
  // For the bytes of a peer. Returns none if they exceed the bound.
  static std::optional<Opaque> From(ConstBytes bytes) {
    if (bytes.size() > N) return std::nullopt;
    return Opaque(bytes);
  }

  // Requires bytes.size() <= N.
  void Assign(ConstBytes bytes) {
    assert(bytes.size() <= N);
    CopyBytes(bytes_, bytes);
    size_ = static_cast<uint8_t>(bytes.size());
  }

  ConstBytes bytes() const { return {bytes_.data(), size_}; }
  const std::byte* data() const { return bytes_.data(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  bool operator==(const Opaque& other) const { return Equal(bytes(), other.bytes()); }
  std::strong_ordering operator<=>(const Opaque& other) const { return AsText(bytes()) <=> AsText(other.bytes()); }

 private:
  std::array<std::byte, N> bytes_{};
  uint8_t size_ = 0;
};

// A view of a long opaque<N> that is not DDP-eligible.
template <size_t N>
class OpaqueView {
 public:
  static constexpr size_t kMax = N;

  constexpr OpaqueView() = default;
  OpaqueView(ConstBytes bytes) : bytes_(bytes) {}  // NOLINT: implicit, because it is only a view

  ConstBytes bytes() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool operator==(const OpaqueView& other) const { return Equal(bytes_, other.bytes_); }

 private:
  ConstBytes bytes_;
};

// A view of a string<N>. XDR strings may contain any octets: zeros, and any encoding.
template <size_t N>
class StringView : public std::string_view {
 public:
  static constexpr size_t kMax = N;

  constexpr StringView() = default;
  constexpr StringView(std::string_view text) : std::string_view(text) {}  // NOLINT: implicit, because it is a view
  constexpr StringView(const char* text) : std::string_view(text) {}       // NOLINT
  StringView(const std::string& text) : std::string_view(text) {}          // NOLINT: the caller owns it
};

// A DDP-eligible opaque<N> or string<N>. The encoder does not copy it into the stream. The decoder takes it from the
// stream or from outside the stream.
template <size_t N = kUnbounded>
class Payload {
 public:
  static constexpr size_t kMax = N;

  Payload() = default;
  Payload(Data data) : data_(std::move(data)) {}             // NOLINT: implicit, because a payload is only data
  Payload(Slice memory) : data_(Data(std::move(memory))) {}  // NOLINT
  // The bytes must outlive the payload, and every message that it is encoded into.
  static Payload Borrowed(ConstBytes bytes) { return Payload(Slice::Borrowed(bytes)); }
  static Payload Borrowed(std::string_view text) { return Borrowed(AsBytes(text)); }

  const Data& data() const& { return data_; }
  Data data() && { return std::move(data_); }
  size_t size() const { return data_.size(); }
  bool empty() const { return data_.empty(); }
  // These require that the octets are in memory and not in a file. The payloads of a decoded message always are.
  ConstBytes bytes() const { return data_.bytes(); }
  std::string_view text() const { return AsText(bytes()); }

  bool operator==(const Payload& other) const {
    if (data_.is_file() || other.data_.is_file()) {
      return data_.file() == other.data_.file() && data_.file_offset() == other.data_.file_offset() &&
             size() == other.size();
    }
    return Equal(bytes(), other.bytes());
  }

 private:
  Data data_;
};

// The type of `T x<N>`.
template <class T, size_t N>
class Vector : public std::vector<T> {
 public:
  static constexpr size_t kMax = N;
  using std::vector<T>::vector;
};

// A linked list of XDR: a chain of optional structs, each with `entry *next` as its last member. The C++ structs have
// no links.
template <class T>
class List : public std::vector<T> {
 public:
  using std::vector<T>::vector;
};

// The procedures of one version of a program. Each is a struct with kProgram, kVersion, kNumber, kName, Arguments and
// Results.
template <class... Procedures>
struct ProcedureList {
  static constexpr size_t kCount = sizeof...(Procedures);

  // Calls visit(std::type_identity<Procedure>{}) for each procedure, in the order of the definition.
  template <class Visitor>
  static constexpr void ForEach(Visitor&& visit) {
    (visit(std::type_identity<Procedures>{}), ...);
  }
};

}  // namespace penstock::xdr

template <size_t N>
struct std::hash<penstock::xdr::Opaque<N>> {
  size_t operator()(const penstock::xdr::Opaque<N>& opaque) const {
    return std::hash<std::string_view>{}(penstock::AsText(opaque.bytes()));
  }
};
