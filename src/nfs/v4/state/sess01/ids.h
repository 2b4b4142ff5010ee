// The identifiers of a session of 2004 (draft-talpey-nfsv4-rdma-sess-01).
#pragma once

#include <cstdint>

#include "base/strong.h"

namespace penstock::nfs::v4::sess01 {

// Identifies a channel in its session (§2.1.1). The first one is 1. A session never gives one out twice.
using ChannelId = Strong<struct ChannelIdTag, uint32_t>;
// Identifies a request among those that a client has under way in a session (§3.2).
using StreamId = Strong<struct StreamIdTag, uint32_t>;

}  // namespace penstock::nfs::v4::sess01
