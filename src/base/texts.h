// Texts for people and programs that several parts write in the same form.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace penstock {

// Two hexadecimal digits for each octet, in small letters.
std::string Hexadecimal(ConstBytes octets);

// A time as in RFC 3339, in UTC: "2026-11-27T08:14:03.120417Z". `time`: microseconds since 1970.
std::string UtcText(int64_t time);

}  // namespace penstock
