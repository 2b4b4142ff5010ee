#include "cli/sizes.h"

#include <fmt/core.h>

#include <array>
#include <cctype>
#include <charconv>

namespace penstock::cli {
namespace {

constexpr std::string_view kUnits = "KMGTPE";

}  // namespace

std::string HumanSize(uint64_t octets) {
  if (octets < 1024) return fmt::format("{}", octets);
  // The unit in which the number has at most four digits before its point.
  size_t unit = 0;
  uint64_t whole = octets / 1024;
  bool has_rest = octets % 1024 != 0;
  uint64_t rest = octets % 1024;  // of 1024
  while (whole >= 1024) {
    has_rest = has_rest || rest != 0 || whole % 1024 != 0;
    rest = whole % 1024;
    whole /= 1024;
    ++unit;
  }
  if (whole < 10) {
    // Tenths, rounded up. The octets behind `rest` count as well.
    const uint64_t below = octets & ((uint64_t{1} << (10 * unit)) - 1);
    uint64_t tenths = (rest * 10 + 1023) / 1024;
    if (below != 0 && rest * 10 % 1024 == 0) ++tenths;
    if (tenths == 10) {
      ++whole;
      tenths = 0;
    }
    if (whole < 10) return fmt::format("{}.{}{}", whole, tenths, kUnits[unit]);
    return fmt::format("{}{}", whole, kUnits[unit]);
  }
  if (has_rest) ++whole;
  if (whole == 1024 && unit + 1 < kUnits.size()) return fmt::format("1.0{}", kUnits[unit + 1]);
  return fmt::format("{}{}", whole, kUnits[unit]);
}

std::optional<uint64_t> ParseSize(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.starts_with('-')) return std::nullopt;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (unit.empty()) return number;
  const size_t power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
  if (power == kUnits.npos) return std::nullopt;
  unit.remove_prefix(1);
  const bool decimal = unit == "B" || unit == "b";
  if (!decimal && !unit.empty() && unit != "iB" && unit != "ib" && unit != "IB") return std::nullopt;
  for (size_t i = 0; i <= power; ++i) {
    if (__builtin_mul_overflow(number, uint64_t{decimal ? 1000u : 1024u}, &number)) return std::nullopt;
  }
  return number;
}

}  // namespace penstock::cli
