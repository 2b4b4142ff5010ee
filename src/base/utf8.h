// UTF-8 (RFC 3629), the encoding of names in NFS version 4.
#pragma once

#include <string_view>

namespace penstock {

// Returns true if `text` is UTF-8: without surrogates, characters above U+10FFFF and overlong forms.
bool IsUtf8(std::string_view text);

}  // namespace penstock
