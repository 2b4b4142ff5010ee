#include "base/texts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <iterator>
#include <system_error>

namespace penstock {

std::string Hexadecimal(ConstBytes octets) {
  std::string text;
  for (const std::byte octet : octets) {
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned>(octet));
  }
  return text;
}

bool FromHexadecimal(std::string_view digits, Bytes octets) {
  if (digits.size() != 2 * octets.size()) return false;
  for (std::byte& octet : octets) {
    uint8_t value = 0;
    const char* const end = digits.data() + 2;
    const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
    if (error != std::errc() || stop != end) return false;
    octet = std::byte{value};
    digits.remove_prefix(2);
  }
  return true;
}

std::string UtcText(int64_t time) {
  constexpr int64_t kSecond = 1'000'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(static_cast<std::time_t>(time / kSecond)),
                     time % kSecond);
}

}  // namespace penstock
