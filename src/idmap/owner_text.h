// The text of an owner or group in NFS version 4 (RFC 8881 §5.9, RFC 7530 §5.9). It is name@domain, or a decimal number
// for an id without a name and for peers that agree on numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::idmap {

// The longest name of a user or group that is sent or looked up, in octets. It leaves room for the name with the domain
// of a directory service.
inline constexpr size_t kMostNameOctets = 512;
// The longest domain (RFC 1035 §2.3.4).
inline constexpr size_t kMostDomainOctets = 255;

// Returns the id that `text` is the decimal number of. Empty for anything else: leading zeros, numbers of more than 32
// bits, and 2^32 - 1, which POSIX uses for "no id".
std::optional<uint32_t> NumberIn(std::string_view text);

// Returns the name before the last '@' of `text` if `domain` is behind it, in letters of either case. Empty if the
// domain is another one, and for names that no user or group can have: empty, too long, or with a NUL octet.
std::optional<std::string_view> NameIn(std::string_view text, std::string_view domain);

// Returns name@domain. Empty if the protocol cannot express the name: it is not UTF-8, or NameIn() would not return it.
std::optional<std::string> OwnerText(std::string_view name, std::string_view domain);

// Whether `text` can be the domain: UTF-8 without '@', spaces and control characters, and neither empty nor too long.
bool IsDomain(std::string_view text);

}  // namespace penstock::idmap
