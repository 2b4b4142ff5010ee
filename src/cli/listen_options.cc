#include "cli/listen_options.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/data.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kNone = "none";
constexpr std::string_view kAll = "*";

std::optional<IpAddress> ParseIpAddress(std::string_view text) {
  asio::error_code error;
  const IpAddress address = asio::ip::make_address(std::string(text), error);
  if (error) return std::nullopt;
  return address;
}

std::optional<uint16_t> ParsePort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

// An address of the command line.
struct Endpoint {
  std::optional<IpAddress> address;  // none: all addresses
  std::optional<uint16_t> port;
};

// Parses ADDRESS or *.
std::optional<Endpoint> ParseAddress(std::string_view text) {
  if (text == kAll) return Endpoint();
  const auto address = ParseIpAddress(text);
  if (!address) return std::nullopt;
  return Endpoint{.address = address, .port = std::nullopt};
}

// Parses ADDRESS[:PORT], where an IPv6 address before a port stands in brackets.
std::optional<Endpoint> ParseEndpoint(std::string_view text) {
  if (const auto address = ParseAddress(text)) return address;
  std::string_view host = text;
  std::optional<uint16_t> port;
  const bool has_brackets = text.starts_with('[');
  const size_t colon = has_brackets ? text.rfind("]:") : text.find(':');
  if (colon != std::string_view::npos) {
    host = text.substr(0, colon + (has_brackets ? 1 : 0));
    port = ParsePort(text.substr(host.size() + 1));
    if (!port) return std::nullopt;
  }
  if (has_brackets) {
    if (host.size() < 2 || !host.ends_with(']')) return std::nullopt;
    host = host.substr(1, host.size() - 2);
  }
  auto endpoint = ParseAddress(host);
  if (!endpoint || (has_brackets && (!endpoint->address || !endpoint->address->is_v6()))) return std::nullopt;
  endpoint->port = port;
  return endpoint;
}

std::unexpected<SetupError> WrongAddress(const std::string& text) {
  return std::unexpected(SetupError{fmt::format("--listen {}: not an IP address", text)});
}

std::unexpected<SetupError> WrongEndpoint(const std::string& flag, const std::string& text) {
  return std::unexpected(SetupError{fmt::format(
      "{} {}: not an ADDRESS or ADDRESS:PORT, such as 192.0.2.1, 192.0.2.1:2049 or [2001:db8::1]:2049", flag, text)});
}

bool HasIpv6() { return static_cast<bool>(FileDescriptor(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))); }

// An address, and the option that it comes from.
struct Given {
  SocketAddress address;
  std::string option;  // "--listen ::"
};

std::string ToText(const SocketAddress& address) {
  return fmt::format("{} port {}", address.address().to_string(), address.port());
}

// Whether a socket at `a` also takes the connections for `b`. In a list, :: does not cover IPv4 addresses.
bool Covers(const SocketAddress& a, const SocketAddress& b) {
  return a.port() == b.port() && a.address().is_v4() == b.address().is_v4() &&
         (a.address() == b.address() || a.address().is_unspecified());
}

// Returns the error of two addresses that cannot stand side by side.
std::optional<SetupError> ConflictOf(const Given& a, const Given& b) {
  if (a.address == b.address) {
    return SetupError{fmt::format("{} and {} are the same address, {}", a.option, b.option, ToText(a.address))};
  }
  const bool covers = Covers(a.address, b.address);
  if (!covers && !Covers(b.address, a.address)) return std::nullopt;
  const auto& [wide, narrow] = covers ? std::pair(a, b) : std::pair(b, a);
  return SetupError{
      fmt::format("{} and {}: {} covers {}", wide.option, narrow.option, ToText(wide.address), ToText(narrow.address))};
}

// The addresses of one transport.
SetupResult<std::vector<Given>> ListOf(const ListenOptions& options, const std::string& flag,
                                       const std::vector<std::string>& own, uint16_t port) {
  std::vector<Given> list;
  const bool has_own = !own.empty();
  if (has_own && std::ranges::find(own, kNone) != own.end()) {
    if (own.size() == 1) return list;
    const std::string& other = own[own.front() == kNone ? 1 : 0];
    return std::unexpected(SetupError{fmt::format("{} {} and {} {} contradict each other", flag, kNone, flag, other)});
  }
  for (const std::string& text : has_own ? own : options.all) {
    const auto endpoint = has_own ? ParseEndpoint(text) : ParseAddress(text);
    if (!endpoint) return has_own ? WrongEndpoint(flag, text) : WrongAddress(text);
    const std::string option = fmt::format("{} {}", has_own ? flag : "--listen", text);
    const auto add = [&](const IpAddress& address) {
      list.push_back({.address = SocketAddress(address, endpoint->port.value_or(port)), .option = option});
    };
    if (endpoint->address) {
      add(*endpoint->address);
    } else {
      add(asio::ip::address_v4::any());
      if (HasIpv6()) add(asio::ip::address_v6::any());
    }
  }
  for (auto each = list.begin(); each != list.end(); ++each) {
    for (auto other = list.begin(); other != each; ++other) {
      if (auto conflict = ConflictOf(*other, *each)) return std::unexpected(*std::move(conflict));
    }
  }
  return list;
}

std::vector<SocketAddress> Plain(const std::vector<Given>& list) {
  std::vector<SocketAddress> addresses;
  for (const Given& each : list) addresses.push_back(each.address);
  return addresses;
}

}  // namespace

SetupResult<void> CheckListenAddress(const std::string& text) {
  if (!ParseAddress(text)) return WrongAddress(text);
  return {};
}

SetupResult<void> CheckListenEndpoint(const std::string& flag, const std::string& text) {
  if (text != kNone && !ParseEndpoint(text)) return WrongEndpoint(flag, text);
  return {};
}

SetupResult<server::Addresses> AddressesOf(const ListenOptions& options) {
  PENSTOCK_TRY(const auto tcp, ListOf(options, "--listen-tcp", options.tcp, options.tcp_port));
  PENSTOCK_TRY(const auto rdma, ListOf(options, "--listen-rdma", options.rdma, options.rdma_port));
  PENSTOCK_TRY(const auto mount, ListOf(options, "--listen-mount", options.mount, options.mount_port));
  if (tcp.empty() && rdma.empty()) {
    return std::unexpected(
        SetupError{"the server offers NFS at no address: see --listen, --listen-tcp, --listen-rdma"});
  }
  // An RDMA adapter has ports of its own, so RDMA may share the number of a port.
  for (const Given& each : tcp) {
    for (const Given& other : mount) {
      if (each.address.port() == 0) continue;
      if (ConflictOf(each, other)) {
        return std::unexpected(SetupError{fmt::format("NFS over TCP ({}) and MOUNT ({}) have the same port {}",
                                                      each.option, other.option, each.address.port())});
      }
    }
  }
  return server::Addresses{.tcp = Plain(tcp), .rdma = Plain(rdma), .mount = Plain(mount)};
}

}  // namespace penstock::cli
