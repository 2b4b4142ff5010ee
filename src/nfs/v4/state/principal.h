// Who sent a call, as far as the owners of client IDs are told apart (RFC 8881 §18.35.4, RFC 7530 §16.33.5).
#pragma once

#include <cstdint>

#include "rpc/auth.h"

namespace penstock::nfs::v4 {

struct Principal {
  rpc::AuthFlavor flavor = rpc::AuthFlavor::AUTH_NONE;
  uint32_t uid = rpc::kNobody;  // AUTH_SYS knows no more of a user than this; groups come and go

  static Principal Of(const rpc::Credential& credential) { return {credential.flavor, credential.uid}; }

  bool operator==(const Principal&) const = default;
};

}  // namespace penstock::nfs::v4
