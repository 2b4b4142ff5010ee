#include "base/utf8.h"

#include <cstdint>

namespace penstock {

size_t LengthOfUtf8(std::string_view text) {
  if (text.empty()) return 0;
  const auto octet = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = octet(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  // The range of the second octet excludes overlong forms, surrogates, and characters above U+10FFFF.
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (octet(1) < low || octet(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((octet(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = LengthOfUtf8(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t length = LengthOfUtf8(text);
    valid += length > 0 ? text.substr(0, length) : "\xef\xbf\xbd";
    text.remove_prefix(length > 0 ? length : 1);
  }
  return valid;
}

}  // namespace penstock
