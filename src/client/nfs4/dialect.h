// The dialects of NFSv4 that a mount can speak, with the differences that concern a client. The client asks a dialect
// about a capability and never compares minor versions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace penstock::client::v4 {

// How the server knows a client and recognizes its repeated requests.
enum class SessionKind : uint8_t {
  kNone,   // RFC 7530: SETCLIENTID; the client takes no callbacks
  kSlots,  // RFC 8881 §2.10: EXCHANGE_ID and CREATE_SESSION; a request has a slot
  kBound,  // draft-talpey-nfsv4-rdma-sess-01: SESSION_CREATE and SESSION_BIND; a request has a streamid
};

struct Dialect {
  std::string_view name;  // as in `vers=` of a URL
  uint32_t minor_version;
  SessionKind sessions;
  // Each request of an open-owner or lock-owner has a sequence number, and RELEASE_LOCKOWNER ends the owner (RFC 7530
  // §9.1.7).
  bool counts_owner_seqids;
  // OPEN says which delegation the client wants (RFC 8881 §18.16.3).
  bool has_delegation_wants;
  // OPEN can name the file by its filehandle (CLAIM_FH, RFC 8881 §18.16.3). Otherwise it needs the name (RFC 7530
  // §16.16.1).
  bool opens_by_filehandle;
  // The client can ask which state the server has revoked, and acknowledges it (TEST_STATEID, FREE_STATEID, RFC 8881
  // §18.48, §18.38).
  bool has_free_stateid;
  // The client can copy, clone, allocate and find holes on the server (RFC 7862), and has extended attributes (RFC
  // 8276).
  bool has_files_of_version_42;

  bool has_sessions() const { return sessions != SessionKind::kNone; }
};

inline constexpr Dialect kVersion40{.name = "4.0",
                                    .minor_version = 0,
                                    .sessions = SessionKind::kNone,
                                    .counts_owner_seqids = true,
                                    .has_delegation_wants = false,
                                    .opens_by_filehandle = false,
                                    .has_free_stateid = false,
                                    .has_files_of_version_42 = false};
inline constexpr Dialect kVersion41{.name = "4.1",
                                    .minor_version = 1,
                                    .sessions = SessionKind::kSlots,
                                    .counts_owner_seqids = false,
                                    .has_delegation_wants = true,
                                    .opens_by_filehandle = true,
                                    .has_free_stateid = true,
                                    .has_files_of_version_42 = false};
inline constexpr Dialect kVersion42{.name = "4.2",
                                    .minor_version = 2,
                                    .sessions = SessionKind::kSlots,
                                    .counts_owner_seqids = false,
                                    .has_delegation_wants = true,
                                    .opens_by_filehandle = true,
                                    .has_free_stateid = true,
                                    .has_files_of_version_42 = true};

// Its operations are those of version 4.0 (draft-talpey-nfsv4-rdma-sess-01 §6), its number on the wire is that of 4.1.
inline constexpr Dialect kSessionsOf2004{.name = "4.1-sess01",
                                         .minor_version = 1,
                                         .sessions = SessionKind::kBound,
                                         .counts_owner_seqids = false,
                                         .has_delegation_wants = false,
                                         .opens_by_filehandle = false,
                                         .has_free_stateid = false,
                                         .has_files_of_version_42 = false};

// Returns the dialect of the RFC for this minor version, or null if the client does not speak it.
constexpr const Dialect* FindDialect(uint32_t minor_version) {
  for (const Dialect* const dialect : {&kVersion40, &kVersion41, &kVersion42}) {
    if (dialect->minor_version == minor_version) return dialect;
  }
  return nullptr;
}

}  // namespace penstock::client::v4
