// Negotiates the attributes of a session's channels (RFC 8881 §18.36).
#pragma once

#include <cstddef>

#include "base/result.h"
#include "nfs/v4/state/settings.h"
#include "protocol/nfs4.h"
#include "rpc/security_flavor.h"

namespace penstock::nfs::v4 {

// The unreduced sizes of the smallest COMPOUND in a session, which has SEQUENCE alone, and of its reply. RPC headers
// with AUTH_NONE are included.
inline constexpr size_t kSmallestRequest = 88;
inline constexpr size_t kSmallestReply = 80;

// Returns the attributes of the fore channel that the server grants: the requested ones within the limits of
// `settings`. NFS4ERR_TOOSMALL if even SEQUENCE alone would not fit.
Result<nfs4::channel_attrs4, nfs4::nfsstat4> NegotiateFore(const nfs4::channel_attrs4& asked, const Settings& settings);

// Whether CB_SEQUENCE with CB_RECALL fits into a backchannel. `protection`: of the calls, or null. RPCSEC_GSS makes
// calls and replies longer.
bool HasRoomForRecall(const nfs4::channel_attrs4& back, const rpc::ReverseProtection* protection);

// Returns the attributes of the backchannel that the server grants. NFS4ERR_TOOSMALL if it has no room for a recall.
Result<nfs4::channel_attrs4, nfs4::nfsstat4> NegotiateBack(const nfs4::channel_attrs4& asked,
                                                           const rpc::ReverseProtection* protection);

}  // namespace penstock::nfs::v4
