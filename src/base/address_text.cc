#include "base/address_text.h"

#include <fmt/core.h>

#include <asio/ip/address.hpp>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace penstock {

std::optional<SocketAddress> ParseSocketAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string host(text.substr(0, colon));
  const std::string_view port = text.substr(colon + 1);
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  asio::error_code not_an_address;
  const IpAddress address = asio::ip::make_address(host, not_an_address);
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (not_an_address || address.is_v6() != in_brackets || error != std::errc() || end != port.data() + port.size()) {
    return std::nullopt;
  }
  return SocketAddress(address, number);
}

std::string ToText(const SocketAddress& address) {
  const std::string host = address.address().to_string();
  return address.address().is_v6() ? fmt::format("[{}]:{}", host, address.port())
                                   : fmt::format("{}:{}", host, address.port());
}

}  // namespace penstock
