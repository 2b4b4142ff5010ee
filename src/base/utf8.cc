#include "base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace penstock {

bool IsUtf8(std::string_view text) {
  const auto octet = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = octet(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() - i < length) return false;
    // The range of the second octet excludes overlong forms, surrogates, and characters above U+10FFFF.
    const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (octet(i + 1) < low || octet(i + 1) > high) return false;
    for (size_t k = 2; k < length; ++k) {
      if ((octet(i + k) & 0xc0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

}  // namespace penstock
