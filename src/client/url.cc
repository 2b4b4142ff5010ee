#include "client/url.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

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

// Returns the reason why the parameters for connections over both transports contradict the others, or nothing.
std::optional<std::string> ContradictionOfMixture(const UrlParts& parts) {
  const Url& url = parts.url;
  if (!parts.is_mixed) return parts.tcp_port ? std::optional("tcpport needs proto=rdma+tcp") : std::nullopt;
  const bool has_slots = !url.version || url.version == Version::k41 || url.version == Version::k42;
  if (!has_slots) return "proto=rdma+tcp needs vers=4.1 or 4.2";
  if (url.nconnect < 2) return "proto=rdma+tcp needs nconnect=2 or more";
  return std::nullopt;
}

// Returns the reason why the options contradict each other, or nothing.
std::optional<std::string> Contradiction(const UrlParts& parts) {
  const Url& url = parts.url;
  const std::string& session_option = parts.session_option;
  if (auto mistake = ContradictionOfMixture(parts)) return mistake;
  if (url.version != Version::kSess01) {
    if (!session_option.empty()) return fmt::format("{} needs vers=4.1-sess01", session_option);
    if (url.protocol == Protocol::kStepUp) return "proto=stepup needs vers=4.1-sess01";
  }
  if (url.transport_security != TransportSecurity::kNone && url.protocol != Protocol::kTcp) {
    return fmt::format("xprtsec={} needs proto=tcp: RDMA has no TLS", NameOf(url.transport_security));
  }
  if (!url.session.persist && !CanPersist(url.version)) return "persist=off needs vers=4.1, 4.2 or 4.1-sess01";
  const bool has_kerberos = url.flavors.UsesGss() || (url.security && !ServicesOf(*url.security).empty());
  if (url.version == Version::kSess01 && has_kerberos) {
    return "vers=4.1-sess01 needs sec=sys or sec=none";
  }
  if (url.version == Version::kSess01 && url.nconnect > 1) return "nconnect needs vers=3, 4.0, 4.1 or 4.2";
  if (url.session.padding > 0 && url.protocol == Protocol::kTcp) return "pad needs proto=rdma or proto=stepup";
  return std::nullopt;
}

// ---- options of several sources ----

std::vector<UrlOption> SplitAt(std::string_view text, char separator) {
  std::vector<UrlOption> options;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    const std::string_view each = text.substr(0, end);
    text = end == text.npos ? "" : text.substr(end + 1);
    if (each.empty()) continue;
    const size_t equals = each.find('=');
    UrlOption option{.name = std::string(each.substr(0, equals))};
    if (equals != each.npos) option.value = each.substr(equals + 1);
    options.push_back(std::move(option));
  }
  return options;
}

// A URL without its options.
struct Skeleton {
  std::string host;
  std::optional<uint16_t> port;
  std::string path = "/";
  std::string_view query;
};

SetupResult<Skeleton> ParseSkeleton(std::string_view text) {
  const auto fail = [text](std::string_view why) {
    return std::unexpected(SetupError{fmt::format("{}: {}", text, why)});
  };
  if (!Url::LooksLikeOne(text)) return fail("not an nfs:// URL");
  std::string_view rest = text.substr(6);
  const size_t question = rest.find('?');
  Skeleton parsed;
  parsed.query = question == rest.npos ? "" : rest.substr(question + 1);
  rest = rest.substr(0, question);
  const size_t slash = rest.find('/');
  if (!ParseAuthority(rest.substr(0, slash), parsed.host, parsed.port)) {
    return fail("is not of the form nfs://HOST[:PORT]/PATH");
  }
  if (slash == rest.npos) return parsed;
  auto path = PercentDecoded(rest.substr(slash));
  if (!path) return fail("has a malformed % escape in its path");
  parsed.path = *std::move(path);
  return parsed;
}

// The options of a URL: those of all sources, from the weakest on.
struct Sources {
  std::span<const UrlOption> defaults;
  std::span<const UrlOption> own;
  std::span<const UrlOption> overrides;

  bool Have(std::string_view name) const {
    const auto has = [name](std::span<const UrlOption> options) {
      return std::ranges::find(options, name, &UrlOption::name) != options.end();
    };
    return has(defaults) || has(own) || has(overrides);
  }
};

struct Made {
  Url url;
  std::optional<std::string> contradiction;
};

