#include "client/url_setters.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/address.h"
#include "rdma/provider.h"

namespace penstock::client {
namespace {

template <class T>
std::optional<T> Number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> OnOrOff(std::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  return std::nullopt;
}

struct Transports {
  Protocol protocol;
  AddressFamily family;
  bool is_mixed = false;
};

// As nfs(5) says, those that end in 6 use IPv6, and the others IPv4.
std::optional<Transports> ParseProtocol(std::string_view text) {
  if (text == "tcp") return Transports{Protocol::kTcp, AddressFamily::kIpv4};
  if (text == "tcp6") return Transports{Protocol::kTcp, AddressFamily::kIpv6};
  if (text == "rdma") return Transports{Protocol::kRdma, AddressFamily::kIpv4};
  if (text == "rdma6") return Transports{Protocol::kRdma, AddressFamily::kIpv6};
  if (text == "rdma+tcp") return Transports{Protocol::kRdma, AddressFamily::kIpv4, true};
  if (text == "rdma6+tcp6") return Transports{Protocol::kRdma, AddressFamily::kIpv6, true};
  if (text == "stepup") return Transports{Protocol::kStepUp, AddressFamily::kAny};
  return std::nullopt;
}

std::optional<BackChannelPlace> ParseBack(std::string_view text) {
  if (text == "own") return BackChannelPlace::kOwn;
  if (text == "shared") return BackChannelPlace::kShared;
  if (text == "off") return BackChannelPlace::kOff;
  return std::nullopt;
}

// Whether the client may ask for this boundary: 0 or a power of two from 64 to 4096.
bool IsPadding(uint32_t boundary) {
  return boundary == 0 || (std::has_single_bit(boundary) && boundary >= 64 && boundary <= 4096);
}

// Stores the value, if there is one; otherwise returns the mistake.
template <class To, class From>
Mistake Set(To& to, const std::optional<From>& value, std::string mistake) {
  if (!value) return mistake;
  to = *value;
  return std::nullopt;
}

// Stores a number in a range; otherwise returns the mistake.
Mistake SetNumber(uint32_t& to, std::string_view key, std::string_view value, uint32_t least, uint32_t most) {
  const auto number = Number<uint32_t>(value);
  if (!number || *number < least || *number > most) {
    return fmt::format("{} must be a number from {} to {}", key, least, most);
  }
  to = *number;
  return std::nullopt;
}

}  // namespace

Mistake SetProtocol(UrlParts& parts, std::string_view key, std::string_view value) {
  const std::string_view name = key == "proto" ? value : key;
  const auto protocol = ParseProtocol(name);
  if (!protocol) {
    return name.starts_with("udp") ? "proto must be tcp or rdma: Penstock has no NFS over UDP"
                                   : "proto must be tcp, tcp6, rdma, rdma6, rdma+tcp, rdma6+tcp6 or stepup";
  }
  parts.url.protocol = protocol->protocol;
  parts.url.family = protocol->family;
  parts.is_mixed = protocol->is_mixed;
  return std::nullopt;
}

Mistake SetVersion(UrlParts& parts, std::string_view key, std::string_view value) {
  const auto version = ParseVersion(value);
  if (!version) return fmt::format("{} must be 3, 4.0, 4.1, 4.2 or 4.1-sess01", key);
  parts.url.version = value == "4" && parts.minor_version ? parts.minor_version : version;
  if (value != "4") parts.minor_version.reset();
  return std::nullopt;
}

Mistake SetMinorVersion(UrlParts& parts, std::string_view, std::string_view value) {
  const auto version = value.size() == 1 ? ParseVersion("4." + std::string(value)) : std::nullopt;
  if (!version) return "minorversion must be 0, 1 or 2";
  if (parts.url.version == Version::k3) return "minorversion needs vers=4";
  parts.url.version = parts.minor_version = version;
  return std::nullopt;
}

Mistake SetSecurity(UrlParts& parts, std::string_view, std::string_view value) {
  auto flavors = ParseSecurity(value);
  if (!flavors) return std::move(flavors).error();
  const bool is_choice = std::next(flavors->begin()) != flavors->end();
  parts.url.security = is_choice ? std::nullopt : std::optional(*flavors->begin());
  parts.url.flavors = is_choice ? *flavors : nfs_protocol::SecurityFlavors();
  return std::nullopt;
}

Mistake SetTransportSecurity(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.transport_security, ParseTransportSecurity(value),
             "xprtsec must be none, opportunistic, tls or mtls");
}

