// Values of extended attributes as text, as getfattr(1) and setfattr(1) write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace penstock::cli {

// Returns a text in double quotes ("text"), 0x and hexadecimal digits ("hex"), or 0s and base64 ("base64"). Without an
// encoding: text if all octets are printable, and base64 otherwise. In a text, a backslash stands before double quotes
// and backslashes, and before three octal digits of an octet that is not printable.
std::string XattrText(ConstBytes value, std::string_view encoding);

// Reads such a text, and one without quotes, which stands for itself. Returns nothing for malformed digits.
std::optional<std::string> ParseXattr(std::string_view text);

}  // namespace penstock::cli
