// UTF-8 (RFC 3629), the encoding of names in NFS version 4.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

// Returns the number of octets of the character at the beginning of `text`, or 0 if there is none in UTF-8: it has no
// surrogates, characters above U+10FFFF and overlong forms.
size_t LengthOfUtf8(std::string_view text);

// Returns true if all of `text` is UTF-8.
bool IsUtf8(std::string_view text);

// Returns the text with U+FFFD in place of each octet that belongs to no character in UTF-8.
std::string ReplaceInvalidUtf8(std::string_view text);

}  // namespace penstock
