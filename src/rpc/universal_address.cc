#include "rpc/universal_address.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace penstock::rpc {
namespace {

struct Named {
  std::string_view name;
  Netid netid;
};
constexpr std::array kNetids{
    Named{"tcp", {TransportKind::kTcp, false}},   Named{"tcp6", {TransportKind::kTcp, true}},
    Named{"udp", {TransportKind::kUdp, false}},   Named{"udp6", {TransportKind::kUdp, true}},
    Named{"rdma", {TransportKind::kRdma, false}}, Named{"rdma6", {TransportKind::kRdma, true}}};

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

std::string_view ToString(const Netid& netid) { return std::ranges::find(kNetids, netid, &Named::netid)->name; }

std::optional<Netid> ParseNetid(std::string_view text) {
  const auto* const found = std::ranges::find(kNetids, text, &Named::name);
  if (found == kNetids.end()) return std::nullopt;
  return found->netid;
}

std::optional<SocketAddress> ParseUniversalAddress(const Netid& netid, std::string_view address) {
  const auto low = TakePortHalf(address);
  const auto high = low ? TakePortHalf(address) : std::nullopt;
  if (!high) return std::nullopt;
  const auto port = static_cast<uint16_t>(*high << 8 | *low);

  asio::error_code error;
  const std::string host(address);
  if (netid.v6) {
    const auto ip = asio::ip::make_address_v6(host, error);
    if (!error) return SocketAddress(ip, port);
  } else {
    const auto ip = asio::ip::make_address_v4(host, error);
    if (!error) return SocketAddress(ip, port);
  }
  return std::nullopt;
}

std::optional<SocketAddress> ParseUniversalAddress(std::string_view netid, std::string_view address) {
  const std::optional<Netid> known = ParseNetid(netid);
  if (!known) return std::nullopt;
  return ParseUniversalAddress(*known, address);
}

std::string UniversalAddress(const SocketAddress& address) {
  return fmt::format("{}.{}.{}", address.address().to_string(), address.port() >> 8, address.port() & 0xff);
}

}  // namespace penstock::rpc
