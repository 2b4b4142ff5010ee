#include "client/url.h"

#include <fmt/core.h>

#include <charconv>

#include "client/url_parameters.h"

namespace penstock::client {
namespace {

// Decodes %XX. Returns nothing if an escape is incomplete or stands for NUL.
std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    uint8_t value = 0;
    const char* digits = text.data() + i + 1;
    if (text.size() - i < 3 || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2 || value == 0) {
      return std::nullopt;
    }
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

// Parses "host", "host:port", "[v6]" or "[v6]:port". Sets `port` only if the text has a port.
bool ParseAuthority(std::string_view text, std::string& host, std::optional<uint16_t>& port) {
  std::string_view rest;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == text.npos) return false;
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else {
    const size_t colon = text.find(':');
    host = text.substr(0, colon);
    rest = colon == text.npos ? "" : text.substr(colon);
  }
  if (host.empty()) return false;
  if (rest.empty()) return true;
  if (!rest.starts_with(':')) return false;
  port = ParsePort(rest.substr(1));
  return port.has_value();
}

// Whether the version has sessions whose replies survive a restart of the server.
bool CanPersist(std::optional<Version> version) {
  return version == Version::k41 || version == Version::k42 || version == Version::kSess01;
}

// Returns the reason why the options contradict each other, or nothing. `session_option` is one that only the sessions
// of 2004 have, or empty.
std::optional<std::string> Contradiction(const Url& url, std::string_view session_option) {
  if (url.version != Version::kSess01) {
    if (!session_option.empty()) return fmt::format("{} needs vers=4.1-sess01", session_option);
    if (url.protocol == Protocol::kStepUp) return "proto=stepup needs vers=4.1-sess01";
  }
  if (url.transport_security != TransportSecurity::kNone && url.protocol != Protocol::kTcp) {
    return fmt::format("xprtsec={} needs proto=tcp: RDMA has no TLS", NameOf(url.transport_security));
  }
  if (!url.session.persist && !CanPersist(url.version)) return "persist=off needs vers=4.1, 4.2 or 4.1-sess01";
  if (url.version == Version::kSess01 && url.security && !ServicesOf(*url.security).empty()) {
    return "vers=4.1-sess01 needs sec=sys or sec=none";
  }
  if (url.session.padding > 0 && url.protocol == Protocol::kTcp) return "pad needs proto=rdma or proto=stepup";
  return std::nullopt;
}

}  // namespace

std::optional<nfs_protocol::SecurityFlavor> ParseSecurity(std::string_view text) {
  const auto flavor = nfs_protocol::FlavorNamed(text);
  // The client does not speak CCM.
  return flavor == nfs_protocol::SecurityFlavor::kCcm ? std::nullopt : flavor;
}

std::optional<Version> ParseVersion(std::string_view text) {
  if (text == "3") return Version::k3;
  if (text == "4.0") return Version::k40;
  if (text == "4" || text == "4.1") return Version::k41;
  if (text == "4.2") return Version::k42;
  if (text == "4.1-sess01") return Version::kSess01;
  return std::nullopt;
}

SetupResult<Url> Url::Parse(std::string_view text, const Overrides& overrides, const Defaults& defaults) {
  const auto fail = [text](std::string_view why) {
    return std::unexpected(SetupError{fmt::format("{}: {}", text, why)});
  };
  if (!LooksLikeOne(text)) return fail("not an nfs:// URL");
  std::string_view rest = text.substr(6);
  const size_t question = rest.find('?');
  std::string_view query = question == rest.npos ? "" : rest.substr(question + 1);
  rest = rest.substr(0, question);
  const size_t slash = rest.find('/');

  Url url;
  url.security = defaults.security;
  url.transport_security = defaults.transport_security;
  std::optional<uint16_t> port;
  UrlParts parameters{.url = url, .port = port};
  if (!ParseAuthority(rest.substr(0, slash), url.host, port)) return fail("is not of the form nfs://HOST[:PORT]/PATH");
  if (slash != rest.npos) {
    auto path = PercentDecoded(rest.substr(slash));
    if (!path) return fail("has a malformed % escape in its path");
    url.path = *std::move(path);
  }
  while (!query.empty()) {
    const size_t ampersand = query.find('&');
    const std::string_view option = query.substr(0, ampersand);
    query = ampersand == query.npos ? "" : query.substr(ampersand + 1);
    if (option.empty()) continue;
    const size_t equals = option.find('=');
    const std::string_view key = option.substr(0, equals);
    const std::string_view value = equals == option.npos ? "" : option.substr(equals + 1);
    if (const auto mistake = SetUrlParameter(parameters, key, value, equals != option.npos)) return fail(*mistake);
  }
  const bool replaces_version = overrides.version && url.version && url.version != overrides.version;
  const bool replaces_security = overrides.security && url.security && url.security != overrides.security;
  if (overrides.version) url.version = overrides.version;
  if (overrides.security) url.security = overrides.security;
  const bool replaces_transport = overrides.transport_security.has_value();
  if (replaces_transport) url.transport_security = *overrides.transport_security;
  if (const auto why = Contradiction(url, parameters.session_option)) {
    if (replaces_version) return fail(*why + ", and --vers replaces the version of the URL");
    if (replaces_transport) return fail(*why + ", and --xprtsec replaces the protection of the URL");
    if (replaces_security) return fail(*why + ", and --sec replaces the flavor of the URL");
    return fail(*why);
  }
  url.port = port.value_or(DefaultPort(url.protocol));
  return url;
}

}  // namespace penstock::client
