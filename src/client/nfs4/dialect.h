// The dialects of NFSv4 that a mount can speak, with the differences that concern a client. The client asks a dialect
// about a capability and never compares minor versions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace penstock::client::v4 {

struct Dialect {
  std::string_view name;  // as in `vers=` of a URL
  uint32_t minor_version;
  // EXCHANGE_ID and CREATE_SESSION establish the client (RFC 8881 §2.10). Otherwise SETCLIENTID does (RFC 7530 §9.1.1),
  // and the client takes no callbacks.
  bool has_sessions;
  // Each request of an open-owner or lock-owner has a sequence number, and RELEASE_LOCKOWNER ends the owner (RFC 7530
  // §9.1.7).
  bool counts_owner_seqids;
  // OPEN says which delegation the client wants (RFC 8881 §18.16.3).
  bool has_delegation_wants;
  // OPEN can name the file by its filehandle (CLAIM_FH, RFC 8881 §18.16.3). Otherwise it needs the name (RFC 7530
  // §16.16.1).
  bool opens_by_filehandle;
};

inline constexpr Dialect kVersion40{.name = "4.0",
                                    .minor_version = 0,
                                    .has_sessions = false,
                                    .counts_owner_seqids = true,
                                    .has_delegation_wants = false,
                                    .opens_by_filehandle = false};
inline constexpr Dialect kVersion41{.name = "4.1",
                                    .minor_version = 1,
                                    .has_sessions = true,
                                    .counts_owner_seqids = false,
                                    .has_delegation_wants = true,
                                    .opens_by_filehandle = true};
inline constexpr Dialect kVersion42{.name = "4.2",
                                    .minor_version = 2,
                                    .has_sessions = true,
                                    .counts_owner_seqids = false,
                                    .has_delegation_wants = true,
                                    .opens_by_filehandle = true};

// Returns null if the client does not speak this minor version.
constexpr const Dialect* FindDialect(uint32_t minor_version) {
  for (const Dialect* const dialect : {&kVersion40, &kVersion41, &kVersion42}) {
    if (dialect->minor_version == minor_version) return dialect;
  }
  return nullptr;
}

}  // namespace penstock::client::v4
