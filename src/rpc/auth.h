// Who a call says that it comes from: AUTH_NONE and AUTH_SYS (RFC 5531 §10, appendix A).
//
// Another flavor adds a case to Authenticate() and its fields to Credential; a flavor that has verifiers of its own in
// replies, or wraps arguments and results (RPCSEC_GSS), finds all it needs in CallHeader, which refers to the call.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rpc/header.h"

namespace penstock::rpc {

inline constexpr uint32_t kNobody = 65534;

// How a call under RPCSEC_GSS is protected: rpc_gss_service_t, RFC 2203 §5.
enum class GssService : uint8_t { kNone = 1, kIntegrity = 2, kPrivacy = 3 };

// Who has established an RPCSEC_GSS context. Never changes.
struct GssInitiator {
  // The exported name (RFC 2743 §3.2), which includes the mechanism: initiators are the same where these octets are.
  std::string name;
  // The name for people, such as "alice@EXAMPLE.ORG" or "nfs/client.example.org@EXAMPLE.ORG".
  std::string display;
};

struct Credential {
  AuthFlavor flavor = AuthFlavor::AUTH_NONE;
  // RPCSEC_GSS: of the user of this host whom the initiator is, kNobody where there is none; without groups.
  uint32_t uid = kNobody;
  uint32_t gid = kNobody;
  uint8_t group_count = 0;
  std::array<uint32_t, 16> group_ids;  // the first group_count
  // RPCSEC_GSS alone: who established the context, which outlives the call, and how this call is protected.
  const GssInitiator* initiator = nullptr;
  GssService service = GssService::kNone;

  // Supplementary groups.
  std::span<const uint32_t> groups() const { return {group_ids.data(), group_count}; }
};

// AUTH_OK, and the credential; or why the call is denied.
AuthStatus Authenticate(const CallHeader& header, Credential& credential);

// What a client says of itself.
struct SystemIdentity {
  std::string machine;  // at most 255 octets
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // at most 16
};

// The credential of a client, encoded once.
class ClientCredential {
 public:
  // AUTH_NONE.
  ClientCredential() = default;
  // AUTH_SYS. Longer names and more groups than the protocol carries are cut off.
  explicit ClientCredential(const SystemIdentity& identity);

  // Refers to this object.
  OpaqueAuth auth() const { return {flavor_, ConstBytes(body_)}; }

 private:
  AuthFlavor flavor_ = AuthFlavor::AUTH_NONE;
  std::vector<std::byte> body_;
};

}  // namespace penstock::rpc
