// xdr::Print(value) prints a value of any generated type, for logs and tests. The output has a limited length and only
// printable characters, even for values of a hostile peer.
#pragma once

#include <string>
#include <string_view>

#include "xdr/describe.h"

namespace penstock::xdr {

// Builds a text, and stops at a limit on its length.
class Printer {
 public:
  explicit Printer(size_t limit) : limit_(limit) {}

  void Text(std::string_view text);
  void Number(uint64_t value);
  void Number(int64_t value);
  void Number(double value);
  // Appends the text in quotes, with \xNN for unprintable characters. Truncates long texts.
  void Quoted(std::string_view text);
  // Appends the octets in hexadecimal. Truncates long ones, and then appends their number in brackets.
  void Hex(ConstBytes bytes);
  // True if the limit is reached. The caller can then skip the rest of a long array.
  bool full() const { return out_.size() >= limit_; }

  std::string Take() &&;

 private:
  size_t limit_;
  std::string out_;
};

template <class T>
void PrintTo(Printer& out, const T& value) {
  if constexpr (std::same_as<T, Void>) {
    out.Text("void");
  } else if constexpr (std::same_as<T, bool>) {
    out.Text(value ? "true" : "false");
  } else if constexpr (EnumType<T>) {
    const std::string_view name = XdrName(value);
    if (name.empty()) {
      out.Number(static_cast<int64_t>(value));
    } else {
      out.Text(name);
    }
  } else if constexpr (Number<T>) {
    if constexpr (std::floating_point<T>) {
      out.Number(static_cast<double>(value));
    } else if constexpr (std::unsigned_integral<T>) {
      out.Number(static_cast<uint64_t>(value));
    } else {
      out.Number(static_cast<int64_t>(value));
    }
  } else if constexpr (StructType<T>) {
    out.Text(T::kXdrName);
    std::string_view separator = "{";
    T::Members([&](std::string_view name, auto member) {
      out.Text(separator);
      out.Text(name);
      out.Text("=");
      PrintTo(out, value.*member);
      separator = ", ";
      return true;
    });
    out.Text("}");
  } else if constexpr (UnionType<T>) {
    out.Text(T::kXdrName);
    out.Text("{");
    out.Text(T::kDiscriminantName);
    out.Text("=");
    PrintTo(out, value.discriminant());
    value.VisitArm([&]<class Arm>(const Arm& arm) {
      if constexpr (!std::same_as<Arm, Void>) {
        out.Text(", ");
        out.Text(T::kArmNames[value.arm()]);
        out.Text("=");
        PrintTo(out, arm);
      }
    });
    out.Text("}");
  } else if constexpr (OptionalType<T>) {
    if (value) {
      PrintTo(out, *value);
    } else {
      out.Text("none");
    }
  } else if constexpr (PayloadType<T>) {
    out.Text("<");
    out.Number(static_cast<uint64_t>(value.size()));
    out.Text(value.data().is_file() ? " octets of a file>" : " octets>");
  } else if constexpr (FixedBytes<T>) {
    out.Hex(value);
  } else if constexpr (VariableBytes<T>) {
    out.Hex(value.bytes());
  } else if constexpr (StringType<T>) {
    out.Quoted(value);
  } else {
    static_assert(ArrayType<T> || VectorType<T> || ListType<T>);
    out.Text("[");
    std::string_view separator;
    for (const auto& element : value) {
      if (out.full()) break;
      out.Text(separator);
      PrintTo(out, element);
      separator = ", ";
    }
    out.Text("]");
  }
}

// Returns at most about `limit` characters. A truncated text ends with "...".
template <class T>
std::string Print(const T& value, size_t limit = 1024) {
  Printer out(limit);
  PrintTo(out, value);
  return std::move(out).Take();
}

}  // namespace penstock::xdr
