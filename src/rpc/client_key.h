// The ClientKey of a call's peer, for resources that clients share: see base/client_key.h.
#pragma once

#include "base/client_key.h"
#include "rpc/transport.h"

namespace penstock::rpc {

inline ClientKey ClientKeyOf(const Peer& peer) { return {.host = peer.address.host(), .connection = peer.connection}; }

}  // namespace penstock::rpc
