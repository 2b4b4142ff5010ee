// The longest text of a symbolic link that clients expect. RFC 1813 and RFC 8881 have no limit, but a client must bound
// the reply to READLINK before it sends the call over RDMA (RFC 8267 §3).
#pragma once

#include <cstdint>

namespace penstock::nfs_protocol {

// A Linux server stores no longer path.
inline constexpr uint32_t kMaxPath = 4096;

}  // namespace penstock::nfs_protocol
