// The messages that tests of a complete requester or responder make by hand.
#pragma once

#include <cstdint>

#include "rpc/xid.h"
#include "rpcrdma/chunks.h"
#include "rpcrdma/header.h"
#include "rpcrdma/test_bytes.h"

namespace penstock::rpcrdma {

// The procedures: RFC 8166 §4.2.4.
inline constexpr uint32_t kMsg = 0, kNomsg = 1, kMsgp = 2, kDone = 3, kError = 4;
// The XID of a call.
inline constexpr uint32_t kXid = 0x1234;

inline ByteVector OctetsOf(const Header& header) {
  ByteVector octets(header.serialized_size());
  header.Serialize(octets);
  return octets;
}

// Returns a message that requests or grants ten credits. `payload` follows its header.
inline ByteVector MessageOf(Procedure procedure, const ChunkLists& chunks, ConstBytes payload, uint32_t xid = kXid) {
  Header header;
  header.fixed = {rpc::Xid(xid), 1, 10, procedure};
  header.chunks = chunks;
  return Concat({OctetsOf(header), payload});
}

}  // namespace penstock::rpcrdma
