// The time of day.
#pragma once

#include <cstdint>
#include <ctime>

namespace penstock::server {

inline int64_t SecondsSince1970() { return ::time(nullptr); }

}  // namespace penstock::server
