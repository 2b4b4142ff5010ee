#include "client/url_parameters.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <iterator>

namespace penstock::client {
namespace {

using Mistake = std::optional<std::string>;

struct Setting {
  UrlParameter parameter;
  Mistake (*set)(UrlParts& parts, std::string_view key, std::string_view value);
};

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

std::optional<Protocol> ParseProtocol(std::string_view text) {
  if (text == "tcp") return Protocol::kTcp;
  if (text == "rdma") return Protocol::kRdma;
  if (text == "stepup") return Protocol::kStepUp;
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

// The largest value of the parameter inline.
constexpr uint32_t kMostInline = 112 << 10;

// Stores the value, if there is one; otherwise returns the mistake.
template <class To, class From>
Mistake Set(To& to, const std::optional<From>& value, std::string mistake) {
  if (!value) return mistake;
  to = *value;
  return std::nullopt;
}

Mistake SetProtocol(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.protocol, ParseProtocol(value), "proto must be tcp, rdma or stepup");
}

Mistake SetVersion(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.version, ParseVersion(value), "vers must be 3, 4.0, 4.1, 4.2 or 4.1-sess01");
}

Mistake SetSecurity(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.security, ParseSecurity(value), "sec must be none, sys, krb5, krb5i or krb5p");
}

Mistake SetTransportSecurity(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.transport_security, ParseTransportSecurity(value),
             "xprtsec must be none, opportunistic, tls or mtls");
}

Mistake SetPort(UrlParts& parts, std::string_view key, std::string_view value) {
  return Set(parts.port, ParsePort(value), fmt::format("{} must be a port number", key));
}

Mistake SetMountPort(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.mount_port, ParsePort(value), "mountport must be a port number");
}

Mistake SetIdentity(UrlParts& parts, std::string_view key, std::string_view value) {
  return Set(key == "uid" ? parts.url.uid : parts.url.gid, Number<uint32_t>(value),
             fmt::format("{} must be a number", key));
}

Mistake SetTimeout(UrlParts& parts, std::string_view, std::string_view value) {
  const auto seconds = Number<uint32_t>(value);
  if (!seconds || *seconds == 0) return "timeout must be a number of seconds";
  parts.url.timeout = *seconds;
  return std::nullopt;
}

Mistake SetInline(UrlParts& parts, std::string_view, std::string_view value) {
  const auto octets = Number<uint32_t>(value);
  if (!octets || *octets < 1 || *octets > kMostInline) {
    return fmt::format("inline must be a number of octets from 1 to {}", kMostInline);
  }
  parts.url.inline_below = *octets;
  return std::nullopt;
}

Mistake SetReservedPort(UrlParts& parts, std::string_view key, std::string_view) {
  parts.url.reserved_port = key == "resvport";
  return std::nullopt;
}

Mistake SetCrc(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.crc, OnOrOff(value), "crc must be on or off");
}

Mistake SetPersist(UrlParts& parts, std::string_view, std::string_view value) {
  return Set(parts.url.session.persist, OnOrOff(value), "persist must be on or off");
}

