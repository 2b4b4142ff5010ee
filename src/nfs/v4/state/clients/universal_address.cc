#include "nfs/v4/state/clients/universal_address.h"

#include <charconv>
#include <string>

namespace penstock::nfs::v4 {
namespace {

// Removes the last number and its dot from `text`, and returns the number. Returns nothing if `text` does not end with
// a dot and an octet.
std::optional<uint16_t> TakePortHalf(std::string_view& text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(dot + 1);
  uint16_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value > 255) return std::nullopt;
  text = text.substr(0, dot);
  return value;
}

}  // namespace

std::optional<SocketAddress> ParseUniversalAddress(std::string_view network_id, std::string_view address) {
  const auto low = TakePortHalf(address);
  const auto high = low ? TakePortHalf(address) : std::nullopt;
  if (!high) return std::nullopt;
  const auto port = static_cast<uint16_t>(*high << 8 | *low);

  asio::error_code error;
  const std::string host(address);
  if (network_id == "tcp") {
    const auto ip = asio::ip::make_address_v4(host, error);
    if (!error) return SocketAddress(ip, port);
  } else if (network_id == "tcp6") {
    const auto ip = asio::ip::make_address_v6(host, error);
    if (!error) return SocketAddress(ip, port);
  }
  return std::nullopt;
}

}  // namespace penstock::nfs::v4