Mistake SetPort(UrlParts& parts, std::string_view key, std::string_view value) {
  return Set(parts.port, Number<uint16_t>(value), fmt::format("{} must be a port number", key));
}

Mistake SetTcpPort(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.tcp_port, ParsePort(value), "tcpport must be a port number from 1 to 65535");
}

Mistake SetReservedPort(UrlParts& parts, std::string_view key, std::string_view) {
  parts.url.reserved_port = key == "resvport";
  return std::nullopt;
}

Mistake SetIdentity(UrlParts& parts, std::string_view key, std::string_view value) {
  return Set(key == "uid" ? parts.url.uid : parts.url.gid, Number<uint32_t>(value),
             fmt::format("{} must be a number", key));
}

Mistake SetInline(UrlParts& parts, std::string_view, std::string_view value) {
  const auto octets = Number<uint32_t>(value);
  if (!octets || *octets < 1 || *octets > rdma::kMostInlineData) {
    return fmt::format("inline must be a number of octets from 1 to {}", rdma::kMostInlineData);
  }
  parts.url.inline_data = *octets;
  return std::nullopt;
}

Mistake SetCrc(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.crc, OnOrOff(value), "crc must be on or off");
}

Mistake SetConnections(UrlParts& parts, std::string_view key, std::string_view value) {
  if (key != "nconnect") return SetNumber(parts.url.max_connect, key, value, 1, 16);
  return SetNumber(parts.nconnect.emplace(), key, value, 1, 16);
}

// nfs(5) says how the sizes are rounded.
Mistake SetTransferSize(UrlParts& parts, std::string_view key, std::string_view value) {
  constexpr uint32_t kUnit = 1024;
  constexpr uint32_t kMost = 1 << 20;
  const auto octets = Number<uint32_t>(value);
  if (!octets) return fmt::format("{} must be a number of octets", key);
  const uint32_t size = *octets < kUnit ? 4096 : std::min(*octets / kUnit * kUnit, kMost);
  (key == "rsize" ? parts.url.read_size : parts.url.write_size) = size;
  return std::nullopt;
}

Mistake SetReadOnly(UrlParts& parts, std::string_view key, std::string_view) {
  parts.url.read_only = key == "ro";
  return std::nullopt;
}

Mistake SetMountPort(UrlParts& parts, std::string_view, std::string_view value) {
  const auto port = Number<uint16_t>(value);
  if (!port) return "mountport must be a port number";
  parts.url.mount_port = *port > 0 ? port : std::nullopt;
  return std::nullopt;
}

Mistake SetMountProtocol(UrlParts& parts, std::string_view, std::string_view value) {
  const bool is_udp = value == "udp" || value == "udp6";
  if (!is_udp && value != "tcp" && value != "tcp6") return "mountproto must be tcp, tcp6, udp or udp6";
  parts.url.mount_over_udp = is_udp;
  parts.url.mount_family = value.ends_with('6') ? AddressFamily::kIpv6 : AddressFamily::kIpv4;
  return std::nullopt;
}

Mistake SetMountHost(UrlParts& parts, std::string_view, std::string_view value) {
  if (value.empty()) return "mounthost must be the name or the address of a host";
  parts.url.mount_host = value;
  return std::nullopt;
}

Mistake SetMountVersion(UrlParts&, std::string_view, std::string_view value) {
  if (value != "3") return "mountvers must be 3";
  return std::nullopt;
}

Mistake SetRecovery(UrlParts& parts, std::string_view key, std::string_view) {
  parts.url.recovery.kind = key == "hard" ? RecoveryOptions::Kind::kHard : RecoveryOptions::Kind::kSoft;
  return std::nullopt;
}

Mistake SetTimeout(UrlParts& parts, std::string_view, std::string_view value) {
  const auto seconds = Number<uint32_t>(value);
  if (!seconds || *seconds == 0) return "timeout must be a number of seconds";
  parts.url.recovery.kind = RecoveryOptions::Kind::kTimeout;
  parts.url.recovery.timeout = *seconds;
  return std::nullopt;
}

Mistake SetTimeo(UrlParts& parts, std::string_view, std::string_view value) {
  const auto tenths = Number<uint32_t>(value);
  if (!tenths || *tenths == 0) return "timeo must be a number of tenths of a second";
  parts.url.recovery.timeo = *tenths;
  return std::nullopt;
}

Mistake SetRetrans(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.recovery.retrans, Number<uint32_t>(value), "retrans must be a number");
}

