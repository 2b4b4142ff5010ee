// The principal of a call. The server compares principals to tell the owners of client IDs apart (RFC 8881 §18.35.4,
// RFC 7530 §16.33.5).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "rpc/auth.h"

namespace penstock::nfs::v4 {

struct Principal {
  rpc::AuthFlavor flavor = rpc::AuthFlavor::AUTH_NONE;
  uint32_t uid = rpc::kNobody;  // identifies the user of AUTH_SYS; the groups of a user may change
  // RPCSEC_GSS: the initiator's exported name, which includes the mechanism. The local user that it maps to may change.
  std::string name{};

  static Principal Of(const rpc::Credential& credential) {
    if (!credential.initiator) return {credential.flavor, credential.uid};
    return {.flavor = credential.flavor, .name = credential.initiator->name};
  }

  bool operator==(const Principal&) const = default;
};

// The principal of one call, and whether the call was protected in transit.
struct Sender {
  Sender() = default;
  Sender(Principal who, bool protected_call = false)  // NOLINT: most calls have no more than a principal
      : principal(std::move(who)), is_protected(protected_call) {}

  static Sender Of(const rpc::Credential& credential) {
    const bool sealed = credential.flavor == rpc::AuthFlavor::RPCSEC_GSS &&
                        credential.mechanism != rpc::GssMechanism::kConjunction &&
                        credential.service != rpc::GssService::kNone;
    return {Principal::Of(credential), sealed};
  }

  Principal principal;
  bool is_protected = false;  // RPCSEC_GSS with integrity or privacy, of a mechanism that has cryptography
};

}  // namespace penstock::nfs::v4
