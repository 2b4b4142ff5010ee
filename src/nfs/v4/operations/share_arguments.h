// share_access and share_deny of OPEN, OPEN_DOWNGRADE and WANT_DELEGATION, as clients write them (RFC 8881 §18.16.3).
#pragma once

#include <optional>

#include "nfs/v4/state/files/delegation_policy.h"
#include "nfs/v4/state/files/share.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

// What share_access says of delegations. Empty where it is nonsense: NFS4ERR_INVAL.
inline std::optional<Want> WantOf(uint32_t share_access) {
  // Nobody is told when there could be a delegation after all, so that these ask for nothing.
  constexpr uint32_t kSignals = nfs4::OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL |
                                nfs4::OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED;
  switch (share_access & ~kSignals & ~nfs4::OPEN4_SHARE_ACCESS_BOTH) {
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

// Some access, any denial. Version 4.0 has nothing else in share_access.
inline std::optional<Share> ShareOf(uint32_t share_access, uint32_t share_deny, uint32_t minor_version) {
  if (minor_version > 0 ? !WantOf(share_access) : share_access > nfs4::OPEN4_SHARE_ACCESS_BOTH) return std::nullopt;
  const Share share{share_access & nfs4::OPEN4_SHARE_ACCESS_BOTH, share_deny};
  if (share.access == 0 || share_deny > nfs4::OPEN4_SHARE_DENY_BOTH) return std::nullopt;
  return share;
}

}  // namespace penstock::nfs::v4
