// Discriminated unions (RFC 4506 §4.15): a discriminant, and the arm that it selects.
//
//   READ3res failed{NFS3ERR_STALE};                          // the arm of that value, default-constructed
//   READ3res read{NFS3_OK, READ3resok{.count = 3, .eof = true, .data = ...}};
//   if (read.status() == NFS3_OK) Use(read.resok().data);    // accessors carry the names of the definition
//
// Discriminant and arm always agree: both are set together.
#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "xdr/types.h"

namespace penstock::xdr {

// Of a discriminant that the definition has no arm for.
inline constexpr size_t kNoArm = SIZE_MAX;

// The base of a generated union `Derived`, which says which discriminant selects which of the Arms (ArmOf), and how
// everything is called. All void arms are one, xdr::Void.
template <class Derived, class D, class... Arms>
class Union {
 public:
  using Discriminant = D;
  using Variant = std::variant<Arms...>;

  // A generated union inherits the constructors, so that they have to be public.
  // NOLINTBEGIN(bugprone-crtp-constructor-accessibility)
  // The first case of the definition.
  Union() : Union(Derived::kFirst) {}

  // Requires that `discriminant` has an arm.
  explicit Union(D discriminant) { Select(discriminant); }

  // Requires that `discriminant` selects an arm of this very type.
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
  const Variant& variant() const { return arms_; }

  // The arm of that index. Requires arm() == kIndex.
  template <size_t kIndex>
  auto& Get() {
    assert(arm() == kIndex);
    return *std::get_if<kIndex>(&arms_);
  }
  template <size_t kIndex>
  const auto& Get() const {
    assert(arm() == kIndex);
    return *std::get_if<kIndex>(&arms_);
  }

  // Changes over to `discriminant` and its arm, default-constructed. False, and no change, where it has none.
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

  // Calls visit(arm) with the arm selected, and returns what that returns: a value, of the same type for every arm.
  template <class Visitor>
  auto VisitArm(Visitor&& visit) {
    return VisitOneOf(arms_, visit, std::index_sequence_for<Arms...>());
  }
  template <class Visitor>
  auto VisitArm(Visitor&& visit) const {
    return VisitOneOf(arms_, visit, std::index_sequence_for<Arms...>());
  }

  bool operator==(const Union& other) const {
    return discriminant_ == other.discriminant_ && EqualArms(other, std::index_sequence_for<Arms...>());
  }

 private:
  template <size_t... kIndices>
  void Emplace(size_t index, std::index_sequence<kIndices...>) {
    (void)((kIndices == index && (arms_.template emplace<kIndices>(), true)) || ...);
  }

  template <class Arm, size_t... kIndices>
  bool Assign(size_t index, Arm&& value, std::index_sequence<kIndices...>) {
    return (AssignIf<kIndices>(index, std::forward<Arm>(value)) || ...);
  }
  template <size_t kIndex, class Arm>
  bool AssignIf(size_t index, Arm&& value) {
    if constexpr (std::same_as<std::remove_cvref_t<Arm>, std::variant_alternative_t<kIndex, Variant>>) {
      if (kIndex != index) return false;
      arms_.template emplace<kIndex>(std::forward<Arm>(value));
      return true;
    } else {
      return false;
    }
  }

  // Equal discriminants select the same arm.
  template <size_t... kIndices>
  bool EqualArms(const Union& other, std::index_sequence<kIndices...>) const {
    return ((kIndices == arm() && Get<kIndices>() == other.template Get<kIndices>()) || ...);
  }

  // A chain of comparisons. std::visit makes a table of functions for each visitor, which takes long to compile.
  template <class Variants, class Visitor, size_t... kIndices>
  static auto VisitOneOf(Variants& arms, Visitor& visit, std::index_sequence<kIndices...>) {
    using Value = std::invoke_result_t<Visitor&, decltype(*std::get_if<0>(&arms))>;
    static_assert(!std::is_reference_v<Value>);
    static_assert(
        (std::same_as<Value, std::invoke_result_t<Visitor&, decltype(*std::get_if<kIndices>(&arms))>> && ...));
    assert(!arms.valueless_by_exception());
    if constexpr (std::is_void_v<Value>) {
      (void)((kIndices == arms.index() && (visit(*std::get_if<kIndices>(&arms)), true)) || ...);
    } else {
      Value value{};
      (void)((kIndices == arms.index() && (value = visit(*std::get_if<kIndices>(&arms)), true)) || ...);
      return value;
    }
  }

  D discriminant_{};
  Variant arms_;
};

}  // namespace penstock::xdr
