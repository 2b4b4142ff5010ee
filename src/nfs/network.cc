#include "nfs/network.h"

#include <fmt/core.h>

#include <bit>
#include <charconv>
#include <cstddef>

#include "base/host.h"

namespace penstock::nfs {
namespace {

// Returns true if the first `bits` bits of two addresses in network byte order are equal.
template <class Octets>
bool SamePrefix(const Octets& a, const Octets& b, unsigned bits) {
  const size_t whole = bits / 8;
  for (size_t i = 0; i < whole; ++i) {
    if (a[i] != b[i]) return false;
  }
  const unsigned rest = bits % 8;
  return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

// Returns the length of a mask in decimals with dots, such as 255.255.252.0, or nothing if its ones are not together.
std::optional<unsigned> LengthOfMask(std::string_view text) {
  std::error_code error;
  const uint32_t mask = asio::ip::make_address_v4(std::string(text), error).to_uint();
  const auto length = static_cast<unsigned>(std::countl_one(mask));
  if (error || std::popcount(mask) != static_cast<int>(length)) return std::nullopt;
  return length;
}

}  // namespace

std::optional<Network> Network::Parse(std::string_view text) {
  const size_t slash = text.find('/');
  std::error_code error;
  IpAddress base = asio::ip::make_address(std::string(text.substr(0, slash)), error);
  if (error) return std::nullopt;
  if (slash == std::string_view::npos) base = Unmapped(base);

  const unsigned widest = base.is_v4() ? 32 : 128;
  if (slash == std::string_view::npos) return Network(base, widest);
  const std::string_view digits = text.substr(slash + 1);
  if (base.is_v4() && digits.find('.') != std::string_view::npos) {
    const auto length = LengthOfMask(digits);
    if (!length) return std::nullopt;
    return Network(base, *length);
  }
  unsigned prefix = 0;
  const auto [end, failure] = std::from_chars(digits.begin(), digits.end(), prefix);
  if (failure != std::errc() || end != digits.end() || prefix > widest) return std::nullopt;
  return Network(base, prefix);
}

bool Network::Contains(const IpAddress& address) const {
  const IpAddress host = Unmapped(address);
  if (host.is_v4() != base_.is_v4()) return false;
  if (host.is_v4()) return SamePrefix(host.to_v4().to_bytes(), base_.to_v4().to_bytes(), prefix_);
  return SamePrefix(host.to_v6().to_bytes(), base_.to_v6().to_bytes(), prefix_);
}

std::string Network::ToString() const { return fmt::format("{}/{}", base_.to_string(), prefix_); }

}  // namespace penstock::nfs
