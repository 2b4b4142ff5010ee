// Discriminated unions (RFC 4506 §4.15): a discriminant, and the arm that it selects. Examples:
//
//   READ3res failed{NFS3ERR_STALE};                          // selects the arm of this value, default-constructed
//   READ3res read{NFS3_OK, READ3resok{.count = 3, .eof = true, .data = ...}};
//   if (read.status() == NFS3_OK) Use(read.resok().data);    // accessors have the names of the definition
//
// The discriminant and the arm always agree, because one call sets both.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "xdr/types.h"

namespace penstock::xdr {

// The arm index of a discriminant without an arm.
inline constexpr size_t kNoArm = SIZE_MAX;

// Holds a value of one of the Arms. It replaces std::variant, for which compilers make a table of functions per
// operation: with std::variant, a test of the union of all NFSv4 operations took twice as long to compile.
template <class... Arms>
class OneOf {
 public:
  template <size_t kIndex>
  using Arm = std::tuple_element_t<kIndex, std::tuple<Arms...>>;

  // Holds the first arm, default-constructed.
  OneOf() { ::new (Place()) Arm<0>(); }
  OneOf(const OneOf& other) { Copy(other, kIndices); }
  OneOf(OneOf&& other) noexcept { Move(other, kIndices); }
  OneOf& operator=(const OneOf& other) {
    if (this != &other) *this = OneOf(other);
    return *this;
  }
  OneOf& operator=(OneOf&& other) noexcept {
    if (this != &other) {
      Destroy(kIndices);
      Move(other, kIndices);
    }
    return *this;
  }
  ~OneOf() { Destroy(kIndices); }

  size_t index() const { return index_; }

  // Requires index() == kIndex.
  template <size_t kIndex>
  Arm<kIndex>& Get() {
    Check(kIndex);
    return *std::launder(reinterpret_cast<Arm<kIndex>*>(bytes_.data()));
  }
  template <size_t kIndex>
  const Arm<kIndex>& Get() const {
    Check(kIndex);
    return *std::launder(reinterpret_cast<const Arm<kIndex>*>(bytes_.data()));
  }

  // Replaces the current arm.
  template <size_t kIndex, class... Arguments>
  void Emplace(Arguments&&... arguments) {
    Destroy(kIndices);
    ::new (Place()) Arm<kIndex>(std::forward<Arguments>(arguments)...);
    index_ = kIndex;
  }

  // Calls visit(arm) with the current arm and returns its result. The result must be a value of the same type for every
  // arm.
  template <class Visitor>
  auto Visit(Visitor& visit) {
    return VisitOf(*this, visit, kIndices);
  }
  template <class Visitor>
  auto Visit(Visitor& visit) const {
    return VisitOf(*this, visit, kIndices);
  }

  bool operator==(const OneOf& other) const { return index_ == other.index_ && EqualTo(other, kIndices); }

 private:
  static constexpr std::index_sequence_for<Arms...> kIndices{};

  void* Place() { return bytes_.data(); }

  // Aborts also in a build without assertions, so that data of a peer can never be used as another type.
  void Check(size_t wanted) const {
    assert(wanted == index_);
    if (wanted != index_) [[unlikely]]
      std::abort();
  }

  // These functions compare the index with each arm in turn. While a constructor runs, no arm is set, because it may
  // throw.
  template <size_t... kEach>
  void Copy(const OneOf& other, std::index_sequence<kEach...>) {
    (void)((kEach == other.index_ && (::new (Place()) Arm<kEach>(other.Get<kEach>()), true)) || ...);
    index_ = other.index_;
  }
  template <size_t... kEach>
  void Move(OneOf& other, std::index_sequence<kEach...>) {
    (void)((kEach == other.index_ && (::new (Place()) Arm<kEach>(std::move(other.Get<kEach>())), true)) || ...);
    index_ = other.index_;
  }
  template <size_t... kEach>
  void Destroy(std::index_sequence<kEach...>) {
    (void)((kEach == index_ && (std::destroy_at(&Get<kEach>()), true)) || ...);
    index_ = kNoArm;
  }

  template <size_t... kEach>
  bool EqualTo(const OneOf& other, std::index_sequence<kEach...>) const {
    return ((kEach == index_ && Get<kEach>() == other.Get<kEach>()) || ...);
  }

