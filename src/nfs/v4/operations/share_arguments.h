// Decodes share_access and share_deny of OPEN, OPEN_DOWNGRADE and WANT_DELEGATION (RFC 8881 §18.16.3).
#pragma once

#include <optional>

#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/files/delegation_policy.h"
#include "nfs/v4/state/files/share.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

// Returns the delegation that share_access wants, or nullopt for a value that the dialect does not define
// (NFS4ERR_INVAL).
inline std::optional<Want> WantOf(const Dialect& dialect, uint32_t share_access) {
  // The server ignores these flags: it never tells a client that a delegation has become available.
  constexpr uint32_t kSignals = nfs4::OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL |
                                nfs4::OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED;
  // RFC 9754: OPEN looks at these flags itself.
  constexpr uint32_t kExtensions =
      nfs4::OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS | nfs4::OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION;
  const uint32_t flags = kSignals | (dialect.has_open_arguments() ? kExtensions : 0);
  switch (share_access & ~flags & ~nfs4::OPEN4_SHARE_ACCESS_BOTH) {
    case nfs4::OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE:
      return Want::kNoPreference;
    case nfs4::OPEN4_SHARE_ACCESS_WANT_READ_DELEG:
      return Want::kRead;
    case nfs4::OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG:
      return Want::kWrite;
    case nfs4::OPEN4_SHARE_ACCESS_WANT_ANY_DELEG:
      return Want::kAny;
    case nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG:
      return Want::kNone;
    case nfs4::OPEN4_SHARE_ACCESS_WANT_CANCEL:
      return Want::kCancel;
    default:
      return std::nullopt;
  }
}

// Returns the requested share, or nullopt if it has no access or an undefined value in this dialect (NFS4ERR_INVAL).
inline std::optional<Share> ShareOf(const Dialect& dialect, uint32_t share_access, uint32_t share_deny) {
  const bool is_defined = dialect.has_delegation_wants() ? WantOf(dialect, share_access).has_value()
                                                         : share_access <= nfs4::OPEN4_SHARE_ACCESS_BOTH;
  if (!is_defined) return std::nullopt;
  const Share share{share_access & nfs4::OPEN4_SHARE_ACCESS_BOTH, share_deny};
  if (share.access == 0 || share_deny > nfs4::OPEN4_SHARE_DENY_BOTH) return std::nullopt;
  return share;
}

}  // namespace penstock::nfs::v4
