// Points in time as people write them.
#pragma once

#include <optional>
#include <string_view>

#include "client/mount.h"

namespace penstock::cli {

// Parses "@SECONDS[.FRACTION]" since 1970, or "YYYY-MM-DD", or "YYYY-MM-DD HH:MM[:SS[.FRACTION]]" with a space or a T
// between. The local time zone, unless Z, +HH:MM or +HHMM follows. Returns nothing for anything else.
std::optional<client::Time> ParseDate(std::string_view text);

}  // namespace penstock::cli
