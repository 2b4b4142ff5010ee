// The parameters of an nfs:// URL, which stand behind its question mark. The table of them is what the parser obeys,
// and what the manual page and the completions show.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "client/url.h"

namespace penstock::client {

struct UrlParameter {
  std::string_view name;
  // The words that are its value, separated by '|', or a word in capitals for any other value. Empty: the parameter is
  // written without a value.
  std::string_view values;
  // Whole sentences for users.
  std::string_view description;
};

// All parameters, in the order of the manual page. An alias follows the parameter that it stands for.
std::span<const UrlParameter> UrlParameters();

// What parameters set, during the parsing of a URL.
struct UrlParts {
  Url& url;
  std::optional<uint16_t> port{};      // of NFS; zero: the client finds it
  bool is_mixed = false;               // "proto=rdma+tcp"
  std::optional<uint16_t> tcp_port{};  // by "tcpport="
  std::optional<uint32_t> nconnect{};
  std::optional<Version> minor_version{};  // the version by "minorversion="
  std::optional<bool> lock{};              // "lock" or "nolock"
  std::string session_option{};            // the last parameter that only sessions of 2004 have; empty: none
};

// Whether SetUrlParameter() knows the parameter.
bool IsUrlParameter(std::string_view name);

// Sets the parameter `key`. `has_value` tells "key=" from "key". Returns the mistake for the user, or nothing.
std::optional<std::string> SetUrlParameter(UrlParts& parts, std::string_view key, std::string_view value,
                                           bool has_value);

// Whether unknown options are ignored where this one is among them.
inline constexpr std::string_view kSloppy = "sloppy";

// Parses a port number, which is not 0.
std::optional<uint16_t> ParsePort(std::string_view text);

}  // namespace penstock::client