Mistake SetChannels(UrlParts& parts, std::string_view key, std::string_view value) {
  parts.session_option = key;
  const auto number = Number<uint32_t>(value);
  if (!number || *number < 1 || *number > 16) return "channels must be a number from 1 to 16";
  parts.url.session.channels = *number;
  return std::nullopt;
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

constexpr Setting kSettings[] = {
    {{"proto", "tcp|rdma|stepup",
      "The transport. tcp, the default: TCP. rdma: an RDMA device, or software iWARP. stepup: TCP, until the server "
      "turns the connection into an RDMA connection; this needs vers=4.1-sess01."},
     SetProtocol},
    {{"vers", "3|4|4.0|4.1|4.2|4.1-sess01",
      "The version of NFS. 4 means 4.1. 4.1-sess01 means 4.1 with the sessions of draft-talpey-nfsv4-rdma-sess-01. "
      "Without it, the client uses 4.1 if the server has it, and 3 otherwise."},
     SetVersion},
    {{"version", "3|4|4.0|4.1|4.2|4.1-sess01", "The same as vers."}, SetVersion},
    {{"sec", "none|sys|krb5|krb5i|krb5p",
      "The security flavor of all calls. krb5: Kerberos proves who the user is. krb5i: it also protects all data from "
      "changes. krb5p: it also encrypts them. Without it, the environment variable PENSTOCK_SEC decides, or else the "
      "server's preference."},
     SetSecurity},
    {{"xprtsec", "none|opportunistic|tls|mtls",
      "The protection of connections over TCP. tls: TLS, in which the server shows a certificate. mtls: the client "
      "shows one as well. opportunistic: TLS if the server has it. none, the default: plain text."},
     SetTransportSecurity},
    {{"port", "PORT",
      "The port of NFS, from 1 to 65535. It takes precedence over a port behind the host. The default is 2049, and "
      "20049 over RDMA."},
     SetPort},
    {{"nfsport", "PORT", "The same as port."}, SetPort},
    {{"mountport", "PORT", "The port of MOUNT, which version 3 uses. The default is 20048."}, SetMountPort},
    {{"uid", "NUMBER", "The user to present with sec=sys. The default is the user of the process."}, SetIdentity},
    {{"gid", "NUMBER", "The group to present with sec=sys. The default is the group of the process."}, SetIdentity},
    {{"timeout", "SECONDS",
      "The time limit of a call, which includes the time without a connection. The default is 600 seconds."},
     SetTimeout},
    {{"inline", "OCTETS",
      "Over RDMA, data of fewer octets are part of the message, if they fit in one. Longer data move by RDMA Read and "
      "Write. From 1 to 114688; the default is 4096."},
     SetInline},
    {{"crc", "on|off",
      "Whether the client asks for check values over software iWARP. The default is on. If both sides do without them, "
      "data is sent without a copy."},
     SetCrc},
    {{"resvport", "",
      "Connect from a port below 1024, if the process may and one is free. This is the default. Some servers insist on "
      "such a port. RDMA devices choose their ports themselves."},
     SetReservedPort},
    {{"noresvport", "", "Connect from any port."}, SetReservedPort},
    {{"persist", "on|off",
      "Whether the client asks for a session whose replies survive a restart of the server. The default is on. off "
      "needs vers=4.1, 4.2 or 4.1-sess01."},
     SetPersist},
    {{"channels", "NUMBER",
      "With vers=4.1-sess01: the number of operations channels, each over a connection of its own. From 1 to 16; the "
      "default is 1."},
     SetChannels},
    {{"back", "own|shared|off",
      "With vers=4.1-sess01: where the server's calls arrive. own, the default: over a connection of their own. "
      "shared: over the connection of the first operations channel. off: nowhere, so that the server grants no "
      "delegations."},
     SetBack},
    {{"pad", "OCTETS",
      "With vers=4.1-sess01 over RDMA: ask to align the data of WRITEs on this boundary. A power of two from 64 to "
      "4096; the default is 0, which asks for nothing."},
     SetPad},
    {{"chain", "on|off",
      "With vers=4.1-sess01: split a COMPOUND that is larger than the channel allows into chained requests. The "
      "default is on."},
     SetChain},
};

constexpr auto kParameters = [] {
  std::array<UrlParameter, std::size(kSettings)> parameters;
  std::ranges::transform(kSettings, parameters.begin(), &Setting::parameter);
  return parameters;
}();

}  // namespace

std::span<const UrlParameter> UrlParameters() { return kParameters; }

std::optional<std::string> SetUrlParameter(UrlParts& parts, std::string_view key, std::string_view value,
                                           bool has_value) {
  const auto setting = std::ranges::find(kSettings, key, [](const Setting& each) { return each.parameter.name; });
  if (setting == std::end(kSettings) || (has_value && setting->parameter.values.empty())) {
    return fmt::format("unknown option '{}'", key);
  }
  return setting->set(parts, key, value);
}

std::optional<uint16_t> ParsePort(std::string_view text) {
  const auto port = Number<uint16_t>(text);
  return port && *port > 0 ? port : std::nullopt;
}

}  // namespace penstock::client