// Makes the URL of its parts, except for the option `without`, which may be null.
SetupResult<Made> MakeUrl(std::string_view text, const Skeleton& skeleton, const Sources& sources,
                          const UrlOption* without) {
  Made made;
  Url& url = made.url;
  url.host = skeleton.host;
  url.path = skeleton.path;
  UrlParts parts{.url = url};
  const bool sloppy = sources.Have(kSloppy);
  const auto take = [&](std::span<const UrlOption> options) -> std::optional<std::string> {
    for (const UrlOption& each : options) {
      if (&each == without || (sloppy && !IsUrlParameter(each.name))) continue;
      const auto mistake = SetUrlParameter(parts, each.name, each.value.value_or(""), each.value.has_value());
      if (mistake) return fmt::format("{}: {}", each.source.empty() ? text : each.source, *mistake);
    }
    return std::nullopt;
  };
  if (const auto mistake = take(sources.defaults)) return std::unexpected(SetupError{*mistake});
  if (skeleton.port) parts.port = skeleton.port;
  if (const auto mistake = take(sources.own)) return std::unexpected(SetupError{*mistake});
  if (const auto mistake = take(sources.overrides)) return std::unexpected(SetupError{*mistake});
  if (parts.lock) url.locks = {.flock_on_server = *parts.lock, .posix_on_server = *parts.lock};
  url.finds_port = parts.port.value_or(0) == 0;
  url.port = url.finds_port ? Url::DefaultPort(url.protocol) : *parts.port;
  if (parts.is_mixed) url.tcp_port = parts.tcp_port.value_or(Url::DefaultPort(Protocol::kTcp));
  url.nconnect = parts.nconnect.value_or(parts.is_mixed ? 2 : 1);
  made.contradiction = Contradiction(parts);
  return made;
}

// Returns the sources of the options outside of the URL without which the URL makes sense, as a part of a message.
std::string Blame(std::string_view text, const Skeleton& skeleton, const Sources& sources) {
  for (const auto list : {sources.overrides, sources.defaults}) {
    for (const UrlOption& each : list) {
      const auto other = MakeUrl(text, skeleton, sources, &each);
      if (other && !other->contradiction) return fmt::format("; {} asks for that", each.source);
    }
  }
  return "";
}

}  // namespace

Result<nfs_protocol::SecurityFlavors, std::string> ParseSecurity(std::string_view text) {
  nfs_protocol::SecurityFlavors flavors;
  for (bool more = true; more;) {
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto flavor = nfs_protocol::FlavorNamed(name);
    // The client does not speak CCM.
    if (!flavor || flavor == nfs_protocol::SecurityFlavor::kCcm) {
      return std::unexpected(fmt::format(
          "sec must be none, sys, krb5, krb5i, krb5p or a list of them such as krb5p:krb5i, and '{}' is not", name));
    }
    if (flavors.Has(*flavor)) return std::unexpected(fmt::format("sec has {} twice", name));
    flavors.Add(*flavor);
    more = colon != text.npos;
    if (more) text.remove_prefix(colon + 1);
  }
  return flavors;
}

std::optional<Version> ParseVersion(std::string_view text) {
  if (text == "3") return Version::k3;
  if (text == "4.0") return Version::k40;
  if (text == "4" || text == "4.1") return Version::k41;
  if (text == "4.2") return Version::k42;
  if (text == "4.1-sess01") return Version::kSess01;
  return std::nullopt;
}

Duration RecoveryOptions::CallLimit() const {
  constexpr Duration kLongestSoft = std::chrono::seconds(600);
  switch (kind) {
    case Kind::kTimeout:
      return std::min<Duration>(std::chrono::seconds(timeout), kNoTimeLimit);
    case Kind::kSoft:
      // As Linux counts: the limit of the first attempt, and as much for each repetition.
      if (ReplyLimit() >= kLongestSoft || retrans >= kLongestSoft / ReplyLimit()) return kLongestSoft;
      return std::min(ReplyLimit() * (1 + static_cast<int64_t>(retrans)), kLongestSoft);
    case Kind::kHard:
      return kNoTimeLimit;
  }
  return kNoTimeLimit;
}

void RecoveryOptions::LimitTo(uint32_t seconds) {
  const auto limit = std::chrono::ceil<std::chrono::seconds>(CallLimit()).count();
  kind = Kind::kTimeout;
  timeout = static_cast<uint32_t>(std::min<int64_t>(limit, seconds));
}

std::optional<std::string> Url::HostOf(std::string_view text) {
  auto skeleton = ParseSkeleton(text);
  if (!skeleton) return std::nullopt;
  return std::move(skeleton->host);
}

std::vector<UrlOption> Url::SplitOptions(std::string_view text, std::string_view flag) {
  std::vector<UrlOption> options = SplitAt(text, ',');
  for (UrlOption& each : options) {
    each.source = fmt::format("{} {}{}{}", flag, each.name, each.value ? "=" : "", each.value.value_or(""));
  }
  return options;
}

SetupResult<Url> Url::Parse(std::string_view text, std::span<const UrlOption> defaults,
                            std::span<const UrlOption> overrides) {
  PENSTOCK_TRY(const Skeleton skeleton, ParseSkeleton(text));
  const std::vector<UrlOption> own = SplitAt(skeleton.query, '&');
  const Sources sources{.defaults = defaults, .own = own, .overrides = overrides};
  PENSTOCK_TRY(Made made, MakeUrl(text, skeleton, sources, nullptr));
  if (!made.contradiction) return std::move(made.url);
  return std::unexpected(
      SetupError{fmt::format("{}: {}{}", text, *made.contradiction, Blame(text, skeleton, sources))});
}

}  // namespace penstock::client
