// The identifiers of NFSv4 state.
#pragma once

#include <cstdint>
#include <functional>

#include "base/strong.h"
#include "nfs/file_handle.h"
#include "protocol/nfs4_1.h"

namespace penstock::nfs::v4 {

// clientid4. Its high half tells one instance of the server from the next, so that none is ever valid twice.
using ClientId = Strong<struct ClientIdTag, uint64_t>;
using SlotId = Strong<struct SlotIdTag, uint32_t>;
// Of a slot: RFC 8881 §2.10.6.1. Of an owner in version 4.0: RFC 7530 §9.1.7.
using SequenceId = Strong<struct SequenceIdTag, uint32_t>;
using SessionId = nfs4::sessionid4;

// Names a request that a client has sent in a session (RFC 8881 §2.10.6.3).
struct RequestName {
  SessionId session;
  SlotId slot;
  SequenceId sequence;
  bool operator==(const RequestName&) const = default;
};

}  // namespace penstock::nfs::v4