  template <class Self, class Visitor, size_t... kEach>
  static auto VisitOf(Self& self, Visitor& visit, std::index_sequence<kEach...>) {
    using Value = std::invoke_result_t<Visitor&, decltype(self.template Get<0>())>;
    static_assert(!std::is_reference_v<Value>);
    static_assert((std::same_as<Value, std::invoke_result_t<Visitor&, decltype(self.template Get<kEach>())>> && ...));
    assert(self.index_ != kNoArm);
    if constexpr (std::is_void_v<Value>) {
      (void)((kEach == self.index_ && (visit(self.template Get<kEach>()), true)) || ...);
    } else {
      Value value{};
      (void)((kEach == self.index_ && (value = visit(self.template Get<kEach>()), true)) || ...);
      return value;
    }
  }

  size_t index_ = 0;
  alignas(Arms...) std::array<std::byte, std::max({sizeof(Arms)...})> bytes_;
};

// The base of a generated union `Derived`. `Derived` maps each discriminant to its arm (ArmOf) and defines all names.
// All void arms share one arm of type xdr::Void.
template <class Derived, class D, class... Arms>
class Union {
 public:
  using Discriminant = D;
  using Variant = OneOf<Arms...>;

  // The constructors must be public, because a generated union inherits them.
  // NOLINTBEGIN(bugprone-crtp-constructor-accessibility)
  // Selects the first case of the definition.
  Union() : Union(Derived::kFirst) {}

  // Requires that `discriminant` has an arm.
  explicit Union(D discriminant) { Select(discriminant); }

  // Requires that `discriminant` selects an arm of exactly this type.
  template <class Arm>
    requires(std::same_as<std::remove_cvref_t<Arm>, Arms> || ...)
  Union(D discriminant, Arm&& value) : discriminant_(discriminant) {
    const bool assigned =
        Assign(Derived::ArmOf(discriminant), std::forward<Arm>(value), std::index_sequence_for<Arms...>());
    assert(assigned);
    (void)assigned;
  }
  // NOLINTEND(bugprone-crtp-constructor-accessibility)

  D discriminant() const { return discriminant_; }
  size_t arm() const { return arms_.index(); }

  // Returns the arm of index kIndex. Requires arm() == kIndex.
  template <size_t kIndex>
  auto& Get() {
    return arms_.template Get<kIndex>();
  }
  template <size_t kIndex>
  const auto& Get() const {
    return arms_.template Get<kIndex>();
  }

  // Selects `discriminant` and its arm, default-constructed. If it has no arm, changes nothing and returns false.
  bool TrySelect(D discriminant) {
    const size_t index = Derived::ArmOf(discriminant);
    if (index == kNoArm) return false;
    discriminant_ = discriminant;
    Emplace(index, std::index_sequence_for<Arms...>());
    return true;
  }
  void Select(D discriminant) {
    const bool selected = TrySelect(discriminant);
    assert(selected);
    (void)selected;
  }

  // Calls visit(arm) with the selected arm and returns its result. The result must be a value of the same type for
  // every arm.
  template <class Visitor>
  auto VisitArm(Visitor&& visit) {
    return arms_.Visit(visit);
  }
  template <class Visitor>
  auto VisitArm(Visitor&& visit) const {
    return arms_.Visit(visit);
  }

  bool operator==(const Union& other) const = default;

 private:
  template <size_t... kIndices>
  void Emplace(size_t index, std::index_sequence<kIndices...>) {
    (void)((kIndices == index && (arms_.template Emplace<kIndices>(), true)) || ...);
  }

  template <class Arm, size_t... kIndices>
  bool Assign(size_t index, Arm&& value, std::index_sequence<kIndices...>) {
    // NOLINTNEXTLINE(bugprone-use-after-move): exactly one call moves the value
    return (AssignIf<kIndices>(index, std::forward<Arm>(value)) || ...);
  }
  template <size_t kIndex, class Arm>
  bool AssignIf(size_t index, Arm&& value) {
    if constexpr (std::same_as<std::remove_cvref_t<Arm>, typename Variant::template Arm<kIndex>>) {
      if (kIndex != index) return false;
      arms_.template Emplace<kIndex>(std::forward<Arm>(value));
      return true;
    } else {
      return false;
    }
  }

  D discriminant_{};
  Variant arms_;
};

}  // namespace penstock::xdr
