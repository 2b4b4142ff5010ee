// Numbers of octets as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::cli {

// Returns a number of at most three digits with the unit K, M, G, T, P or E, powers of 1024, rounded up as `ls -h` and
// `df -h` do it: "512", "1.5K", "12M".
std::string HumanSize(uint64_t octets);

// Parses a decimal number with an optional unit: K, M, G, T, P, E or KiB, MiB, ... for powers of 1024; KB, MB, ... for
// powers of 1000. Letters of either case. Returns nothing for anything else, and if the number has more than 64 bits.
std::optional<uint64_t> ParseSize(std::string_view text);

}  // namespace penstock::cli
