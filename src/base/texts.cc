#include "base/texts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iterator>

namespace penstock {

std::string Hexadecimal(ConstBytes octets) {
  std::string text;
  for (const std::byte octet : octets) {
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned>(octet));
  }
  return text;
}

std::string UtcText(int64_t time) {
  constexpr int64_t kSecond = 1'000'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(static_cast<std::time_t>(time / kSecond)),
                     time % kSecond);
}

}  // namespace penstock
