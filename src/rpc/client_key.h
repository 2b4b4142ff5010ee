// The ClientKey of a call's peer, for resources that clients share: see base/client_key.h.
#pragma once

#include <functional>

#include "base/client_key.h"
#include "base/host.h"
#include "rpc/transport.h"

namespace penstock::rpc {

inline ClientKey ClientKeyOf(const Peer& peer) {
  return {.host = std::hash<IpAddress>{}(HostOf(peer.address.address())), .connection = peer.connection};
}

}  // namespace penstock::rpc
