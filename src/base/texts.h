// Texts for people and programs that several parts write in the same form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace penstock {

// Two hexadecimal digits for each octet, in small letters.
std::string Hexadecimal(ConstBytes octets);
// The reverse, with digits in small or capital letters. Returns false if the text is not of two digits for each of the
// octets.
bool FromHexadecimal(std::string_view digits, Bytes octets);

// A time as in RFC 3339, in UTC: "2026-11-27T08:14:03.120417Z". `time`: microseconds since 1970.
std::string UtcText(int64_t time);

}  // namespace penstock
