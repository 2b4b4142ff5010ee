// JSON (RFC 8259), as far as we write it.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

// Returns the text as a JSON string, in quotes. Control characters and "<" are escaped, so that the string may stand on
// one line, and in a script of an HTML document. Octets that are not UTF-8 become U+FFFD.
std::string QuoteJson(std::string_view text);

}  // namespace penstock
