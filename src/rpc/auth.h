// The credential of a call: AUTH_NONE and AUTH_SYS (RFC 5531 §10, appendix A).
//
// To add a flavor, add a case to Authenticate() and its fields to Credential. A flavor with its own verifiers in
// replies, or with wrapped arguments and results (RPCSEC_GSS), finds all that it needs in CallHeader, which refers to
// the call.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rpc/header.h"

namespace penstock::rpc {

class ReverseProtection;

inline constexpr uint32_t kNobody = 65534;

// The protection of a call under RPCSEC_GSS: rpc_gss_service_t, RFC 2203 §5.
enum class GssService : uint8_t { kNone = 1, kIntegrity = 2, kPrivacy = 3 };

// The security mechanism of an RPCSEC_GSS context.
enum class GssMechanism : uint8_t {
  kKerberos,
  // The Channel Conjunction Mechanism: rpc/gss/conjunction.h.
  kConjunction,
};
// Returns the DER encoding of the mechanism's object identifier, without tag and length.
ConstBytes OidOf(GssMechanism mechanism);

// The initiator of an RPCSEC_GSS context. Immutable.
struct GssInitiator {
  // The exported name (RFC 2743 §3.2), which includes the mechanism. Equal octets mean the same initiator.
  std::string name;
  // The printable name, such as "alice@EXAMPLE.ORG" or "nfs/client.example.org@EXAMPLE.ORG".
  std::string display;
  // The printable name by which it has called the acceptor; empty if that is unknown.
  std::string acceptor{};
};

struct Credential {
  AuthFlavor flavor = AuthFlavor::AUTH_NONE;
  // RPCSEC_GSS: the ids of the host's user that the initiator maps to, or kNobody if it maps to none. There are no
  // groups.
  uint32_t uid = kNobody;
  uint32_t gid = kNobody;
  uint8_t group_count = 0;
  std::array<uint32_t, 16> group_ids;  // the first group_count
  // RPCSEC_GSS only: the initiator of the context, which outlives the call, the mechanism of the context, and the
  // protection of this call.
  const GssInitiator* initiator = nullptr;
  GssMechanism mechanism = GssMechanism::kKerberos;
  GssService service = GssService::kNone;

  // Supplementary groups.
  std::span<const uint32_t> groups() const { return {group_ids.data(), group_count}; }
};

// Fills in `credential` and returns AUTH_OK, or returns the reason to deny the call.
AuthStatus Authenticate(const CallHeader& header, Credential& credential);

// The fields of a client's AUTH_SYS credential.
struct SystemIdentity {
  std::string machine;  // at most 255 octets
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // at most 16
};

// The encoded credential of a client.
class ClientCredential {
 public:
  // AUTH_NONE.
  ClientCredential() = default;
  // AUTH_SYS. Truncates names and lists of groups that are too long for the protocol.
  explicit ClientCredential(const SystemIdentity& identity);
  // RPCSEC_GSS with this protection. It has no context: a gss::SecuredChannel adds the one that it uses.
  explicit ClientCredential(GssService service);
  // The same for calls to a client: `protection` makes them.
  ClientCredential(GssService service, std::shared_ptr<ReverseProtection> protection);
  // RPCSEC_GSS. A call of procedure 0 with this credential tells the gss::SecuredChannel to give its context back to
  // the server, if it has one (RFC 2203 §5.4).
  static ClientCredential EndOfContext();

  // The result refers to this object.
  OpaqueAuth auth() const { return {flavor_, ConstBytes(body_)}; }
  // Null if calls need no protection in the reverse direction.
  const std::shared_ptr<ReverseProtection>& protection() const { return protection_; }

 private:
  AuthFlavor flavor_ = AuthFlavor::AUTH_NONE;
  std::vector<std::byte> body_;
  std::shared_ptr<ReverseProtection> protection_;
};

}  // namespace penstock::rpc