Mistake SetRetry(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.retry_for_minutes, Number<uint32_t>(value), "retry must be a number of minutes");
}

Mistake SetBackground(UrlParts& parts, std::string_view key, std::string_view) {
  parts.url.in_background = key == "bg";
  return std::nullopt;
}

// A minimum above the maximum raises the maximum, and a maximum below the minimum lowers the minimum.
Mistake SetAttributeTime(UrlParts& parts, std::string_view key, std::string_view value) {
  const auto seconds = Number<uint32_t>(value);
  if (!seconds) return fmt::format("{} must be a number of seconds", key);
  CacheOptions& cache = parts.url.cache;
  const bool all = key == "actimeo";
  const bool of_files = all || key.starts_with("acreg");
  const bool of_directories = all || key.starts_with("acdir");
  const auto set = [&](uint32_t& least, uint32_t& most) {
    if (all || key.ends_with("min")) {
      least = *seconds;
      most = std::max(most, least);
    }
    if (all || key.ends_with("max")) {
      most = *seconds;
      least = std::min(least, most);
    }
  };
  if (of_files) set(cache.file_min, cache.file_max);
  if (of_directories) set(cache.directory_min, cache.directory_max);
  return std::nullopt;
}

Mistake SetCaching(UrlParts& parts, std::string_view key, std::string_view) {
  const bool on = !key.starts_with("no");
  (key.ends_with("cto") ? parts.url.cache.close_to_open : parts.url.cache.attributes) = on;
  return std::nullopt;
}

Mistake SetLookupCache(UrlParts& parts, std::string_view, std::string_view value) {
  using Names = CacheOptions::Names;
  if (value == "all") {
    parts.url.cache.names = Names::kAll;
  } else if (value == "pos" || value == "positive") {
    parts.url.cache.names = Names::kPositive;
  } else if (value == "none") {
    parts.url.cache.names = Names::kNone;
  } else {
    return "lookupcache must be all, none, pos or positive";
  }
  return std::nullopt;
}

Mistake SetLock(UrlParts& parts, std::string_view key, std::string_view) {
  parts.lock = key == "lock";
  return std::nullopt;
}

Mistake SetLocalLock(UrlParts& parts, std::string_view, std::string_view value) {
  if (value != "none" && value != "flock" && value != "posix" && value != "all") {
    return "local_lock must be none, flock, posix or all";
  }
  parts.url.locks = {.flock_on_server = value == "none" || value == "posix",
                     .posix_on_server = value == "none" || value == "flock"};
  return std::nullopt;
}

Mistake SetPersist(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.session.persist, OnOrOff(value), "persist must be on or off");
}

Mistake SetChannels(UrlParts& parts, std::string_view key, std::string_view value) {
  parts.session_option = key;
  return SetNumber(parts.url.session.channels, key, value, 1, 16);
}

Mistake SetBack(UrlParts& parts, std::string_view key, std::string_view value) {
  parts.session_option = key;
  return Set(parts.url.session.back, ParseBack(value), "back must be own, shared or off");
}

Mistake SetPad(UrlParts& parts, std::string_view key, std::string_view value) {
  parts.session_option = key;
  const auto boundary = Number<uint32_t>(value);
  if (!boundary || !IsPadding(*boundary)) return "pad must be 0 or a power of two from 64 to 4096";
  parts.url.session.padding = *boundary;
  return std::nullopt;
}

Mistake SetChain(UrlParts& parts, std::string_view key, std::string_view value) {
  parts.session_option = key;
  return Set(parts.url.session.chain, OnOrOff(value), "chain must be on or off");
}

Mistake Ignore(UrlParts&, std::string_view, std::string_view) { return std::nullopt; }

Mistake IgnoreNumber(UrlParts&, std::string_view key, std::string_view value) {
  if (!Number<uint32_t>(value)) return fmt::format("{} must be a number", key);
  return std::nullopt;
}

Mistake IgnoreAddress(UrlParts&, std::string_view key, std::string_view value) {
  asio::error_code error;
  asio::ip::make_address(value, error);
  if (error) return fmt::format("{} must be an IP address", key);
  return std::nullopt;
}

Mistake AddFlag(UrlParts& parts, std::string_view key, std::string_view) {
  parts.url.file_system_flags.emplace_back(key);
  return std::nullopt;
}

std::optional<uint16_t> ParsePort(std::string_view text) {
  const auto port = Number<uint16_t>(text);
  return port && *port > 0 ? port : std::nullopt;
}

}  // namespace penstock::client
