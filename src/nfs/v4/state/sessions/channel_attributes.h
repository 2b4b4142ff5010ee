// What a client asks of a session's channels, and what it gets (RFC 8881 §18.36).
#pragma once

#include <cstddef>

#include "base/result.h"
#include "nfs/v4/state/settings.h"
#include "protocol/nfs4.h"

namespace penstock::nfs::v4 {

// The unreduced octets of the smallest COMPOUND of a session, SEQUENCE alone, and of its reply, with the RPC headers
// (AUTH_NONE).
inline constexpr size_t kSmallestRequest = 88;
inline constexpr size_t kSmallestReply = 80;

// NFS4ERR_TOOSMALL where not even SEQUENCE would fit.
Result<nfs4::channel_attrs4, nfs4::nfsstat4> NegotiateFore(const nfs4::channel_attrs4& asked, const Settings& settings);

// NFS4ERR_TOOSMALL where CB_SEQUENCE with CB_RECALL would not fit.
Result<nfs4::channel_attrs4, nfs4::nfsstat4> NegotiateBack(const nfs4::channel_attrs4& asked);

}  // namespace penstock::nfs::v4
